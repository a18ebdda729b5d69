"""The compiled half of replay (``native.c``): forms of known calls and their launches, without Python in between.

To read the sizes of ten tensors and to hand four kernels their addresses takes Python a quarter to a third of the host
time of a training step. A C compiler and Python's headers are there wherever Triton works, which needs them itself. The
module is compiled once, beside the first calls, and kept on disk. Until it is there, where it cannot be made, where
PyTorch keeps its tensors in another way, and with ``ATTENIO_NATIVE=0``, Python does the same.
"""

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attenio.errors import AttenioError
from attenio.files import cache_folder, write_atomically
from attenio.kernels.call.tensor_layout import TYPE_NUMBERS, tensor_layout
from attenio.kernels.call.watching import CLASSES, ORDINARY_KEYS, USUAL_KEYS

_NAME = "attenio_native"
_OPTIONS = ("-O2", "-shared", "-fPIC")
# What PyTorch promises to programs in C: all of a tensor that belongs to the form of a call.
_ASKED = tuple(f"aoti_torch_get_{each}" for each in ("sizes", "strides", "dim", "dtype", "device_index", "data_ptr"))

# What it does not promise, by their names in C++: whether a thread includes dispatch keys, is profiled, and has modes.
_WATCHERS = (
    ("c10", "_ZN3c104impl31tls_is_dispatch_keyset_includedENS_14DispatchKeySetE"),
    ("torch_cpu", "_ZN5torch8profiler4impl15profilerEnabledEv"),
    ("torch_cpu", "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"),
)

_beginning, _tried = Lock(), Event()
_thread: Thread | None = None
_module: Any = None
_begun, _why_not = False, "no call has asked for it"


def loaded() -> Any | None:
    """The compiled module, if it is there by now. Who asks first has it loaded from disk, or begun."""
    if not _begun:
        _begin()
    return _module


def why_not() -> str | None:
    """What is in the way of the compiled module, if anything is; this waits for it."""
    loaded()
    if _thread is not None:
        _thread.join()
    return None if _module is not None else _why_not


def _begin() -> None:
    global _begun, _thread, _why_not
    with _beginning:
        if _begun:
            return
        if os.environ.get("ATTENIO_NATIVE") == "0":
            _why_not = "ATTENIO_NATIVE=0 asks for none"
        else:  # on a thread of its own, which has none of the modes and transforms that this one may be within
            thread = Thread(target=_load_or_make, name="attenio-native")
            try:
                thread.start()
            except RuntimeError as error:  # no more threads, or the process ends
                _why_not = str(error)
            else:
                _thread = thread
                _tried.wait()
        _begun = True


