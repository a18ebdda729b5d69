"""Laws of whole layers."""

import pytest

from attenio.accelerator.layers import LayerShape, layer_cycles
from attenio.catalogue import machine_named
from attenio.errors import InvalidInput
from attenio.planning import Dataflow

MACHINE = machine_named("attenio-512k")
SMALL = LayerShape(hidden=256, heads=4, feed_forward=1024)


def test_products_with_weights_do_not_depend_on_the_attention() -> None:
    ours, theirs = (
        layer_cycles(MACHINE, n=512, dataflow=dataflow, shape=SMALL)
        for dataflow in (Dataflow.ATTENIO, Dataflow.FLASH_ATTENTION_2)
    )
    assert (ours.projections, ours.feed_forward) == (theirs.projections, theirs.feed_forward)
    assert ours.attention < theirs.attention
    assert ours.total == ours.projections + ours.attention + ours.feed_forward


def test_attention_grows_faster_than_the_rest() -> None:
    short, long = (layer_cycles(MACHINE, n=n, dataflow=Dataflow.ATTENIO, shape=SMALL) for n in (512, 4096))
    assert long.attention / short.attention > long.feed_forward / short.feed_forward


def test_no_product_beats_the_array() -> None:
    found = layer_cycles(MACHINE, n=512, dataflow=Dataflow.ATTENIO, shape=SMALL)
    assert found.feed_forward * 2048 >= 2 * 512 * 256 * 1024


@pytest.mark.parametrize(
    ("widths", "refusal"), [({"hidden": 0}, "hidden is 0"), ({"heads": 5}, "5 heads do not share .* evenly")]
)
def test_a_layer_that_cannot_be_is_refused(widths: dict[str, int], refusal: str) -> None:
    with pytest.raises(InvalidInput, match=refusal):
        LayerShape(**widths)
