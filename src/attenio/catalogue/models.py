"""Named models: the attention of one layer, as the model's authors state it.

>>> from attenio.catalogue import model_named
>>> model_named("llama-3-70b").workload(n=8192).group
8
>>> model_named("mistral-7b").workload(decode=True).mask
SlidingWindow(width=4096, causal=True)
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, Mask, SlidingWindow, mask_from_text
from attenio.quantities import checked_count
from attenio.workload import Workload, checked_lengths

# YAML loads when a file is read: a machine that is given as a value needs none.
if TYPE_CHECKING:
    from attenio.catalogue.yaml_fields import Section

_MODEL_KEYS = (
    "name", "layers", "context", "mask", "dtype", "scale", "sinks", "softcap", "prefill", "decode", "description",
    "source",
)  # fmt: skip
_SHAPE_KEYS = ("heads", "kv_heads", "d", "value_dim", "note", "values_in_keys")


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """Heads of one layer and their widths; ``note`` says what counts of this form leave out, where they do."""

    heads: int
    kv_heads: int
    d: int
    value_dim: int
    note: str = ""
    values_in_keys: bool = False


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a model asks of attention in one of its layers.

    ``decode`` differs from ``prefill`` only where a model computes the two differently (DeepSeek's latent attention).
    ``context`` is the length used when none is asked for; ``scale`` is given where it is not 1/sqrt(d). ``sinks``: each
    query head has one. ``softcap``: the cap on scores.
    """

    name: str
    layers: int
    prefill: HeadShape
    decode: HeadShape
    context: int | None
    mask: Dense | Causal | SlidingWindow
    dtype: ElementType
    scale: float | None = None
    description: str = ""
    source: str = ""
    sinks: bool = False
    softcap: float | None = None

    def __post_init__(self) -> None:
        checked_count(f"layers of {self.name}", self.layers)
        for shape in (self.prefill, self.decode):
            # a workload checks heads and widths; one of a single key is the smallest that does
            _workload(shape, queries=1, keys=1)

    def workload(
        self,
        *,
        n: int | None = None,
        queries: int | None = None,
        keys: int | None = None,
        batch: int = 1,
        decode: bool = False,
    ) -> Workload:
        """One layer's attention over ``n`` positions (the model's own context when no length is given).

        ``decode`` asks about one query per sequence against ``n`` keys.
        """
        if queries is None and decode:
            queries = 1
        if n is not None:
            checked_lengths(n, queries, keys)  # refuses an n that the two contradict
        length = n if n is not None else (keys if keys is not None else self.context)
        if length is None:
            raise InvalidInput(f"model {self.name} states no context length; give n")
        keys = keys if keys is not None else length
        queries = length if queries is None else queries
        shape = self.decode if queries == 1 else self.prefill
        asked = _workload(shape, queries=queries, keys=keys)
        formed = replace(asked, sinks=self.sinks, softcap=self.softcap)
        return replace(formed, batch=batch, mask=self._mask_over(keys), dtype=self.dtype, scale=self.scale)

    def notes(self, workload: Workload) -> tuple[str, ...]:
        """What to know beside the counts of a workload of this model; nothing where its widths were changed."""
        form, shape = ("decode", self.decode) if workload.queries == 1 else ("prefill", self.prefill)
        unchanged = (workload.kv_heads, workload.d, workload.value_dim) == (shape.kv_heads, shape.d, shape.value_dim)
        notes = [f"{self.name} {form}: {shape.note}"] if shape.note and unchanged else []
        left = ["sinks"] * (self.sinks and not workload.sinks)
        left += ["cap on scores"] * (self.softcap is not None and workload.softcap is None)
        return (*notes, f"{self.name}: its {' and '.join(left)} left out here") if left else tuple(notes)

    def _mask_over(self, keys: int) -> Mask:
        # until a sequence outgrows the window, every key up to the query is still inside it
        if isinstance(self.mask, SlidingWindow) and self.mask.width >= keys:
            return Causal() if self.mask.causal else Dense()
        return self.mask


@lru_cache(maxsize=1)
def models() -> tuple[Model, ...]:
    """Every model of the catalogue, in its order."""
    from attenio.catalogue.yaml_fields import sections_in

    text = resources.files("attenio.catalogue").joinpath("models.yaml").read_text(encoding="utf-8")
    return tuple(_model(section) for section in sections_in(text, "models.yaml"))


def _model(section: "Section") -> Model:
    section.only(_MODEL_KEYS)
    for key in ("name", "layers", "context", "mask", "dtype", "prefill", "source"):
        section.required(key)
    prefill = _shape(section.section("prefill"))
    mask = mask_from_text(section.text("mask"))
    if not isinstance(mask, Dense | Causal | SlidingWindow):
        raise section.error(f"mask {mask} depends on the input, not on the model; use dense, causal or window", "mask")
    return Model(
        name=section.text("name"),
        layers=section.count("layers"),
        prefill=prefill,
        decode=_shape(section.section("decode")) if "decode" in section else prefill,
        context=section.count("context"),
        mask=mask,
        dtype=ElementType.named(section.text("dtype")),
        scale=float(section.text("scale")) if "scale" in section else None,
        description=section.text("description"),
        source=section.text("source"),
        sinks=section.text("sinks") == "true",
        softcap=float(section.text("softcap")) if "softcap" in section else None,
    )


def _shape(section: "Section") -> HeadShape:
    section.only(_SHAPE_KEYS)
    for key in ("heads", "d"):
        section.required(key)
    heads, d = section.count("heads"), section.count("d")
    return HeadShape(
        heads=heads,
        kv_heads=section.count("kv_heads") if "kv_heads" in section else heads,
        d=d,
        value_dim=section.count("value_dim") if "value_dim" in section else d,
        note=section.text("note"),
        values_in_keys=section.text("values_in_keys") == "true",
    )


def _workload(shape: HeadShape, *, queries: int, keys: int) -> Workload:
    return Workload(
        queries=queries,
        keys=keys,
        d=shape.d,
        value_dim=shape.value_dim,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        values_in_keys=shape.values_in_keys,
    )
