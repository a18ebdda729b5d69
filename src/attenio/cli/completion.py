"""What a shell offers after an option, where that is a list of names.

>>> machine_names("h")
['h100', 'h200', 'host']
"""

_MASKS = ("dense", "causal", "window:", "documents:", "prefix:", "block-sparse:", "longformer:", "bigbird:", "strided:")


def _beginning(names: "list[str] | tuple[str, ...]", incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete.lower())]


def machine_names(incomplete: str) -> list[str]:
    """Machines of the catalogue, and this one."""
    from attenio.catalogue import machines

    return _beginning([*(machine.name for machine in machines()), "host"], incomplete)


def model_names(incomplete: str) -> list[str]:
    """Models of the catalogue."""
    from attenio.catalogue import models

    return _beginning([model.name for model in models()], incomplete)


def dataflow_names(incomplete: str) -> list[str]:
    """Dataflows by name."""
    from attenio.planning import Dataflow

    return _beginning([dataflow.value for dataflow in Dataflow], incomplete)


def mask_names(incomplete: str) -> list[str]:
    """Masks; those with a colon ask for a number after it."""
    return _beginning(_MASKS, incomplete)


def direction_names(incomplete: str) -> list[str]:
    """Directions."""
    return _beginning(("forward", "backward", "training"), incomplete)


def element_names(incomplete: str) -> list[str]:
    """Element types."""
    from attenio.elements import ElementType

    return _beginning([element.value for element in ElementType], incomplete)
