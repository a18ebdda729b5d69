"""Laws of the fuzzer: a share of its calls agrees with the definition, and it finds and shows what does not."""

import itertools

import pytest
import torch

from fuzz import Case, check, running, wrong_in
from fuzz.__main__ import main
from fuzz.drawing import steps
from fuzz.running import WrongResult
from fuzz.shrinking import reproduction, shrunk, simplified

attention = running.attention


@pytest.mark.parametrize("seed", range(2))
def test_random_calls_in_random_order_agree_with_the_definition(seed):
    for step in itertools.islice(steps(seed, "cpu"), 20):
        found = wrong_in(step, "cpu")
        assert found is None, f"{found}\n{reproduction([step], 'cpu')}"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_seed_makes_the_same_calls_and_they_can_be_read_back_from_what_is_printed(device):
    first, second = (list(itertools.islice(steps(3, device), 200)) for _ in range(2))
    assert first == second != list(itertools.islice(steps(4, device), 200))
    for case in itertools.chain.from_iterable(first):
        assert eval(str(case)) == case


def wrongly(how):
    """Attention with a mistake in it."""

    def call(q, k, v, mask=None, **options):
        if how == "drops the mask":
            return attention(q, k, v, None, **options)
        if how == "raises in inference mode" and torch.is_inference_mode_enabled():
            raise RuntimeError("not in 2 modes")
        if how == "one element":
            output = attention(q, k, v, mask, **options)
            last = torch.zeros_like(output)
            last.view(-1)[-1] = 0.1
            return output + last
        if how == "no gradient of keys":
            return attention(q, k.detach() + 0.0 * k, v, mask, **options)
        return attention(q, k, v, mask, **options)

    return call


@pytest.mark.parametrize("how", ["drops the mask", "raises in inference mode", "one element", "no gradient of keys"])
def test_a_mistake_is_found_soon_and_shown_in_its_simplest_form(how, monkeypatch):
    monkeypatch.setattr(running, "attention", wrongly(how))
    found = next(step for step in itertools.islice(steps(0, "cpu"), 60) if wrong_in(step, "cpu") is not None)
    (simple,) = simplified(found, lambda step: wrong_in(step, "cpu"))
    with pytest.raises(WrongResult):
        check(simple)
    restrictions = (simple.window, simple.blocks, simple.is_causal, simple.prefix)
    assert restrictions == (None, None, False, 0) and simple.batch == simple.heads == simple.times == 1
    assert str(simple.mask) != "MaskKind.NONE" if how == "drops the mask" else str(simple.mask) == "MaskKind.NONE"


def test_results_that_are_written_over_by_a_later_call_of_the_same_form_are_found(monkeypatch):
    kept = {}

    def reuses(q, k, v, mask=None, **options):
        output = attention(q, k, v, mask, **options)
        return kept.setdefault(output.shape, output).copy_(output)

    monkeypatch.setattr(running, "attention", reuses)
    assert wrong_in((Case(queries=5, keys=5, times=2),), "cpu") is not None


def test_only_the_calls_that_a_failure_needs_are_kept_of_those_before_it():
    history = [(Case(seed=seed),) for seed in range(20)]

    def fails(tail, _device):
        seeds = [step[0].seed for step in tail]
        return 13 in seeds and seeds[-1] == 19

    found = shrunk(history, "cpu", fails)
    assert [step[0].seed for step in found] == [13, 19]
    assert shrunk(history[:13], "cpu", fails) is None


@pytest.mark.parametrize("asked", [["--calls", "0"], ["--seconds", "-1"], ["--seconds", "nan"]])
def test_what_would_call_nothing_is_one_line(asked, capsys):
    assert main([*asked, "--device", "cpu"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
