"""``attenio pages``: requests whose keys lie in pages, shared or not, in as many bits as they take."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.cache import counts_from, softcap_from, table_from
from attenio.cli.completion import element_names, machine_names, model_names
from attenio.cli.options import AsJson, option_field, taking
from attenio.cli.paged_answer import PagedAnswer
from attenio.cli.question import DEFAULT_D, Question
from attenio.errors import InvalidInput
from attenio.plain_values import plain_fields
from attenio.quantities import parse_count

if TYPE_CHECKING:
    from attenio.paging import PagedWorkload

_DEFAULT_LENGTHS, _DEFAULT_PAGE = "64x8K", "64"


@dataclass(frozen=True, kw_only=True)
class PagedQuestion:
    """The options as typed."""

    lengths: str | None = option_field(
        f"Keys of each request, such as 8K,4K or 64x8K, 64 of them (default {_DEFAULT_LENGTHS}).", "COUNTS"
    )
    levels: str | None = option_field(
        "In place of --lengths: keys that requests share, as 4K:64,1K:8: 64 share 4K, groups of 8 of them 1K more.",
        "TREE",
    )
    own: str | None = option_field("Keys that each request of --levels has to itself (default 64).", "COUNT")
    table: str | None = option_field("A JSON file with the pages of each request of --lengths.", "PATH")
    new: str | None = option_field("New tokens of each request, the last of its keys (default 1).", "COUNTS")
    page_size: str = option_field(f"Keys of a page (default {_DEFAULT_PAGE}).", "COUNT", default=_DEFAULT_PAGE)
    d: str | None = option_field(f"Width of queries and keys (default {DEFAULT_D}).", "COUNT")
    value_dim: str | None = option_field("Width of values (default: as --d).", "COUNT")
    heads: str | None = option_field("Query heads (default 1).", "COUNT")
    kv_heads: str | None = option_field("KV heads (default: as --heads).", "COUNT")
    values_in_keys: bool = option_field("Values are the first columns of keys, one latent.", default=False)
    kv_bits: str | None = option_field("Bits of an entry of keys and values (default: those of --dtype).", "COUNT")
    sinks: bool = option_field("A sink for each head.", default=False)
    softcap: str | None = option_field("A cap on scores; it moves nothing.", "NUMBER")
    dtype: str | None = option_field("fp32, fp16, bf16 or fp8 (default fp16).", "TYPE", completion=element_names)
    accumulator: str | None = option_field("Type of sums and scores; without it each takes one word.", "TYPE")
    model: str | None = option_field("Heads and widths of a model's decode, by name.", "NAME", completion=model_names)
    machine: str | None = option_field(
        "A machine by name, or a YAML file.", "NAME|PATH", panel="Machine", completion=machine_names
    )
    fast_bytes: str | None = option_field(
        "In place of --machine: this much fast memory, such as 512KB.", "SIZE", panel="Machine"
    )

    def workload(self) -> "PagedWorkload":
        """The requests asked about."""
        from attenio.paging import PagedWorkload

        rest = {**self._shape(), "page_size": parse_count(self.page_size, "page-size")}
        if self.new is not None:
            rest["new"] = counts_from(self.new, "new")
        if self.levels is None:
            if self.own is not None:
                raise InvalidInput(f"--own {self.own} is for --levels; leave it out, or give --levels")
            lengths = counts_from(_DEFAULT_LENGTHS if self.lengths is None else self.lengths, "lengths")
            return PagedWorkload(lengths=lengths, table=table_from(self.table), **rest)
        if self.lengths is not None or self.table is not None:
            raise InvalidInput("--levels makes lengths and a table; leave --lengths and --table out, or --levels")
        own = 64 if self.own is None else parse_count(self.own, "own")
        return PagedWorkload.of_levels(_levels(self.levels), own=own, **rest)

    def _shape(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"d": DEFAULT_D}
        if self.model is not None:
            from attenio.catalogue import model_named

            model = model_named(self.model)
            shape = plain_fields(model.decode, "d", "value_dim", "heads", "kv_heads", "values_in_keys")
            shape |= plain_fields(model, "dtype", "scale", "sinks", "softcap")
        for name in ("d", "value_dim", "heads", "kv_heads", "kv_bits"):
            if getattr(self, name) is not None:
                shape[name] = parse_count(getattr(self, name), name)
        for name in ("values_in_keys", "sinks", "dtype", "accumulator"):
            if getattr(self, name):
                shape[name] = getattr(self, name)
        if self.softcap is not None:
            shape["softcap"] = softcap_from(self.softcap)
        return shape


@taking(PagedQuestion)
def pages(
    question: PagedQuestion,
    run: Annotated[
        bool, typer.Option("--run", help="Run the plan on the counted memory too.", rich_help_panel="Plan")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """What attention on pages must move, and the plan that reads shared pages once where that moves less.

    \b
    Examples:
      attenio pages --levels 32K:64 --own 256 --heads 64 --kv-heads 8 --d 128 --machine h200
      attenio pages --lengths 64x8K --kv-bits 8 --model llama-3-70b --machine h200
      attenio pages --levels 4K:64,1K:8 --page-size 16 --model deepseek-v3 --json
      attenio pages --lengths 300,70,41 --page-size 16 --d 16 --heads 4 --kv-heads 1 --sinks --fast-bytes 4KB --run
    """
    machine = replace(Question(), machine=question.machine, fast_bytes=question.fast_bytes).chosen_machine()
    PagedAnswer.of(question.workload(), machine, seed=0 if run else None).show(as_json=as_json)


def _levels(text: str) -> tuple[tuple[int, int], ...]:
    levels = []
    for each in text.split(","):
        keys, colon, requests = each.partition(":")
        if not colon:
            raise InvalidInput(f"levels is {text!r}; give keys and how many requests share them, such as 4K:64,1K:8")
        levels.append((parse_count(keys, "levels"), parse_count(requests, "levels")))
    return tuple(levels)
