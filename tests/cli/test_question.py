"""Laws of the options that describe a workload and a machine."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.catalogue import model_named, models
from attenio.cli.question import Question, dataflow_named
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, Documents
from attenio.planning import Dataflow
from attenio.workload import Workload

laws = settings(deadline=None, derandomize=True, max_examples=20)
counts = st.integers(1, 512)
any_model = st.sampled_from(models())


def test_without_options_there_is_one_dense_head() -> None:
    assert Question().workload(4096) == Workload(n=4096, d=64)
    assert Question().chosen_machine().name == "attenio-512k"


@laws
@given(counts, counts, counts, counts, counts, st.integers(1, 8))
def test_what_is_typed_is_what_is_asked(
    queries: int, keys: int, d: int, value_dim: int, kv_heads: int, group: int
) -> None:
    question = Question(
        queries=str(queries),
        keys=f"{keys:_}",
        d=str(d),
        value_dim=str(value_dim),
        heads=str(kv_heads * group),
        kv_heads=str(kv_heads),
        batch="3",
        mask="causal",
        dtype="FP8",
        accumulator="fp32",
        scale="0.5",
    )
    assert question.workload(7) == Workload(
        queries=queries,
        keys=keys,
        d=d,
        value_dim=value_dim,
        heads=kv_heads * group,
        kv_heads=kv_heads,
        batch=3,
        mask=Causal(),
        dtype="fp8",
        accumulator="fp32",
        scale=0.5,
    )


@pytest.mark.parametrize(
    ("question", "queries", "keys"),
    [
        (Question(n="2K"), 2048, 2048),
        (Question(keys="2K"), 2048, 2048),
        (Question(queries="5"), 5, 100),
        (Question(queries="5", keys="9"), 5, 9),
        (Question(n="9", queries="5"), 5, 9),
        (Question(n="9", keys="5"), 9, 5),
        (Question(decode=True), 1, 100),
        (Question(decode=True, n="9"), 1, 9),
        (Question(decode=True, keys="9", queries="1"), 1, 9),
        (Question(mask="documents:7,6"), 13, 13),
    ],
)
def test_lengths_follow_from_whatever_is_given(question: Question, queries: int, keys: int) -> None:
    workload = question.workload(100)
    assert (workload.queries, workload.keys) == (queries, keys)


@laws
@given(any_model, counts, counts)
def test_a_model_fills_in_what_is_not_given(model_, n: int, batch: int) -> None:  # type: ignore[no-untyped-def]
    name = model_.name
    assert Question(model=name, n=str(n), batch=str(batch)).workload(7) == model_.workload(n=n, batch=batch)
    assert Question(model=name.upper(), decode=True).workload(7) == model_.workload(decode=True)
    assert Question(model=name).workload(7) == model_.workload()
    executed = Question(model=name).workload(1024, executed=True)
    assert executed == model_.workload(n=min(model_.context, 1024))


def test_other_options_override_a_model() -> None:
    base = model_named("llama-3-70b").workload(n=4096)
    changed = Question(
        model="llama-3-70b", n="4K", heads="8", kv_heads="1", mask="dense", dtype="fp8", accumulator="fp32", scale="2"
    ).workload(7)
    assert (changed.heads, changed.kv_heads, changed.d) == (8, 1, base.d)
    assert (changed.mask, changed.dtype, changed.scale) == (Dense(), ElementType.FP8, 2.0)
    assert changed.accumulator is ElementType.FP32


def test_widths_and_heads_that_are_equal_in_a_model_stay_equal() -> None:
    narrow = Question(model="gemma-7b", d="128", heads="4").workload(7)
    assert (narrow.d, narrow.value_dim, narrow.heads, narrow.kv_heads) == (128, 128, 4, 4)
    latent = Question(model="deepseek-v3", d="96").workload(7)
    assert (latent.d, latent.value_dim) == (96, 128)


def test_a_model_takes_lengths_from_documents_too() -> None:
    workload = Question(model="llama-3-8b", mask="documents:7,6").workload(100)
    assert (workload.keys, workload.mask) == (13, Documents(lengths=(7, 6)))


def test_a_config_file_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"n_head": 2, "n_embd": 64, "n_layer": 1, "n_positions": 512}))
    workload = Question(model=str(path)).workload(7)
    assert (workload.heads, workload.d, workload.keys) == (2, 32, 512)


def test_a_bare_folder_is_a_model_unless_the_catalogue_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "hf", tmp_path / "gemma-2b"):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"n_head": 2, "n_embd": 64, "n_layer": 1, "n_positions": 512}))
    assert Question(model="hf").workload(7) == Question(model="./hf").workload(7)
    assert Question(model="gemma-2b").workload(7) == model_named("gemma-2b").workload()


def test_a_model_notes_what_its_counts_leave_out() -> None:
    def notes(**options: Any) -> tuple[str, ...]:
        question = Question(model="deepseek-v3", n="4K", **options)
        return question.notes(question.workload(7))

    [note] = notes(decode=True)
    assert note.startswith("deepseek-v3 decode: values are the first 512 of the 576 words of a key")
    assert notes() == notes(decode=True, d="64") == ()
    assert Question(n="4").notes(Question(n="4").workload(7)) == ()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("flash", "flash-attention-2"),
        ("FA2", "flash-attention-2"),
        ("fa1", "flash-attention-1"),
        ("flash_attention", "flash-attention-2"),
        ("atenio", "attenio"),
    ],
)
def test_a_dataflow_that_is_nearly_known_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match=f"unknown dataflow {name!r}; did you mean {meant}"):
        dataflow_named(name)
    assert dataflow_named(meant.upper()) is Dataflow(meant)
    assert dataflow_named(None) is None


@pytest.mark.parametrize("size", ["512KB", "524288", "512 KiB", "0.5MB"])
def test_fast_bytes_is_a_machine_of_its_own(size: str) -> None:
    assert Question(fast_bytes=size).chosen_machine().levels[0].capacity_bytes == 524288


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question(n="nan"), "n is 'nan'"),
        (Question(n=""), "n is ''"),
        (Question(n="0"), "n is 0"),
        (Question(n="-5"), "n is -5"),
        (Question(n="1e12"), "n is 1,000,000,000,000"),
        (Question(n="5KB"), "n is '5KB'"),
        (Question(d="0"), "d is 0"),
        (Question(d="1M"), "d is 1,048,576"),
        (Question(heads="8", kv_heads="3"), "8 query heads cannot share 3 KV heads"),
        (Question(n="8", mask="window:9"), "window 9 is wider than the 8 keys"),
        (Question(mask="cousal"), "mask 'cousal' is not known; did you mean causal? use dense"),
        (Question(mask="window"), "mask 'window' is not known; did you mean window:4096? use dense"),
        (Question(mask="windw:4K"), "did you mean window:4096?"),
        (Question(mask="qqq"), "mask 'qqq' is not known; use dense"),
        (Question(n="9", queries="5", keys="7"), "--n sets both lengths, which --queries and --keys do already"),
        (Question(n="9", decode=True, keys="7"), "--n sets both lengths, which --decode and --keys do already"),
        (Question(n="9", decode=True, keys="7", model="llama-3-8b"), "--n sets both lengths"),
        (Question(dtype="fp64"), "unknown element type 'fp64'"),
        (Question(scale="nan"), "scale is nan"),
        (Question(scale="abc"), "scale is 'abc'; give a number"),
        (Question(decode=True, queries="5"), "--decode asks about one query but --queries says 5"),
        (Question(model="lama-3-8b"), "did you mean llama-3-8b"),
        (Question(model="llama-3-8b", batch="0"), "batch is 0"),
        (Question(model="llama-3-8b", n="0"), "n is 0"),
        (Question(model="gemma-7b", value_dim="0"), "value_dim is 0"),
        (Question(mask=""), "mask '' is not known"),
        (Question(dtype=""), "unknown element type ''"),
        (Question(keys="0"), "n is 0"),
        (Question(model="llama-3-8b", heads="3"), "3 query heads cannot share 8 KV heads"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(question: Question, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        question.workload(64)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question(machine="h10"), "did you mean h100?"),
        (Question(machine=""), "unknown machine ''"),
        (Question(fast_bytes="nan"), "fast-bytes is 'nan'"),
        (Question(fast_bytes="0"), "fast-bytes is 0"),
        (Question(fast_bytes="-1KB"), "fast-bytes is -1,024"),
        (Question(fast_bytes="1e30"), "fast-bytes is 1,000,000"),
        (Question(fast_bytes="64KB", machine="h100"), "choose one"),
        (Question(machine="gone.yaml"), "machine file 'gone.yaml' does not exist"),
    ],
)
def test_a_machine_that_makes_no_sense_is_refused(question: Question, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        question.chosen_machine()
    assert message in str(caught.value)
