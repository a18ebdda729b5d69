"""Laws of calls that go to PyTorch's own attention: what is explained runs, and what is known is checked again."""

import contextlib
import sys

import pytest
import torch
from tests.kernels.definition import definition
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from attenio import attention, explain
from attenio.errors import AttenioError
from attenio.kernels.choice import LIBRARY
from attenio.kernels.cpu import beside, library, library_calls

DOOR = sys.modules["attenio.kernels.attention"]  # the function has the same name


@pytest.fixture(autouse=True)
def anew():
    if DOOR._front is not None:
        assert DOOR._front.is_compiled(), DOOR._front.why_not
    beside.forget_ways()
    yield
    beside.forget_ways()


@pytest.fixture
def called(monkeypatch):
    """How often PyTorch's own attention was called, from Python."""
    calls = []
    monkeypatch.setattr(DOOR, "_front", None)
    for module, name in (
        (library_calls, "scaled_dot_product_attention"), (DOOR, "scaled_dot_product_attention"),
    ):  # fmt: skip
        theirs = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=theirs, **o: (calls.append(1), f(*a, **o))[1])
    return calls


def drawn(heads=4, kv_heads=4, queries=33, keys=33, d=16, dtype=torch.float32):
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [torch.randn(1, h, n, d).to(dtype) for h, n in shapes]


CASES = {
    "dense": (drawn, {}),
    "causal": (drawn, {"is_causal": True}),
    "window": (drawn, {"window": 8}),
    "both sides": (lambda: drawn(queries=20), {"window": (4, 3)}),
    "groups": (lambda: drawn(kv_heads=2), {"enable_gqa": True}),
    "decode": (lambda: drawn(queries=1, keys=300), {}),
    "boolean": (drawn, {"attn_mask": torch.rand(33, 33, generator=torch.Generator().manual_seed(0)) > 0.3}),
    "long window": (lambda: drawn(queries=1500, keys=1500), {"window": 8}),
    "many groups": (lambda: drawn(heads=16, kv_heads=1, queries=1, keys=30000, d=64), {"enable_gqa": True}),
    "packed": (drawn, {"cu_seqlens": torch.tensor([0, 10, 33])}),
    "no scale": (drawn, {"is_causal": True, "scale": 0.0}),
    "causal window": (drawn, {"is_causal": True, "window": 5}),
    "an only key": (lambda: drawn(queries=3, keys=1), {}),
    "half": (lambda: drawn(queries=256, keys=256, dtype=torch.bfloat16), {}),
}


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_explained_is_what_runs_the_first_time_and_again(case, wants, called):
    make, options = CASES[case]
    q, k, v = (x.requires_grad_(wants) for x in make())
    theirs = explain(q, k, v, **options).choice.language == LIBRARY
    first, again = attention(q, k, v, **options), attention(q, k, v, **options)
    assert len(called) == (2 if theirs else 0)
    assert torch.allclose(first, again, rtol=1e-3)


