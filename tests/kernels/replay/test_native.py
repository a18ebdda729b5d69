"""The compiled half of replay: forms as Python finds them, and launches that hand over what is written."""

import ctypes
import gc
import os
import random
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from tests.kernels.new_process import in_a_new_process
from tests.kernels.replay.at_once import at_once

from attenio.kernels.replay import native, repeating

MAP_BYTES = 128


@pytest.fixture(scope="module")
def module():
    if native.why_not() is not None:
        pytest.skip(f"replay is not compiled: {native.why_not()}")
    return native.loaded()


@pytest.fixture
def by_python(monkeypatch):
    monkeypatch.setattr(repeating, "loaded", lambda: None)
    return repeating._sizes_of


def drawn(pick):
    """A tensor of up to five dimensions, a part of it, another order of them, or of a view that is not aligned."""
    shape = [pick.randint(1, 5) for _ in range(pick.randint(1, 4))]
    tensor = torch.zeros([*shape, 16], dtype=pick.choice([torch.float32, torch.bfloat16, torch.float16, torch.float64]))
    way = pick.randrange(6)
    if way == 1:
        tensor = tensor.transpose(0, -1)
    elif way == 2:
        tensor = tensor[..., 8:]
    elif way == 3:
        tensor = torch.nn.Parameter(tensor)
    elif way == 4:
        tensor = tensor.flatten()[1:] if pick.random() < 0.2 else tensor.flatten()
    elif way == 5:
        tensor = tensor.clone().requires_grad_()
    return tensor


@pytest.mark.parametrize("seed", range(20))
def test_forms_are_equal_where_python_finds_them_equal(module, by_python, seed):
    pick = random.Random(seed)
    tensors = [drawn(pick) for _ in range(12)]
    tensors += [torch.zeros_like(each) for each in tensors] + [each.detach() for each in tensors[:4]]
    calls = [tuple(pick.choice(tensors) for _ in range(pick.randint(1, 3))) for _ in range(150)]
    calls += [tuple(torch.zeros_like(each) for each in call) for call in calls[:30]]
    forms = [(module.form_of(call), by_python(call)) for call in calls]
    assert all((mine is None) == (right is None) for mine, right in forms)
    known = [form for form in forms if form[0] is not None]
    assert len(known) > 50
    assert len({mine for mine, _ in known}) == len({right for _, right in known}) == len(set(known))


class Another(torch.Tensor):
    pass


def test_what_is_no_ordinary_tensor_has_no_form(module):
    plain = torch.zeros(4, 16)
    with torch.inference_mode():
        inferred = torch.zeros(4, 16)
    assert isinstance(module.form_of((plain, inferred)), bytes)
    strange = [
        plain.as_subclass(Another), plain.to_sparse(), plain.to("meta"), torch.zeros(4, dtype=torch.complex64).conj(),
        None, 3, torch.zeros([1] * 9), torch.nested.nested_tensor([plain, plain]), plain.view(-1)[1:],
    ]  # fmt: skip
    with torch._subclasses.FakeTensorMode():
        strange.append(torch.zeros(4, 16))
    strange.append(torch.func.vmap(lambda row: strange.append(row) or row)(plain))
    assert strange.pop() is not None and len(strange) == 11
    for each in strange:
        assert module.form_of((plain, each)) is None, each
    for wrong in ([plain], plain, (plain,) * 65):
        with pytest.raises(TypeError, match="tuple of up to 64 tensors"):
            module.form_of(wrong)


class Driver:
    """Keeps what the driver would read: programs, threads, bytes, stream, whether it overlaps, kernel, parameters."""

    def __init__(self, module, *, sizes, fails_at=None):
        self.seen, self.sizes, self.fails_at = [], sizes, fails_at
        self._function = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)(self._enqueue)
        native.set_up(module, ctypes.cast(self._function, ctypes.c_void_p).value)

    def _enqueue(self, config, function, parameters, extra):
        grid, block, shared = ((ctypes.c_uint * n).from_address(config + at)[:] for n, at in ((3, 0), (3, 12), (1, 24)))
        stream, attributes = (ctypes.c_void_p * 2).from_address(config + 32)
        count = ctypes.c_uint.from_address(config + 48).value
        given = (ctypes.c_void_p * len(self.sizes)).from_address(parameters)
        read = [ctypes.string_at(at, size) for at, size in zip(given, self.sizes, strict=True)]
        attribute = list((ctypes.c_int * 3).from_address(attributes)) if count else None
        assert grid[1:] == block[1:] == [1, 1] and extra is None and count in (0, 1)
        self.seen.append((grid[0], block[0], *shared, stream, attribute, function, read))
        return 2 if len(self.seen) == self.fails_at else 0


