"""``attenio models``: what the catalogue knows of models."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import plain_table, print_json, print_tables, prose
from attenio.plain_values import plain_fields

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.catalogue import HeadShape, Model


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
    notes = () if name is None else (chosen[0].description, f"Source: {chosen[0].source}")
    print_tables(_table(chosen), *(prose(note) for note in notes if note))


def _as_json(model: "Model") -> dict[str, Any]:
    return {
        **plain_fields(model, "name", "description", "source", "layers", "context"),
        "mask": str(model.mask),
        **plain_fields(model, "dtype", "scale", "sinks", "softcap"),
        "prefill": _shape_json(model.prefill),
        "decode": _shape_json(model.decode),
    }


def _shape_json(shape: "HeadShape") -> dict[str, int]:
    widths = plain_fields(shape, "heads", "kv_heads", "d", "value_dim")
    return {**widths, "values_in_keys": True} if shape.values_in_keys else widths


def _shape(shape: "HeadShape") -> tuple[str, ...]:
    return str(shape.heads), str(shape.kv_heads), str(shape.d), str(shape.value_dim)


def _table(chosen: "tuple[Model, ...]") -> "Table":
    numbers = ((name, "right") for name in ("layers", "heads", "KV\nheads", "d", "value\ndim", "context"))
    table = plain_table("model", *numbers, "mask", "type")
    for model in chosen:
        context = "" if model.context is None else f"{model.context:,}"
        rest = (context, str(model.mask), model.dtype.value)
        table.add_row(model.name, f"{model.layers}", *_shape(model.prefill), *rest)
        if model.decode != model.prefill:
            table.add_row("  at decode", "", *_shape(model.decode), *rest)
    return table