@pytest.mark.parametrize("times", [1, 30, 300])
@pytest.mark.parametrize("kv_heads", [2, 4])
def test_gradients_by_pytorch_beside_large_scores_are_as_exact_as_untiled_ones(kv_heads, times, called):
    q, k, v = (x.requires_grad_() for x in drawn(kv_heads=kv_heads))
    large = (times * q).detach().requires_grad_()
    wide = [x.detach().double().requires_grad_() for x in (large, k, v)]
    output = attention(large, k, v, enable_gqa=True)
    g = torch.randn_like(output)
    right = torch.autograd.grad(definition(*wide), wide, g.double())
    untiled = torch.autograd.grad(definition(large, k, v), (large, k, v), g)
    found = torch.autograd.grad(output, (large, k, v), g)
    assert len(called) == 1
    scores = wide[0] @ wide[1].repeat_interleave(4 // kv_heads, 1).mT / 4.0
    roundings = 2.0**-24 * scores.logsumexp(-1).abs().max()  # that weights may be off by
    for mine, theirs, true in zip(found, untiled, right, strict=True):
        assert (mine - true).norm() <= 4 * (theirs - true).norm() + roundings * true.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_mask_that_adds_much_to_a_whole_row_does_not_multiply_its_gradients(dtype, called):
    """PyTorch's own are as many times too large as there are keys, for all weights of the row become 1."""
    tensors = [x.requires_grad_() for x in drawn(dtype=dtype)]
    q, k, v = (x.detach().double().requires_grad_() for x in tensors)
    g, mask = torch.randn_like(tensors[0]), torch.zeros(33, 33, dtype=dtype)
    close = {"atol": 0.05, "rtol": 0.05} if dtype == torch.bfloat16 else {"atol": 1e-5, "rtol": 1e-4}
    for added, by_pytorch in ((0.0, 2), (-torch.inf, 2), (-1e9, 0), (1.0, 2)):
        mask[::2] = added
        scores = q @ k.mT / 4.0
        if added == -1e9 and dtype != torch.float64:  # beside it scores are all the same number
            scores[:, :, ::2] = scores[:, :, ::2] - scores[:, :, ::2].detach()
        weights = scores.softmax(-1) * (mask > -torch.inf)
        right = torch.autograd.grad(weights @ v, (q, k, v), g.double())
        called.clear()
        for _ in range(2):
            assert (explain(*tensors, mask).choice.language == LIBRARY) == bool(by_pytorch)
            found = torch.autograd.grad(attention(*tensors, mask), tensors, g)
            for mine, theirs in zip(found, right, strict=True):
                torch.testing.assert_close(mine.double(), theirs, **close)
        assert len(called) == by_pytorch


def test_masks_are_looked_at_again_when_they_were_written_to():
    mask = torch.zeros(3, 3)
    assert library_calls.is_tame(mask)
    mask[1] = torch.finfo(torch.float32).min
    assert not library_calls.is_tame(mask)
    mask[1, 2] = 5.0
    assert library_calls.is_tame(mask)
    with torch.inference_mode():
        of_inference = torch.full((3, 3), 1e9)
        assert not library_calls.is_tame(of_inference)
        of_inference.zero_()
        assert library_calls.is_tame(of_inference)


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
def test_a_form_seen_with_other_strides_is_computed_as_well(wants):
    draw = lambda: torch.randn(1, 4, 64, 16).mT  # noqa: E731 - elements of a row are 16 apart
    tensors = [draw().contiguous().requires_grad_(wants) for _ in range(3)]
    attention(*tensors)
    for at in range(3):
        apart = [draw().requires_grad_(wants) if i == at else x for i, x in enumerate(tensors)]
        torch.testing.assert_close(attention(*apart), definition(*(x.double() for x in apart)).float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("masks", [None, "boolean", "float"])
@pytest.mark.parametrize("kv_heads", [2, 4])
def test_gradients_of_an_only_key_are_zero_whoever_computes_them(dtype, masks, kv_heads, called):
    q, k, v = (x.requires_grad_() for x in drawn(kv_heads=kv_heads, queries=3, keys=1, dtype=dtype))
    hidden = torch.tensor([[False], [True], [False]])
    mask = {None: None, "boolean": ~hidden, "float": torch.zeros(3, 1).masked_fill(hidden, -torch.inf).to(dtype)}[masks]
    seen = torch.ones(3, 1) if mask is None else (~hidden).float()
    group = 4 // kv_heads
    for _ in range(3):
        output = attention(q, k, v, mask, enable_gqa=kv_heads < 4)
        assert torch.equal(output, (v.repeat_interleave(group, 1) * seen).to(dtype))
        g = torch.ones_like(output)
        of_query, of_key, of_value = torch.autograd.grad(output, (q, k, v), g)
        assert not of_query.any() and not of_key.any()
        assert torch.equal(of_value, (group * g[:, :kv_heads] * seen).sum(2, keepdim=True).to(dtype))
    assert len(called) == 3


@pytest.mark.parametrize("kind", ["dense", "groups", "boolean", "window"])
@pytest.mark.parametrize("hooks", [False, True])
def test_gradients_by_pytorch_are_those_of_the_definition_also_where_saved_tensors_are_packed(kind, hooks, called):
    make, options = CASES[kind]
    q, k, v = (x.requires_grad_() for x in make())
    unpacked = []
    for _ in range(2):
        packing = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: (unpacked.append(1), x)[1])
        with packing if hooks else contextlib.nullcontext():
            output = attention(q, k, v, **options)
        assert not unpacked  # only the backward pass may ask for it
        g = torch.randn_like(output)
        found = torch.autograd.grad(output, (q, k, v), g)
        unpacked.clear()
        rows, keys = torch.arange(33)[:, None], torch.arange(33)[None]
        seen = {"boolean": options.get("attn_mask"), "window": (keys <= rows) & (keys > rows - 8)}.get(kind)
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        right = torch.autograd.grad(definition(*wide, **({} if seen is None else {"seen": seen})), wide, g.double())
        for mine, theirs in zip(found, right, strict=True):
            torch.testing.assert_close(mine.double(), theirs, atol=2e-5, rtol=2e-5)
    assert len(called) == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_in_16_bits_beside_a_large_log_sum_exp_are_no_worse_than_untiled(dtype):
    q, k, v = (x.requires_grad_() for x in drawn(dtype=dtype))
    large = (30 * q).detach().requires_grad_()
    g = torch.randn_like(q)
    way = library_calls.called(None, causal=False, scale=None, gqa=False)
    found = [torch.autograd.grad(f(large, k, v), (large, k, v), g) for f in (way, definition)]
    wide = [x.detach().double().requires_grad_() for x in (large, k, v)]
    right = torch.autograd.grad(definition(*wide), wide, g.double())
    for mine, untiled, true in zip(*found, right, strict=True):
        assert (mine - true).norm() <= 2 * (untiled - true).norm()


class Watching(TorchDispatchMode):
    """Sees operators, and lets them pass."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class FunctionWatching(TorchFunctionMode):
    """Sees functions, and lets them pass."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "context", [Watching, FunctionWatching, torch.autograd.profiler.profile, lambda: torch.device("cpu")]
)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_modes_and_profilers_see_what_runs(context, mode, called):
    q, k, v = drawn()
    with mode():
        expected = attention(q, k, v)
        with context():
            before = len(called)
            assert torch.equal(attention(q, k, v), expected) and len(called) == before + 1


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # PyTorch says so where it maps call by call
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("kv_heads", [2, 4])  # looked up, and short
@pytest.mark.parametrize("keys", [1, 33])
def test_transforms_are_right_whether_they_see_pytorchs_function_or_the_operator(mode, kv_heads, keys):
    q, k, v = drawn(kv_heads=kv_heads, keys=keys)
    options = {"enable_gqa": kv_heads < 4}
    ask = lambda: beside.known_way(q, k, v, None, (False, None, kv_heads < 4, False, None))  # noqa: E731
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    right = torch.autograd.grad(definition(*wide).sin().sum(), wide)
    with mode():
        expected = attention(q, k, v, **options)
        with forward_ad.dual_level():
            assert ask() is None
        found = []
        mapped = torch.vmap(lambda x: (found.append(ask()), attention(x, k[0], v[0], **options))[1])
        torch.testing.assert_close(mapped(q), expected)
        many = [torch.stack((x, x)) for x in (q, k, v)]
        torch.testing.assert_close(torch.vmap(lambda *x: attention(*x, **options))(*many)[1], expected)
        total = lambda *x: (found.append(ask()), attention(*x, **options).sin().sum())[1]  # noqa: E731
        gradients = torch.func.grad(total, argnums=(0, 1, 2))
        for mine in (gradients(q, k, v), [x[1] for x in torch.vmap(gradients)(*many)]):
            for each, theirs in zip(mine, right, strict=True):
                torch.testing.assert_close(each.double(), theirs, atol=2e-5, rtol=2e-5)
        assert found == [None] * 3
        with pytest.raises(AttenioError, match="no derivative in forward mode"):
            torch.func.jvp(lambda x: attention(x, k, v, **options), (q,), (q,))