def _load_or_make() -> None:
    """From disk, for which calls wait; or anew, for which they do not."""
    global _module, _why_not
    try:
        path = _file()
        if path.is_file():
            _module = _loaded_from(path)
        _tried.set()
        if _module is None:
            _make(path)
    except subprocess.CalledProcessError as error:
        _why_not = f"{error.cmd[0]}: {error.stderr.decode(errors='replace').partition(chr(10))[0]}"
    except (LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        _why_not = str(error)
    finally:
        _tried.set()


def _file() -> Path:
    """By what it is made of and made for."""
    made_of = f"{_source()} {_OPTIONS} {sysconfig.get_config_var('SOABI')} {sysconfig.get_platform()}"
    return cache_folder() / "native" / f"{hashlib.sha256(made_of.encode()).hexdigest()[:32]}.so"


@cache
def _source() -> str:
    return files(__package__).joinpath("native.c").read_text(encoding="utf-8")


def _make(path: Path) -> None:
    global _module
    compiler, headers = _compiler(), _headers()
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder, f"{_NAME}.c"), Path(folder, f"{_NAME}.so")
        text.write_text(_source(), encoding="utf-8")
        command = [*compiler, *_OPTIONS, f"-I{headers}", str(text), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        _keep(path, made.read_bytes())
        _module = _loaded_from(made)


def _headers() -> Path:
    """Where Python.h is: packages of Debian have it elsewhere than packages installed beside them would."""
    folders = [Path(each) for each in (sysconfig.get_config_var("INCLUDEPY"), sysconfig.get_paths()["include"]) if each]
    for folder in folders:
        if (folder / "Python.h").is_file():
            return folder
    raise LookupError(f"there is no Python.h in {folders[-1]}; install the headers of this Python")


def _keep(path: Path, made: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, made)
    except (AttenioError, OSError):  # a disk that cannot be written to costs time only
        pass


def _compiler() -> list[str]:
    named = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if not named:
        raise LookupError("there is no C compiler; install gcc or clang, or name one in CC")
    return shlex.split(named)


def _loaded_from(path: Path) -> Any | None:
    """The module of a file, once it has read some tensors as Python does."""
    global _why_not
    loader = ExtensionFileLoader(_NAME, str(path))
    spec = spec_from_loader(_NAME, loader)
    assert spec is not None
    try:
        module = module_from_spec(spec)
        loader.exec_module(module)
        set_up(module, _enqueue())
        if not _reads_right(module):
            raise LookupError("this PyTorch tells C other sizes than Python")
    except (AttributeError, ImportError, LookupError, OSError) as error:
        _why_not = str(error)
        return None
    return module


def set_up(module: Any, enqueue: int) -> None:
    """Tell it where everything is; ``enqueue``: the address of the function that launches kernels, or 0."""
    layout = tensor_layout()
    if layout is None:
        raise LookupError("this PyTorch keeps its tensors in another way")
    askers = [_address_in("torch_cpu", name) for name in _ASKED]
    if 0 in askers:
        raise LookupError("this PyTorch does not tell C the sizes of tensors")
    watchers = [_address_in(*each) for each in _WATCHERS]
    for trusted in (watchers, (0, 0, 0)):  # without them Python looks who watches
        given = CLASSES, ORDINARY_KEYS, (*askers, enqueue), USUAL_KEYS, tuple(trusted)
        module.set_up(layout.tensor, layout.keys, *given)
        if 0 not in watchers and _hears_right(module):
            return


def _hears_right(module: Any) -> bool:
    """Whether it sees dispatch keys and modes come and go."""
    heard = [module.is_quiet()]
    for context in (torch._C._IncludeDispatchKeyGuard(torch.DispatchKey.Negative), TorchFunctionMode()):
        with context:
            heard.append(module.is_quiet())
        heard.append(module.is_quiet())
    return heard == [True, False, True, False, True]


def _address_in(library: str, name: str) -> int:
    """Of a function in a library of PyTorch's; 0 where it is not."""
    for path in sorted(Path(torch.__path__[0], "lib").glob(f"*{library}.*")):
        function = getattr(ctypes.CDLL(str(path)), name, None)
        if function is not None:
            return _address(function)
    return 0


def _enqueue() -> int:
    """The address of the driver's function that launches a kernel; 0 without a driver."""
    try:
        return _address(ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx)
    except (AttributeError, OSError):
        return 0


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _reads_right(module: Any) -> bool:
    with torch.inference_mode(mode=False):
        first = torch.empty((3, 5, 16, 8), device="cpu", dtype=torch.bfloat16)
        other = torch.empty((6, 32), device="cpu", dtype=torch.float32)[2:, 4:12].transpose(0, 1)
        unaligned = first.view(-1)[1:]
    given = (first, other, first.detach())
    expected = b"".join(
        b"".join(int(number & (2**64 - 1)).to_bytes(8, "little") for number in _words(tensor, place))
        for tensor, place in zip(given, (0, 1, 0), strict=True)
    )
    return module.form_of(given) == expected and module.form_of((unaligned,)) is None


def _words(tensor: torch.Tensor, place: int) -> list[int]:
    first = place << 48 | TYPE_NUMBERS[tensor.dtype] << 32 | (tensor.get_device() & 0xFFFF) << 16 | tensor.dim()
    return [first, *tensor.shape, *tensor.stride()]
