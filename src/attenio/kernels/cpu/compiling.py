"""Text in LLVM's language, compiled for this processor where llvmlite is installed."""

from functools import cache
from importlib.util import find_spec
from typing import Any

_engines: list[Any] = []  # they own the code


@cache
def has_compiler() -> bool:
    """Whether llvmlite is installed."""
    return find_spec("llvmlite") is not None


def compiled(text: str, *, vectors: bool = True) -> Any:
    """What knows the addresses of a module's functions, which stay; without ``vectors`` nothing is made parallel."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    own: dict[str, str] = {}
    if vectors:
        own = {"cpu": binding.get_host_cpu_name(), "features": binding.get_host_cpu_features().flatten()}
    machine = binding.Target.from_default_triple().create_target_machine(opt=3, **own)
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=2)
    if not vectors:
        options.loop_vectorization = options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return engine