@pytest.mark.parametrize("gradients", [False, True])
def test_tensors_without_data_give_one_of_the_right_shape_also_after_calls_of_their_form(gradients, none_short):
    given = [each.requires_grad_(gradients) for each in drawn(kv_heads=2)]
    for _ in range(2):
        with torch.set_grad_enabled(gradients):
            found = attention(*(each.detach().to("meta") for each in given), enable_gqa=True)
            assert found.is_meta and found.shape == attention(*given, enable_gqa=True).shape
            wide = drawn(d=513)  # computed on a CPU only
            assert attention(*wide).shape == wide[0].shape
            with pytest.raises(AttenioError, match="value is 513 wide"):
                attention(*(each.to("meta") for each in wide))


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("short", [False, True])
def test_an_only_key_is_not_taken_for_two_that_all_sequences_share(queries, wants, short, request):
    """Both have as many bytes, and calls of an only key need no scores."""
    if not short:
        request.getfixturevalue("none_short")
    q = torch.randn(2, 4, queries, 16, requires_grad=wants)
    for k in (torch.randn(2, 4, 1, 16), torch.randn(1, 4, 2, 16)) * 2:
        with torch.set_grad_enabled(wants):
            found = attention(q, k, k)
        torch.testing.assert_close(found, definition(q, *(k.expand(2, *k.shape[1:]),) * 2))


def test_what_autocast_makes_of_a_call_decides_who_computes_it(called):
    q, k, v = (x.requires_grad_() for x in drawn(1, 1, 1024, 1024))
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            called.clear()
            theirs = explain(q, k, v).choice.language == LIBRARY
            for _ in range(2):
                assert attention(q, k, v).dtype == dtype
            assert len(called) == 2 * theirs


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter])
def test_a_mask_that_was_met_before_is_known_by_itself_alone(kind, wants):
    q, k, v = (x.requires_grad_(wants) for x in drawn())
    for made in (torch.rand(33, 33) > 0.3, torch.zeros(33, 33)):
        mask = made if kind is torch.Tensor else torch.nn.Parameter(made, requires_grad=False)
        with torch.set_grad_enabled(wants):
            for _ in range(2):
                attention(q, k, v, mask)
            # A module moves its parameters, and they stay the same objects.
            assert (library_calls.LAST_MASK[0][0]() is mask) == (kind is torch.Tensor)
            if mask.dtype != torch.bool:
                mask.fill_(-torch.inf)
                assert not attention(q, k, v, mask).any()
                with pytest.raises(AttenioError):
                    attention(q, k, v, mask.double())
            with pytest.raises(AttenioError, match="attn_mask is on meta"):
                attention(q, k, v, mask.to("meta"))
            mask.data = mask.data.double()
            with pytest.raises(AttenioError):
                attention(q, k, v, mask)
            del mask, made
            other = torch.zeros(33, 33, dtype=torch.float64)  # maybe where the last one was
            with pytest.raises(AttenioError):
                attention(q, k, v, other)


