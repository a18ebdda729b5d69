"""Laws of the compiled front: it gives what the function in Python gives, and hands on whatever it does not know."""

import gc
import inspect
import pickle
import sys
import threading
import warnings
import weakref

import pytest
import torch
from tests.kernels.cpu.test_beside import CASES, drawn
from tests.kernels.new_process import in_a_new_process
from torch import Tensor

import attenio
from attenio import attention
from attenio.errors import InvalidInput
from attenio.kernels.call import tensor_layout
from attenio.kernels.call.choice import launches
from attenio.kernels.cpu import beside, front
from attenio.kernels.cpu.object_body import TABLE
from attenio.kernels.replay import repeating

pytest.importorskip("llvmlite")
DOOR = sys.modules["attenio.kernels.attention"]
FRONT = DOOR._front
if FRONT is None:
    pytest.skip("this Python has no compiled front", allow_module_level=True)
PYTHON = FRONT.python


@pytest.fixture(autouse=True)
def missed():
    """Calls that came to the function in Python."""
    assert FRONT.is_compiled(), FRONT.why_not
    beside.forget_ways()
    calls = []

    def counted(*given, **options):
        calls.append(1)
        return PYTHON(*given, **options)

    place = TABLE.index("python")
    before = FRONT._table[place]
    FRONT._table[place] = id(counted)
    yield calls
    FRONT._table[place] = before
    beside.forget_ways()


def results(function, tensors, options, wants):
    q, k, v = (x.detach().clone().requires_grad_(wants) for x in tensors)
    output = function(q, k, v, **options)
    return [output, *(torch.autograd.grad(output.sum(), (q, k, v)) if wants else ())]


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("case", CASES)
def test_every_call_gives_what_python_gives_however_often(case, wants):
    make, options = CASES[case]
    tensors = make()
    with torch.set_grad_enabled(wants):
        expected = results(PYTHON, tensors, options, wants)
        beside.forget_ways()
        for _ in range(4):
            for mine, theirs in zip(results(attention, tensors, options, wants), expected, strict=True):
                assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5)


KNOWN = {
    "dense": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.5},
    "as they are": {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False},
    "boolean": {"attn_mask": torch.ones(33, 33, dtype=torch.bool).tril()},
    "float": {"attn_mask": torch.zeros(33, 33)},
    "window": {"window": 8},
    "causal window": {"window": 8, "scale": 0.1},
}


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("case", KNOWN)
def test_known_forms_do_not_come_to_python_again(case, inference, wants, missed):
    if inference and wants:
        return
    with torch.inference_mode(inference), torch.set_grad_enabled(wants):
        tensors = [x.requires_grad_(wants) for x in drawn()]
        first = attention(*tensors, **KNOWN[case])
        attention(*tensors, **KNOWN[case])
        before = len(missed)
        again = [attention(*tensors, **KNOWN[case]) for _ in range(5)]
    assert len(missed) == before
    assert all(torch.allclose(first, each, atol=1e-6) for each in again)


def test_a_cache_that_grows_comes_to_python_as_often_as_its_bytes_have_another_bit(missed):
    q = torch.randn(1, 4, 1, 64)
    cache = torch.randn(1, 4, 520, 64)
    with torch.no_grad():
        for length in range(260, 513):
            expected = torch.nn.functional.scaled_dot_product_attention(q, *[cache[:, :, :length]] * 2)
            assert torch.equal(attention(q, *[cache[:, :, :length]] * 2), expected)
    assert len(missed) == 1


def test_gradients_beside_an_only_key_are_zero_by_the_front_as_well(missed):
    for options in ({}, {"enable_gqa": False}, {"attn_mask": None}, {"scale": 0.3}):
        q, k, v = (x.requires_grad_() for x in drawn(queries=3, keys=1))
        for _ in range(4):
            output = attention(q, k, v, **options)
            of_query, of_key, _ = torch.autograd.grad(output.sum(), (q, k, v))
            assert not of_query.any() and not of_key.any()
    assert len(missed) < 12


class Marked(Tensor):
    """A tensor of a class of its own."""


