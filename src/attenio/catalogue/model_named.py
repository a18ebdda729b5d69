"""A model by its name, or by the file that describes it."""

from pathlib import Path

from attenio.catalogue.model_config import model_from_config
from attenio.catalogue.models import Model, models
from attenio.errors import InvalidInput
from attenio.names import checked_kind, did_you_mean


def model_named(name: str) -> Model:
    """The model with this name, in any case, or the one a Hugging Face ``config.json`` (or its folder) describes.

    A name of the catalogue comes before a folder that is called the same; ``./name`` is always the folder.
    """
    checked_kind(name, str, "model", "a name such as 'llama-3-70b' ('attenio models' lists all)")
    if name.lower().endswith(".json") or "/" in name or "\\" in name or name == ".":
        return model_from_config(name)
    for model in models():
        if model.name == name.lower():
            return model
    if name and (Path(name) / "config.json").is_file():
        return model_from_config(name)
    hint = did_you_mean(name, [model.name for model in models()])
    raise InvalidInput(f"unknown model {name!r}; {hint}'attenio models' lists all, and a path to config.json reads it")