@pytest.fixture
def driver(module):
    def made(**options):
        return Driver(module, **options)

    yield made
    native.set_up(module, 0)


def word(number):
    return number.to_bytes(8, "little", signed=True)


def encoder(asked):
    """Encodes a map of an address as its bytes and 120 more, and keeps what was asked for."""
    kept = []

    def encode(address):
        asked.append(address)
        kept.append(ctypes.create_string_buffer(word(address) + bytes(range(120)), MAP_BYTES))
        return ctypes.addressof(kept[-1])

    return encode


def test_launches_are_handed_over_with_other_addresses(module, driver):
    found, asked = driver(sizes=(MAP_BYTES, 8, 8, 8)), []
    written = bytes(MAP_BYTES) + word(7) + word(8) + word(-9)
    begins = (0, MAP_BYTES, MAP_BYTES + 8, MAP_BYTES + 16)
    pointers, maps = ((MAP_BYTES, 1, 24), (MAP_BYTES + 8, -1, 0)), ((0, 0, 4, encoder(asked)),)
    steps = (5, 11, 384, 1000, True, written, begins, pointers, maps), (6, 12, 128, 0, False, written, begins, (), maps)
    launches = module.Launches(steps)
    many = [torch.zeros(512) for _ in range(200)]
    for stream in (2**40, 0):
        for first, second in zip(many, reversed(many), strict=True):
            assert launches((first, second), stream) == 0
            a, b = found.seen[-2:]
            tensor_map = word(first.data_ptr() + 4) + bytes(range(120))
            assert a[:6] == (11, 384, 1000, stream or None, [6, 0, 1], 5)
            assert a[6] == [tensor_map, word(second.data_ptr() + 24), word(0), word(-9)]
            assert b[:6] == (12, 128, 0, stream or None, None, 6) and b[6] == [tensor_map, word(7), word(8), word(-9)]
    assert len(found.seen) == 2 * 2 * len(many)
    again = len(asked)
    launches((many[-1], many[0]), 0)
    assert len(asked) == again and set(asked) == {each.data_ptr() + 4 for each in many}


def test_a_launch_that_fails_is_the_last_and_one_that_cannot_be_written_the_first(module, driver):
    step = (5, 11, 384, 0, False, word(1), (0,), ((0, 0, 0),), ())
    found, tensor = driver(sizes=(8,), fails_at=2), torch.zeros(16)
    none = (5, 0, *step[2:])  # of which Triton launches nothing, and the driver would complain
    assert module.Launches((none, step, none, step, step))((tensor,), 0) == 2 and len(found.seen) == 2

    def encode(_address):
        raise RuntimeError("cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE")

    wide = (5, 11, 384, 0, False, bytes(MAP_BYTES), (0,), (), ((0, 0, 0, encode),))
    with pytest.raises(RuntimeError, match="cuTensorMapEncodeTiled"):
        module.Launches((step, wide))((tensor,), 0)
    assert len(found.seen) == 2


def test_launches_that_do_not_fit_are_refused(module, driver):
    driver(sizes=(8,))
    fine = (5, 11, 384, 0, False, word(1), (0,), ((0, 0, 0),), ())
    for steps, said in [
        ((fine,) * 17, "too many launches"), (((*fine[:5], bytes(9000), (0,), (), ()),), "too many launches"),
        (((*fine[:7], ((1, 0, 0),), ()),), "outside of the parameters"), (((*fine[:7], ((-1, 0, 0),), ()),), "outside"),
        (((*fine[:7], (), ((0, 0, 0, print),)),), "outside"),
        (((*fine[:6], (8,), (), ()),), "outside of the parameters"), (((*fine[:6], (-8,), (), ()),), "outside"),
        (((*fine[:7], ((2**63 - 1, 0, 0),), ()),), "outside"),
        (((*fine[:6], (0,) * 65, (), ()),), "too many parameters"), (((*fine[:7], ((0, 64, 0),), ()),), "outside"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=said):
            module.Launches(steps)
    for wrong in ((3,), [fine], (fine[:-1],), ((*fine[:6], ("0",), (), ()),), ((*fine[:7], (3,), ()),)):
        with pytest.raises(TypeError):
            module.Launches(wrong)
    with pytest.raises(ValueError, match="too few tensors"):
        module.Launches((fine,))((), 0)
    for wrong in (None, 3, torch.Tensor, torch.zeros(4).to_sparse()):
        with pytest.raises(ValueError, match="no tensor"):
            module.Launches((fine,))((wrong,), 0)
    assert module.Launches((fine,))((torch.zeros(16), *[None] * 70), 0) == 0  # of which it reads one
    native.set_up(module, 0)
    with pytest.raises(ValueError, match="no driver"):
        module.Launches((fine,))


def test_no_tensor_map_is_taken_for_that_of_no_address(module, driver):
    found, asked = driver(sizes=(MAP_BYTES,)), []
    step = (5, 11, 384, 0, False, bytes(MAP_BYTES), (0,), ())
    for _ in range(2):
        assert module.Launches(((*step, ((0, -1, 0, encoder(asked)),)),))((), 0) == 0
    assert asked == [0, 0] and found.seen[0][-1] == found.seen[1][-1] == [word(0) + bytes(range(120))]
    with pytest.raises(ValueError, match="at no address"):
        module.Launches(((*step, ((0, -1, 0, lambda address: 0),)),))((), 0)


def test_threads_play_the_same_launches(module):
    here, wrong, encode = threading.local(), [], encoder([])

    @ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)
    def enqueue(config, function, parameters, extra):
        at = ctypes.c_void_p.from_address(parameters).value
        if at % 64 or ctypes.string_at(at, 16) != word(here.first) + bytes(range(8)):
            wrong.append(at)
        return ctypes.string_at(at + MAP_BYTES, 8) != word(here.second)

    native.set_up(module, ctypes.cast(enqueue, ctypes.c_void_p).value)
    step = (5, 11, 384, 0, False, bytes(MAP_BYTES + 8), (0,), ((MAP_BYTES, 1, 0),), ((0, 0, 0, encode),))
    launches, tensors = module.Launches((step,) * 4), [torch.zeros(512) for _ in range(150)]

    def play(seed):
        pick = random.Random(seed)
        for _ in range(300):
            given = pick.choice(tensors), pick.choice(tensors)
            here.first, here.second = (each.data_ptr() for each in given)
            if launches(given, 0) != 0:
                wrong.append(given)

    try:
        at_once(play, range(4))
    finally:
        native.set_up(module, 0)
    assert not wrong