def odd_calls():
    q, k, v = drawn()
    yield "as a name made now", (q, k, v), {"".join(("is", "_causal")): True}
    yield "all by name", (), {"query": q, "key": k, "value": v}
    yield "no dropout but negative", (q, k, v), {"dropout_p": -0.0}
    yield "no dropout as an integer", (q, k, v), {"dropout_p": 0}
    yield "a scale as an integer", (q, k, v), {"scale": 1}
    yield "a negative scale", (q, k, v), {"scale": -0.5}
    yield "no window", (q, k, v), {"window": None}
    yield "a window on both sides", (q, k, v), {"window": (3, 3)}
    yield "a parameter", (torch.nn.Parameter(q), k, v), {}
    yield "a class", (q, k.as_subclass(Marked), v), {}
    yield "three dimensions", (q[0], k[0], v[0]), {}
    yield "two dimensions", (q[0, 0], k[0, 0], v[0, 0]), {}
    yield "five dimensions", (q[None], k[None], v[None]), {}
    yield "wider values", (q, k, torch.cat([v, v], -1)), {}
    yield "other strides", [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)], {}
    yield "another mask", (q, k, v, torch.ones(4, 33, 33, dtype=torch.bool)), {}
    yield "no keys", (q, k[:, :, :0], v[:, :, :0]), {}
    yield "no queries", (q[:, :, :0], k, v), {}
    yield "doubles", (q.double(), k.double(), v.double()), {}
    yield "conjugates", (q, k, torch.complex(v, v).conj().real), {}
    yield "negatives", (q, k, torch.complex(v, v).conj().imag), {}
    yield "top-left", (q, k, v), {"is_causal": "bottom-right"}


@pytest.mark.parametrize("call", list(odd_calls()), ids=lambda call: call[0])
def test_whatever_is_odd_is_what_python_makes_of_it_also_beside_known_forms(call):
    name, given, options = call
    for _ in range(3):
        attention(*drawn())
        attention(*drawn(), is_causal=True)
    expected = PYTHON(*given, **options)
    for _ in range(3):
        assert torch.allclose(attention(*given, **options), expected, atol=1e-5), name


def wrong_calls():
    q, k, v = drawn()
    yield (q, k), {}
    yield (), {}
    yield (q, k, v, None, 0.0, False, None, False, 8), {}
    yield (q, k, v, None), {"attn_mask": None}
    yield (q, k, v), {"query": q}
    yield (q, k, v, None, 0.0, False), {"is_causal": True, "window": 8}
    yield (q, k, v, None), {"attn_mask": None, "window": 8}
    yield (q, k, v), {"windows": 8}
    yield (q, k, v), {"window": True}
    yield (q, k, v), {"window": -3}
    yield (q, k, v), {"window": 2**70}
    yield (q, k, v), {"window": "8"}
    yield (q, k, v), {"is_causal": 1}
    yield (q, k, v), {"enable_gqa": 0}
    yield (q, k, v), {"scale": float("nan")}
    yield (q, k, v), {"scale": "1"}
    yield (q, k, v), {"dropout_p": 2.0}
    yield (q, k, v), {"dropout_p": None}
    yield (None, k, v), {}
    yield (q, None, v), {}
    yield (q, k, 3), {}
    yield (q.numpy(), k, v), {}
    yield (q, k[:, :, :20], v), {}
    yield (q, k, v[:, :, :20]), {}
    yield (q, k, v[:, :2]), {}
    yield (q, k.double(), v), {}
    yield (q, k, v.half()), {}
    yield (q.long(), k.long(), v.long()), {}
    yield (q[..., :8], k, v), {}
    yield (q, k, v, torch.ones(3, 3, dtype=torch.bool)), {}
    yield (q, k, v, torch.ones(33, 33, dtype=torch.int32)), {}
    yield (q, k, v, "mask"), {}
    yield (q, k, v, torch.ones(33, 33, dtype=torch.bool)), {"is_causal": True, "window": 3, "enable_gqa": True, "x": 1}
    yield (q.to_sparse(), k, v), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a prototype
        nested = torch.nested.nested_tensor([q[0], q[0]])
    yield (nested, k, v), {}


@pytest.mark.parametrize("call", list(enumerate(wrong_calls())), ids=lambda call: str(call[0]))
def test_wrong_calls_raise_what_python_raises_also_of_known_forms(call):
    _, (given, options) = call
    for more in ({}, {"is_causal": True}, {"window": 8}):
        for _ in range(3):
            attention(*drawn(), **more)
    try:
        expected = PYTHON(*given, **options)
    except Exception as error:
        with pytest.raises(type(error)) as raised:
            attention(*given, **options)
        assert str(raised.value) == str(error)
        return
    assert torch.allclose(attention(*given, **options), expected)


def test_a_tensor_without_data_gives_one_also_where_its_form_is_known():
    for _ in range(3):
        attention(*drawn())
        assert attention(*(x.to("meta") for x in drawn())).is_meta


