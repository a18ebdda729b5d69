"""Named machines and models, as data with their source."""

from attenio.catalogue.machines import as_machine, machine_named, machines, machines_in_file
from attenio.catalogue.model_config import model_from_config, model_named
from attenio.catalogue.models import HeadShape, Model, models

__all__ = [
    "HeadShape",
    "Model",
    "as_machine",
    "machine_named",
    "machines",
    "machines_in_file",
    "model_from_config",
    "model_named",
    "models",
]