def test_launches_let_go_of_what_encodes(module, driver):
    driver(sizes=(MAP_BYTES,))
    encode = encoder([])
    launches = module.Launches(((5, 11, 384, 0, False, bytes(MAP_BYTES), (0,), (), ((0, 0, 0, encode),)),))
    tensor = torch.zeros(16)
    before = sys.getrefcount(tensor)
    for _ in range(10):
        launches((tensor,), 0)
    gone = weakref.ref(encode)
    del encode
    assert gone() is not None and sys.getrefcount(tensor) == before
    del launches
    gc.collect()
    assert gone() is None


def test_it_hears_whatever_may_watch(module):
    heard = []

    def hear(tensor):
        heard.append(module.is_quiet())
        return tensor.sum()

    for transform in (torch.func.vmap, torch.func.grad):
        transform(hear)(torch.zeros(3))
    for mode in (
        torch.utils._python_dispatch.TorchDispatchMode(), torch.overrides.TorchFunctionMode(), torch.device("cpu"),
        torch.autograd.profiler.profile(),
    ):  # fmt: skip
        with mode:
            heard.append(module.is_quiet())
    assert not any(heard) and len(heard) == 6
    with torch.inference_mode():
        assert module.is_quiet() and repeating.nothing_watches_now()
    with torch.device("cpu"):  # Python knows better
        assert repeating.nothing_watches_now()
    with torch.utils._python_dispatch.TorchDispatchMode():
        assert not repeating.nothing_watches_now()


def test_where_nobody_can_be_heard_python_listens(module, monkeypatch):
    try:
        with monkeypatch.context() as patched:
            patched.setattr(native, "_WATCHERS", (("c10", "_nothing"),) * 3)
            native.set_up(module, 0)
            assert not module.is_quiet() and repeating.nothing_watches_now()
        with monkeypatch.context() as patched:  # two that are not what they should be
            patched.setattr(native, "_WATCHERS", (*native._WATCHERS[:2], native._WATCHERS[1]))
            native.set_up(module, 0)
            assert not module.is_quiet() and repeating.nothing_watches_now()
    finally:
        native.set_up(module, 0)
    assert module.is_quiet()


