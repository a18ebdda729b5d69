"""Calls like one before them: a stand-in prepares them here, and counts how often it is asked and run."""

import pytest
import torch

from attenio import attention
from attenio.kernels import repeating
from attenio.kernels.operator import attend
from attenio.kernels.repeating import form_of

PLAIN = (False, None, False, None, False)


@pytest.fixture
def counts(monkeypatch):
    found = {"prepared": 0, "run": 0}

    def prepared(problem):
        found["prepared"] += 1

        def run(*arguments):
            found["run"] += 1
            assert arguments[0].shape == problem.query.flatten(1, 2).shape
            return attend(*arguments)

        return None if problem.scale < 0 else run

    monkeypatch.setattr(repeating, "_runs_here", lambda _query: True)
    monkeypatch.setattr(repeating, "preparing", lambda _tensor: prepared)
    monkeypatch.setattr(repeating, "_known", {})
    return found


def heads(n=24, m=40, dtype=torch.float32, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    sizes = (2, 4, n, 16), (2, 2, m, 16), (2, 2, m, 8)
    return tuple(torch.randn(size, generator=drawn).to(dtype) for size in sizes)


def test_the_third_call_of_a_form_runs_what_was_prepared_and_gives_the_same(counts):
    for seed in range(4):
        q, k, v = heads(seed=seed)
        mine = attention(q, k, v, is_causal=True, enable_gqa=True)
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        torch.testing.assert_close(mine, theirs)
    assert counts == {"prepared": 1, "run": 2}


def test_gradients_of_a_repeated_call_are_those_of_the_first(counts):
    leaves = tuple(x.requires_grad_() for x in heads())
    each = [
        torch.autograd.grad(attention(*leaves, enable_gqa=True).square().sum(), leaves, retain_graph=True)
        for _ in range(3)
    ]
    assert counts["run"] == 1
    for first, _, third in zip(*each, strict=True):
        assert torch.equal(first, third)


def test_forms_differ_in_all_that_is_prepared_for(counts):
    q, k, v = heads()
    apart = {
        form_of((q, k, v), PLAIN),
        form_of((q, k, v), (True, *PLAIN[1:])),
        form_of((q, k, v), (False, 0.5, *PLAIN[2:])),
        form_of((q, k, v), (*PLAIN[:3], (3, 0), False)),
        form_of((q, k, v), (*PLAIN[:4], True)),
        form_of((q[:, :, :8], k, v), PLAIN),
        form_of((q, k.transpose(2, 3).contiguous().transpose(2, 3), v), PLAIN),
        form_of((q, k[:, :, :32], v[:, :, :32]), PLAIN),
        form_of(tuple(x.half() for x in (q, k, v)), PLAIN),
        form_of((q, k, v.half()), PLAIN),
    }
    assert len(apart) == 10 and None not in apart
    assert form_of((q, k, v), PLAIN) == form_of(heads(seed=1), PLAIN)


def test_what_may_change_under_a_form_has_none(counts):
    q, k, v = heads()
    assert form_of((q, k, v), (False, torch.tensor(0.5), *PLAIN[2:])) is None
    assert form_of((q, k, v), (*PLAIN[:3], [3, 0], False)) is None
    odd = torch.randn(q.numel() + 1)[1:].view(q.shape)
    assert form_of((odd, k, v), PLAIN) is None


@pytest.mark.parametrize(
    "options",
    [
        {"attn_mask": torch.ones(24, 40).bool()}, {"dropout_p": 0.5}, {"prefix": 3}, {"tolerance": 1e-3},
        {"segments": (torch.tensor([0, 24]), torch.tensor([0, 40]))}, {"block_mask": torch.ones(1, 1).bool()},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_calls_that_data_restrict_are_not_kept(counts, options):
    for _ in range(3):
        attention(*heads(), enable_gqa=True, **options)
    assert counts == {"prepared": 0, "run": 0}


def test_heads_that_had_to_be_brought_to_four_dimensions_are_not_kept(counts):
    q, k, v = (x[0] for x in heads())
    for _ in range(3):
        attention(q, k, v, enable_gqa=True)
    assert counts == {"prepared": 0, "run": 0}


def test_forms_without_a_short_way_are_asked_for_once(counts):
    for _ in range(4):
        attention(*heads(), enable_gqa=True, scale=-1.0)
    assert counts == {"prepared": 1, "run": 0}


def test_the_oldest_forms_are_forgotten(counts, monkeypatch):
    monkeypatch.setattr(repeating, "_MOST", 3)
    for n in (8, 8, 9, 10, 11, 8, 11):
        attention(*heads(n), enable_gqa=True)
    assert counts == {"prepared": 2, "run": 0} and len(repeating._known) == 3


def test_wrong_calls_are_refused_every_time(counts):
    q, k, v = heads()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="make them equal, or set enable_gqa=True"):
            attention(q, k, v)
    assert counts == {"prepared": 0, "run": 0}


def test_nothing_is_kept_on_the_cpu():
    before = dict(repeating._known)
    attention(*heads(), enable_gqa=True)
    assert repeating._known == before and form_of(heads(), PLAIN) is None
