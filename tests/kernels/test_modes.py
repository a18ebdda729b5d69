"""Modes of the caller's thread: what is computed is the same in each of them, in the caller's thread and in others.

Of tiles, that is: whether PyTorch's own attention is called may depend on whether gradients are wanted.
"""

from contextlib import contextmanager, nullcontext

import pytest
import torch
from tests.kernels.forms import DTYPES, FORMS, heads_of, threads

from attenio import attention


@contextmanager
def new_tensors_in(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# Those that leave the types of tensors as they are.
MODES = {
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "float64 by default": lambda: new_tensors_in(torch.float64),
    "bfloat16 by default": lambda: new_tensors_in(torch.bfloat16),
    "meta by default": lambda: torch.device("meta"),
}


# Every form in a wide and in a narrow type, and every type in half of the forms.
TWO_TYPES_EACH = [(form, dtype) for number, form in enumerate(FORMS) for dtype in DTYPES[number % 2 :: 2]]


@pytest.fixture(autouse=True)
def three_threads(tiles_only):
    """On one processor too, calls are handed over."""
    with threads(3):
        yield


def options_of(form, dtype):
    shape, options = FORMS[form]
    mask = options.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        options = options | {"attn_mask": mask.to(dtype)}
    return shape, options


@pytest.mark.parametrize(("form", "dtype"), TWO_TYPES_EACH, ids=str)
def test_outputs_and_gradients_are_the_same_to_the_bit_in_every_mode(form, dtype):
    shape, options = options_of(form, dtype)
    *leaves, gradient = heads_of(shape, dtype, requires_grad=True)

    def attended(*heads, **changed):
        torch.manual_seed(0)
        return attention(*heads, **options | changed)

    output = attended(*leaves)
    wanted = torch.autograd.grad(output, leaves, gradient, retain_graph=True)
    for name, mode in MODES.items():
        with mode():
            mine = attended(*leaves)
            found = torch.autograd.grad(output, leaves, gradient, retain_graph=True)
        assert torch.equal(mine, output), name
        assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True)), name


@pytest.mark.parametrize(("form", "dtype"), TWO_TYPES_EACH, ids=str)
def test_autocast_changes_the_type_of_tensors_and_nothing_else(form, dtype):
    shape, options = options_of(form, dtype)
    *leaves, gradient = heads_of(shape, dtype, requires_grad=True)
    options |= {"tolerance": None}  # no data are looked at in that mode
    cast = torch.float64 if dtype == torch.float64 else torch.bfloat16
    mask = options.get("attn_mask")
    plainly = options if mask is None or mask.dtype == torch.bool else options | {"attn_mask": mask.to(cast)}
    torch.manual_seed(0)
    output = attention(*(x.to(cast) for x in leaves), **plainly)
    wanted = torch.autograd.grad(output, leaves, gradient.to(cast))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.manual_seed(0)
        mine = attention(*leaves, **options)
        found = torch.autograd.grad(mine, leaves, gradient.to(cast))
    for one, other in zip((mine, *found), (output, *wanted), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("form", ["dense", "window", "groups", "prefix", "one row"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("within", [True, False], ids=["within", "after"])
def test_tensors_made_in_inference_mode_are_taken_in_it_and_after_it(form, dtype, within):
    shape, options = options_of(form, dtype)
    q, k, v, _ = heads_of(shape, dtype)
    with torch.inference_mode():
        made = [x.clone() for x in (q, k, v)]
    with torch.inference_mode() if within else nullcontext():
        output = attention(*made, **options)
    assert torch.equal(output, attention(q, k, v, **options)) and output.is_inference() == within


@pytest.mark.parametrize("form", ["dense", "causal", "window", "groups", "booleans", "bias"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_whoever_computes_it_agrees_in_every_mode(form, dtype, monkeypatch):
    monkeypatch.undo()  # PyTorch's own attention where it is expected to be done first
    shape, options = options_of(form, dtype)
    heads = heads_of(shape, dtype)[:3]
    wanted = attention(*heads, **options)
    near = {"rtol": 0.0, "atol": 4 * torch.finfo(dtype).eps * float(heads[2].abs().max())}
    for name, mode in MODES.items():
        for _ in range(2):  # the second time, what was chosen is remembered
            with mode():
                mine = attention(*heads, **options)
            torch.testing.assert_close(mine, wanted, **near, msg=lambda said, name=name: f"{name}: {said}")