def test_a_mask_is_looked_at_again_when_it_was_written_to_and_another_one_in_its_place(missed):
    q, k, v = (x.requires_grad_() for x in drawn())
    mask = torch.zeros(33, 33)
    for _ in range(3):
        attention(q, k, v, mask)
    before = len(missed)
    attention(q, k, v, mask)
    assert len(missed) == before
    mask[5] = 1e6
    wild = [torch.autograd.grad(attention(q, k, v, mask).sum(), (q, k, v)) for _ in range(3)]
    expected = torch.autograd.grad(PYTHON(q, k, v, mask).sum(), (q, k, v))
    assert len(missed) == before + 3
    for each in wild:
        assert all(torch.allclose(mine, theirs, atol=1e-5) for mine, theirs in zip(each, expected, strict=True))
    for _ in range(200):  # some of them lie where one before was
        other = torch.zeros(33, 33)
        other[3] = 1e6 if torch.rand(()) < 0.5 else 0.0
        mine = torch.autograd.grad(attention(q, k, v, other).sum(), k)[0]
        theirs = torch.autograd.grad(PYTHON(q, k, v, other).sum(), k)[0]
        assert torch.allclose(mine, theirs, atol=1e-5)
        del other


def test_masks_are_not_kept_alive():
    q, k, v = (x.requires_grad_() for x in drawn())
    mask = torch.zeros(33, 33)
    for _ in range(4):
        attention(q, k, v, mask)
    gone = weakref.ref(mask)
    DOOR.LAST_MASK[0] = (lambda: None, None, -1)
    del mask
    gc.collect()
    assert gone() is None


def refused(*given, **options):
    with pytest.raises(TypeError):
        attention(*given, **options)


def test_counts_of_references_stay_what_they_are():
    q, k, v = drawn()
    mask, scale = torch.zeros(33, 33), 0.25
    tensors = [x.requires_grad_() for x in drawn()]
    calls = [
        lambda: attention(q, k, v, is_causal=True),
        lambda: attention(q, k, v, mask, scale=scale),
        lambda: attention(q, k, v, window=8),
        lambda: attention(*tensors, mask),
        lambda: refused(q, k, v, is_causal=True, query=q),
        lambda: attention(q, k, v, None, 0.0, False, scale, False),
    ]
    for call in calls:
        for _ in range(5):
            call()
    watched = [q, k, v, mask, scale, *tensors, front.REFUSALS, FRONT._held]
    gc.collect()
    before = [sys.getrefcount(each) for each in watched]
    for call in calls:
        for _ in range(300):
            call()
    gc.collect()
    assert [sys.getrefcount(each) for each in watched] == before


