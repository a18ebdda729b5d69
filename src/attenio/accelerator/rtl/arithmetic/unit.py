"""What units that make one number of two have in common."""

from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.arithmetic.floats import HALF, Format
from attenio.accelerator.rtl.parts import Part


class BinaryUnit(Part):
    """``result`` of ``a`` and ``b``, without registers."""

    clocked = False

    def __init__(self, form: Format = HALF) -> None:
        self.form = form
        super().__init__({**{name: In(form.bits) for name in "ab"}, "result": Out(form.bits)})