def test_what_is_known_on_some_threads_is_chosen_again_on_others(monkeypatch, called):
    monkeypatch.setattr(beside, "library_first", lambda sizes: sizes.threads < 2)
    monkeypatch.setattr(beside, "library_seconds", lambda sizes: 0.0 if sizes.threads < 2 else 1.0)
    q, k, v = drawn(kv_heads=2)
    before = torch.get_num_threads()
    try:
        for threads, calls in ((1, 1), (2, 1), (1, 2), (2, 2)):
            torch.set_num_threads(threads)
            attention(q, k, v, enable_gqa=True)
            assert len(called) == calls
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
def test_what_is_short_goes_to_pytorch_as_explained_up_to_its_last_byte_of_keys(wants, called):
    limit = beside._SHORT_STEP_BYTES if wants else beside._SHORT_BYTES
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for more in (0, 1):
            called.clear()
            keys = limit // (2 * 16 * torch.empty((), dtype=dtype).itemsize) + more
            q, k, v = (x.requires_grad_(wants) for x in drawn(2, 2, 1, keys, 16, dtype))
            sizes = beside.is_short(q, k, v, gqa=False)
            fast = library.has_fast_steps(dtype) if wants else library.is_any_type_fast()
            assert sizes == (not more and (dtype in beside._WIDE_TYPES or fast))
            theirs = explain(q, k, v).choice.language == LIBRARY
            attention(q, k, v)
            assert len(called) == theirs and (theirs or not sizes)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"enable_gqa": True}], ids=str)
@pytest.mark.parametrize("enabled", [False, True])
def test_a_growing_cache_is_not_a_new_form_at_every_step(options, short, enabled, called, monkeypatch, request):
    if not short:
        request.getfixturevalue("none_short")
    asked, sizes_of = [], beside.sizes_of
    monkeypatch.setattr(beside, "sizes_of", lambda *a, **o: (asked.append(1), sizes_of(*a, **o))[1])
    q, keys, values = drawn(kv_heads=2 if "enable_gqa" in options else 4, queries=1, keys=256)
    for n in range(100, 160):
        k, v = keys[:, :, :n], values[:, :, :n]
        seen = {"seen": torch.arange(n) < 1} if "is_causal" in options else {}
        right = definition(q, k, v, **seen, scale=options.get("scale"))
        with torch.set_grad_enabled(enabled):
            torch.testing.assert_close(attention(q, k, v, **options), right, atol=1e-5, rtol=1e-5)
    # On either side of 128, if not short.
    assert len(called) == 60 and len(asked) == (0 if short and not enabled and "enable_gqa" not in options else 2)
    with pytest.raises(AttenioError):
        attention(q, keys[:, :, :150], values[:, :, :151], **options)
    with pytest.raises(AttenioError):
        attention(q, keys[:, :, :150].double(), values[:, :, :150], **options)


def test_a_cache_of_too_few_or_other_dimensions_is_no_longer_cache():
    q, k, v = torch.randn(3, 4, 8), torch.randn(3, 20, 8), torch.randn(3, 20, 8)
    attention(q, k, v)
    for wrong in ((k[0, 0], v), (k, v[0, 0]), (k[:, :19, :7], v[:, :19]), (k[:2, :19], v[:, :19])):
        with pytest.raises(AttenioError):
            attention(q, *wrong)
    for right in ((k[0, :19], v[:, :19]), (k[:1, :19], v[0, :19]), (k[:, :19], v[:, :19, :5])):
        wide = [x.expand(3, *x.shape[-2:]) for x in right]
        torch.testing.assert_close(attention(q, *right), definition(q[None], *(x[None] for x in wide))[0])


def test_pytorchs_switches_of_its_kernels_are_followed():
    q, k, v = (torch.randn(1, 2, 16, 8, requires_grad=True) for _ in range(3))
    for _ in range(4):
        attention(q, k, v)
    with sdpa_kernel(SDPBackend.MATH):  # the only one that has second derivatives
        (first,) = torch.autograd.grad(attention(q, k, v).square().sum(), q, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), q)
    assert second.norm() > 0