def asked_anew(folder, text="", typed="", **environment):
    """What another process says of its compiled module, with a cache of its own, after it has done something else."""
    text = f"from attenio.kernels.replay import native; {text}\nprint(native.why_not())"
    known = {"XDG_CACHE_HOME": str(folder), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    known["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    status, said, errors = in_a_new_process(text, known | environment, typed)
    assert status == 0, errors
    return said.strip()


def test_it_is_compiled_once_and_kept(module, tmp_path):
    assert asked_anew(tmp_path) == "None"
    (kept,) = (tmp_path / "attenio" / "native").iterdir()
    assert asked_anew(tmp_path, CC="no-such-compiler") == "None"  # nothing was compiled
    kept.write_bytes(b"no module")
    assert asked_anew(tmp_path) == "None" and kept.stat().st_size > 9
    assert [each.name for each in kept.parent.iterdir()] == [kept.name]


def test_it_says_why_it_is_not_there(module, tmp_path):
    assert "no-such-compiler" in asked_anew(tmp_path, CC="no-such-compiler")
    assert asked_anew(tmp_path, ATTENIO_NATIVE="0") == "ATTENIO_NATIVE=0 asks for none"
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho 'out of luck' >&2\nexit 1\n")
    failing.chmod(0o755)
    assert asked_anew(tmp_path, CC=str(failing)) == f"{failing}: out of luck"
    failing.write_text('#!/bin/sh\nread typed; echo "heard $typed" >&2\nexit 1\n')
    assert asked_anew(tmp_path, CC=str(failing), typed="a secret\n") == f"{failing}: heard"
    assert "quotation" in asked_anew(tmp_path, CC="gcc '-O2")
    assert not (tmp_path / "attenio").exists()


def test_a_call_within_modes_may_be_the_first(module, tmp_path):
    mapped = "torch.func.vmap(lambda row: (native.loaded(), row)[1])(torch.zeros(3))"
    for within in (mapped, "torch.set_default_device('meta')"):  # made, then loaded from disk
        first = f"import torch; {within}; native.loaded(); torch.set_default_device(None); native.why_not()"
        assert asked_anew(tmp_path, f"{first}; print(native.loaded().is_quiet())") == "True\nNone"


def test_a_call_goes_on_without_what_it_cannot_have(module, monkeypatch):
    for name, fails in (("cache_folder", RuntimeError("no home")), ("Thread", RuntimeError("no threads"))):
        with monkeypatch.context() as patched:
            for each, value in (("_begun", False), ("_module", None), ("_thread", None), ("_tried", threading.Event())):
                patched.setattr(native, each, value)
            patched.setattr(native, name, Mock(side_effect=fails) if name == "cache_folder" else Mock())
            if name == "Thread":
                native.Thread.return_value.start.side_effect = fails
            assert native.loaded() is None and native.why_not() == str(fails)


def test_a_pytorch_that_keeps_tensors_otherwise_is_left_to_python(module, monkeypatch):
    path = Path(module.__file__) if Path(module.__file__).is_file() else native._file()
    assert native._loaded_from(path) is not None
    with monkeypatch.context() as patched:
        patched.setattr(native, "tensor_layout", lambda: None)
        assert native._loaded_from(path) is None and "in another way" in native._why_not
    with monkeypatch.context() as patched:
        patched.setattr(native, "TYPE_NUMBERS", dict.fromkeys(native.TYPE_NUMBERS, 1))
        assert native._loaded_from(path) is None and "other sizes" in native._why_not
    with monkeypatch.context() as patched:
        patched.setattr(native, "_ASKED", ("aoti_torch_get_nothing",) * 6)
        assert native._loaded_from(path) is None and "does not tell C" in native._why_not


@pytest.mark.parametrize("given", [(0, PLAIN := (False, None, False, False, None)), (0.0, (*PLAIN[:4], True))], ids=str)
def test_a_call_is_not_recalled_where_more_is_to_be_asked(monkeypatch, given):
    heads = tuple(torch.zeros(1, 1, 4, 16) for _ in range(3))
    known = repeating.Known(5)
    known.arguments = ()
    monkeypatch.setattr(repeating, "known_of", lambda tensors, options: known)
    monkeypatch.setattr(repeating, "loaded", lambda: SimpleNamespace(is_quiet=lambda: False))
    assert repeating.recalled(heads, 0.0, PLAIN) is known
    assert repeating.recalled(heads, *given) is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert repeating.recalled(heads, 0.0, PLAIN) is None
    with torch.autograd.forward_ad.dual_level():
        assert repeating.recalled(heads, 0.0, PLAIN) is None
    with torch.utils._python_dispatch.TorchDispatchMode():
        assert repeating.recalled(heads, 0.0, PLAIN) is None
    with torch.overrides.TorchFunctionMode():
        assert repeating.recalled(heads, 0.0, PLAIN) is None
    known.arguments = None
    assert repeating.recalled(heads, 0.0, PLAIN) is None


def test_headers_are_found_where_packages_of_debian_have_them(monkeypatch, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "Python.h").touch()
    for first, second in (("there", "no"), ("no", "there")):
        monkeypatch.setattr(native.sysconfig, "get_config_var", lambda _name, at=first: str(tmp_path / at))
        monkeypatch.setattr(native.sysconfig, "get_paths", lambda at=second: {"include": str(tmp_path / at)})
        assert native._headers() == tmp_path / "there"
    monkeypatch.setattr(native.sysconfig, "get_config_var", lambda _name: None)
    monkeypatch.setattr(native.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(LookupError, match=r"there is no Python\.h in .*; install the headers"):
        native._headers()