def test_what_pytorch_raises_beside_its_refusals_is_raised(missed):
    class Interrupt(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            raise KeyboardInterrupt

    q, k, v = drawn()
    for _ in range(3):
        attention(q, k, v)
    before = len(missed)
    with pytest.raises(KeyboardInterrupt), Interrupt():
        attention(q, k, v)
    assert len(missed) == before


def test_threads_call_while_forms_are_remembered_and_forgotten():
    tensors = [drawn(queries=n, keys=n) for n in range(2, 40)]
    expected = [PYTHON(*each) for each in tensors]
    wrong, done = [], threading.Event()

    def call():
        while not done.is_set():
            for each, theirs in zip(tensors, expected, strict=True):
                if not torch.allclose(attention(*each), theirs, atol=1e-5):
                    wrong.append(each[0].shape)

    workers = [threading.Thread(target=call) for _ in range(4)]
    for worker in workers:
        worker.start()
    for _ in range(60):
        beside.forget_ways()
        attention(*tensors[0], window=4)
    done.set()
    for worker in workers:
        worker.join()
    assert not wrong


def test_more_forms_than_there_is_room_for_are_forgotten_and_learnt_again(monkeypatch):
    monkeypatch.setattr(front, "_MOST", 8)
    tensors = [drawn(queries=n, keys=n) for n in range(2, 40)]
    for _ in range(3):
        for each in tensors:
            assert torch.allclose(attention(*each), PYTHON(*each), atol=1e-5)
    assert len(FRONT._held) <= 8


def test_what_was_known_is_not_while_launches_are_recorded():
    q, k, v = drawn()
    for _ in range(3):
        attention(q, k, v)
    beside.forget_ways()
    repeating.forget()
    with launches() as heard:
        attention(q, k, v)
    assert len(heard) == 1


def test_it_says_its_arguments_its_name_and_what_it_does_and_is_pickled():
    assert list(inspect.signature(attention).parameters) == list(inspect.signature(PYTHON).parameters)
    defaults = [
        {name: each.default for name, each in inspect.signature(each).parameters.items()}
        for each in (attention, PYTHON)
    ]
    assert defaults[0] == defaults[1]
    assert attention.__doc__ == PYTHON.__doc__
    assert (attention.__name__, attention.__qualname__, attention.__module__) == (
        "attention",
        "attention",
        DOOR.__name__,
    )
    assert pickle.loads(pickle.dumps(attention)) is attention is attenio.attention


@pytest.mark.skipif(torch.__version__ < torch.torch_version.TorchVersion("2.9"), reason="compilers cut such calls")
def test_compilers_trace_python_in_its_place_and_are_not_imported_for_that():
    script = """
import torch, sys
from attenio import attention
assert "torch._dynamo" not in sys.modules
q = torch.randn(1, 2, 8, 16)
compiled = torch.compile(lambda q: attention(q, q, q, is_causal=True) + 1, fullgraph=True, backend="eager")
assert torch.allclose(compiled(q), attention(q, q, q, is_causal=True) + 1, atol=1e-6)
compiled = torch.compile(attention, fullgraph=True, backend="eager")
assert torch.allclose(compiled(q, q, q, window=3), attention(q, q, q, window=3), atol=1e-6)
"""
    status, _, errors = in_a_new_process(script)
    assert status == 0, errors


def test_where_tensors_are_kept_in_another_way_python_stays(monkeypatch):
    monkeypatch.setattr(front, "tensor_layout", lambda: None)
    other = front.front_of(PYTHON)
    assert not other.is_compiled()
    assert "another way" in other.why_not
    q, k, v = drawn()
    other.remember((q, k, v, None, 0.0, False, None, False), {}, None)
    assert torch.equal(other.function(q, k, v), PYTHON(q, k, v))
    with pytest.raises(InvalidInput):
        other.function(q, k, v, window=-5)


def test_without_a_compiler_there_is_no_front(monkeypatch):
    monkeypatch.setattr(front, "has_compiler", lambda: False)
    assert front.front_of(PYTHON) is None


def test_a_variable_of_the_environment_leaves_it_out(monkeypatch):
    monkeypatch.setenv("ATTENIO_FRONT", "0")
    assert front.front_of(PYTHON) is None and front.why_no_front() == "ATTENIO_FRONT=0 asks for none"


def test_it_is_compiled_when_enough_calls_were_to_be_remembered():
    other = front.front_of(PYTHON)
    known = {other.function: 1}
    given = (*drawn(), None, 0.0, False, None, False)
    for _ in range(front._WORTH - 1):
        other.remember(given, {}, None)
    assert other._engine is None
    other.remember(given, {}, None)
    assert other._engine is not None
    assert known[other.function] == 1  # its hash has not changed
    assert torch.equal(other.function(*given), PYTHON(*given))


def test_a_layout_that_does_not_hold_is_none(monkeypatch):
    assert tensor_layout.tensor_layout() is not None
    monkeypatch.setattr(tensor_layout, "TYPE_NUMBERS", {**tensor_layout.TYPE_NUMBERS, torch.bool: 12})
    assert tensor_layout.tensor_layout() is None


def test_where_16_bits_are_slow_calls_under_autocast_come_to_python(monkeypatch):
    monkeypatch.setattr(front, "is_any_type_fast", lambda: False)
    calls = []
    other = front.front_of(lambda *given, **options: (calls.append(1), PYTHON(*given, **options))[1])
    assert other.is_compiled(), other.why_not
    q, k, v = drawn()
    other.remember((q, k, v, None, 0.0, False, None, False), {}, None)
    falses = sys.getrefcount(False)
    assert all(torch.equal(other.function(q, k, v), PYTHON(q, k, v)) for _ in range(200))
    assert not calls
    assert abs(sys.getrefcount(False) - falses) < 100
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert other.function(q, k, v).dtype == torch.bfloat16
    assert len(calls) == 1


def test_what_pytorch_raises_is_told_and_not_taken_for_another_layout(monkeypatch):
    def fails(_tensor):
        raise RuntimeError("Failed to initialize cpuinfo!\nException raised from a file")

    monkeypatch.setattr(tensor_layout, "_keys", fails)
    other = front.front_of(PYTHON)
    assert not other.is_compiled() and other.why_not == "Failed to initialize cpuinfo!"
