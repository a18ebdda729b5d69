"""``attenio models``: what the catalogue knows of models."""

from typing import Annotated, Any

import typer

from attenio.catalogue import HeadShape, Model
from attenio.cli.output import print_json, print_tables
from attenio.cli.question import AsJson

__all__ = ["models"]


def models(
    name: Annotated[str | None, typer.Argument(help="One model or config.json, in full.", metavar="NAME|PATH")] = None,
    as_json: AsJson = False,
) -> None:
    """List the models that --model knows, or show one with its source.

    \b
    Examples:
      attenio models
      attenio models deepseek-v3
      attenio models path/to/config.json     any Hugging Face model
      attenio models --json
    """
    from attenio import catalogue

    chosen = catalogue.models() if name is None else (catalogue.model_named(name),)
    if as_json:
        described = [_as_json(model) for model in chosen]
        print_json(described if name is None else described[0])
        return
    from attenio.report.catalogue_tables import models_table

    notes = () if name is None else (chosen[0].description, f"Source: {chosen[0].source}")
    print_tables(models_table(chosen), *(note for note in notes if note))


def _as_json(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "description": model.description,
        "source": model.source,
        "layers": model.layers,
        "context": model.context,
        "mask": str(model.mask),
        "dtype": model.dtype.value,
        "scale": model.scale,
        "prefill": _shape_json(model.prefill),
        "decode": _shape_json(model.decode),
    }


def _shape_json(shape: HeadShape) -> dict[str, int]:
    return {"heads": shape.heads, "kv_heads": shape.kv_heads, "d": shape.d, "value_dim": shape.value_dim}
