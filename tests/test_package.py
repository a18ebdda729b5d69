"""Laws of the package's own names."""

from dataclasses import fields, replace

import pytest

import attenio
from attenio.catalogue import machine_named, model_named
from attenio.errors import InvalidInput
from attenio.masks import BlockSparse, Documents, SharedPrefix, SlidingWindow
from attenio.weight_gradient import WeightGradient


def test_every_public_name_is_found_and_listed():
    for name in set(attenio.__all__) - {"attention", "explain"}:
        assert getattr(attenio, name).__name__ == name
        assert name in dir(attenio)


def test_modules_of_public_names_need_no_import_of_their_own():
    assert attenio.planning.best_plan is attenio.best_plan


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'best_plam'"):
        attenio.best_plam  # noqa: B018


@pytest.mark.parametrize("machine", ["h100", None, 65536])
@pytest.mark.parametrize("name", ["best_plan", "candidates", "lower_bounds", "nested_plan", "training_plan"])
def test_what_is_no_machine_is_refused_with_the_way_to_one(name, machine):
    with pytest.raises(InvalidInput, match=r"machine is .*; give a Machine, such as machine_named"):
        getattr(attenio, name)(attenio.Workload(n=64, d=8), machine)


@pytest.mark.parametrize("given", [{"n": 1024}, {"n": [64], "masks": "causal"}, {"n": [64], "fast_bytes": 4096}])
def test_a_list_of_a_sweep_that_is_none_is_refused(given):
    with pytest.raises(InvalidInput, match=r"of a sweep is .*; give a list, such as"):
        attenio.SweepGrid(**{"d": [8], "fast_bytes": [4096], **given})


def test_a_report_that_is_no_page_by_its_name_is_refused_before_anything_is_done(tmp_path):
    from attenio.report import write_report, write_training_report

    for write in (write_report, write_training_report):
        with pytest.raises(InvalidInput, match=r"use a name ending in \.html"):
            write(tmp_path / "x.txt", attenio.Workload(n=64, d=8), attenio.Machine.with_fast_bytes(4096))
    assert not list(tmp_path.iterdir())


TWO_OF_EACH = [
    (
        attenio.Workload(n=1024, d=64),
        attenio.Workload(
            queries=5, keys=7, d=8, value_dim=4, heads=6, kv_heads=3, batch=2, mask="causal", dtype="fp32",
            accumulator="fp32", scale=0.5, direction="backward", tolerance=0.1, entry_bound=0.2,
        ),
    ),
    (WeightGradient(n=8, d=2), WeightGradient(queries=5, keys=7, d=3, mask="causal", dtype="fp32", scale=0.5)),
    (machine_named("h100"), machine_named("attenio-512k")),
    (machine_named("h100").levels[0], machine_named("a100").levels[-1]),
    (model_named("llama-3-8b"), model_named("deepseek-v3")),
    (
        attenio.SweepGrid(n=[8], d=[4], fast_bytes=[4096]),
        attenio.SweepGrid(queries=[3], keys=[5], d=[8], masks=["causal"], machines=[machine_named("h100")]),
    ),
    (SlidingWindow(width=3), SlidingWindow(width=5, causal=False)),
    (SharedPrefix(length=3), SharedPrefix(length=5, causal=False)),
    (Documents(lengths=(3, 4)), Documents(lengths=(2, 5), key_lengths=(4, 1), causal=False)),
    (BlockSparse(layout=((True,),)), BlockSparse(layout=((True, False),), query_block=8, key_block=16)),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), TWO_OF_EACH, ids=lambda value: type(value).__name__)
def test_replacing_a_field_gives_the_new_value_or_is_refused(one, other):
    for field in fields(one):
        wanted = getattr(other, field.name)
        try:
            found = replace(one, **{field.name: wanted})
        except InvalidInput as refusal:
            assert "\n" not in str(refusal)
        else:
            assert getattr(found, field.name) == wanted
            same = {f.name for f in fields(one)} - {field.name}
            assert all(getattr(found, name) == getattr(one, name) for name in same)
