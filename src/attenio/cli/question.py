"""What is asked about: the options that describe a workload and a machine, said once for every command."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from attenio.cli.completion import (
    dataflow_names,
    direction_names,
    element_names,
    machine_names,
    mask_names,
    model_names,
)
from attenio.cli.options import option, option_field, taking
from attenio.errors import InvalidInput
from attenio.quantities import parse_bytes, parse_count

# NumPy and YAML load when a question is answered, so that --help and --version need not wait for them.
if TYPE_CHECKING:
    from attenio.machine import Machine
    from attenio.planning import Dataflow
    from attenio.workload import Direction, Workload

DEFAULT_MACHINE = "attenio-512k"
DEFAULT_D = 64
DEFAULT_N = 131072


DataflowName = Annotated[
    str | None,
    option(
        "--dataflow",
        "Only this one: standard, flat, flash-attention-1, flash-attention-2, attenio, square-tiling, ...",
        "NAME",
        panel="Plan",
        completion=dataflow_names,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Question:
    """The options as typed; numbers are text here because 128K and 512KB are numbers too."""

    n: str | None = option_field(
        "Queries and keys of a sequence, such as 4096 or 128K, the default (1K to run).", "COUNT"
    )
    queries: str | None = option_field("Queries, where they are not as many as the keys.", "COUNT")
    keys: str | None = option_field("Keys, where they are not as many as the queries.", "COUNT")
    d: str | None = option_field("Width of a head's queries and keys (default 64).", "COUNT")
    value_dim: str | None = option_field("Width of a head's values (default: as --d).", "COUNT")
    heads: str | None = option_field("Query heads (default 1).", "COUNT")
    kv_heads: str | None = option_field("KV heads, shared by groups of query heads (default: as --heads).", "COUNT")
    batch: str | None = option_field("Sequences (default 1).", "COUNT")
    mask: str | None = option_field(
        "dense, causal, window:4096, documents:1024,512, prefix:8K, block-sparse:layout.npy:64 or a layout such as"
        " longformer:512:64, bigbird:192:128:3, strided:2048.",
        "MASK",
        completion=mask_names,
    )
    dtype: str | None = option_field("fp32, fp16, bf16 or fp8 (default fp16).", "TYPE", completion=element_names)
    accumulator: str | None = option_field("Type of sums and scores; without it each takes one word.", "TYPE")
    scale: str | None = option_field("Factor on the scores (default 1/sqrt(d)).", "NUMBER")
    model: str | None = option_field(
        "Shapes of a model by name, or of a config.json; other options override it.",
        "NAME|PATH",
        completion=model_names,
    )
    direction: str | None = option_field(
        "forward (default), backward (the gradient) or training (both).", "WAY", completion=direction_names
    )
    tolerance: str | None = option_field(
        "Allow outputs to be off by this share of half the range of a column of values.", "NUMBER"
    )
    entry_bound: str | None = option_field(
        "The largest size of an entry of queries and keys; with --tolerance.", "NUMBER"
    )
    decode: bool = option_field("One query per sequence.", default=False)
    machine: str | None = option_field(
        f"A machine by name, host for this one, or a YAML file (default {DEFAULT_MACHINE}).",
        "NAME|PATH",
        panel="Machine",
        completion=machine_names,
    )
    fast_bytes: str | None = option_field(
        "In place of --machine: this much fast memory, such as 512KB.", "SIZE", panel="Machine"
    )
    free_tiles: bool = option_field(
        "Tiles of any size, also on machines whose matrix units ask for multiples.", panel="Machine", default=False
    )

    def workload(self, default_n: int, *, executed: bool = False) -> "Workload":
        """The workload asked about.

        Without a length it is the model's context, or ``default_n``; when it will be ``executed``, at most that.
        """
        self.check_lengths()
        if self.entry_bound is not None and self.tolerance is None and not executed:
            raise InvalidInput(
                f"--entry-bound {self.entry_bound} is for approximations; give --tolerance too, or leave it out"
            )
        if self.model is None:
            return self._plain_workload(default_n)
        from attenio.catalogue import model_named

        model = model_named(self.model)
        n = self._count("n")
        if n is None and self.queries is None and self.keys is None:
            n = self._documents_length()
        if n is None and self.keys is None:
            context = model.context or default_n
            n = min(context, default_n) if executed else context
        batch = self._count("batch")
        base = model.workload(
            n=n,
            queries=self._queries(),
            keys=self._count("keys"),
            batch=1 if batch is None else batch,
            decode=self.decode,
        )
        if self.tolerance is not None:
            base = base.plain  # sinks and caps are planned exactly; the notes say that they are left out
        return replace(base, **self._changes(base))

    def notes(self, workload: "Workload") -> tuple[str, ...]:
        """What the model asked about adds to the counts of this workload, and a tolerance that nothing keeps."""
        from attenio.catalogue import model_named

        notes = () if self.model is None else model_named(self.model).notes(workload)
        if workload.tolerance is None:
            return notes
        from attenio.approximation.rounding import least_rounding_error

        rounding = least_rounding_error()
        if workload.tolerance >= rounding:
            return notes
        told = f"rounding sums in fp32 may cost {rounding:.1g}, so no approximation keeps a tolerance of"
        return (*notes, f"{told} {workload.tolerance:g}; exact attention is planned, and rounds as well")

    def timed_workload(self, default_n: int) -> "Workload":
        """The workload for what is measured here: contenders know no sinks and caps, and a latent is one array."""
        return self.workload(default_n, executed=True).plain

    def separate_workload(self, default_n: int, *, executed: bool = False) -> "Workload":
        """The workload for the accelerator, which loads keys and values as two arrays and knows no sinks."""
        workload = self.workload(default_n, executed=executed).plain
        if workload.values_in_keys:
            raise InvalidInput(
                f"values are the first {workload.value_dim} columns of the keys of {self.model}, and the accelerator"
                f" has a buffer for each; give --d {workload.d} --value-dim {workload.value_dim} to ask about two"
                " arrays"
            )
        return workload

    def refuse_tolerance(self, what: str) -> None:
        """Refuse to approximate where only exact attention is done, in place of ignoring the wish."""
        if self.tolerance is not None:
            raise InvalidInput(
                f"{what} exact attention; leave --tolerance {self.tolerance} out, or ask attenio plan about it"
            )

    def check_lengths(self) -> None:
        """Refuse a length that nothing is left to take from."""
        if self.n is not None and self.keys is not None and (self.decode or self.queries is not None):
            other = "--decode" if self.queries is None else "--queries"
            raise InvalidInput(
                f"--n sets both lengths, which {other} and --keys do already; leave --n {self.n} or one of them out"
            )

    def chosen_machine(self) -> "Machine":
        """The machine asked about."""
        from attenio.catalogue import machine_named
        from attenio.machine import Machine

        if self.fast_bytes is None:
            machine = machine_named(DEFAULT_MACHINE if self.machine is None else self.machine)
            return machine.with_free_tiles() if self.free_tiles else machine
        if self.machine is not None:
            raise InvalidInput(
                f"--machine {self.machine} and --fast-bytes {self.fast_bytes} both say how much fast memory there is;"
                " choose one, or describe the machine in a YAML file"
            )
        return Machine.with_fast_bytes(parse_bytes(self.fast_bytes, "fast-bytes"))

    def _plain_workload(self, default_n: int) -> "Workload":
        from attenio.workload import Workload

        given = {name: self._count(name) for name in ("n", "keys", "d", "value_dim", "heads", "kv_heads", "batch")}
        known: dict[str, Any] = {"d": DEFAULT_D} | {name: count for name, count in given.items() if count is not None}
        if "n" not in known and not ("keys" in known and self._queries() is not None):
            known["n"] = known["keys"] if "keys" in known else self._documents_length() or default_n
        return Workload(
            queries=self._queries(),
            mask="dense" if self.mask is None else self.mask,
            dtype="fp16" if self.dtype is None else self.dtype,
            accumulator=self.accumulator,
            scale=self._number("scale", "0.125"),
            direction=direction_named(self.direction),
            tolerance=self._number("tolerance", "0.01"),
            entry_bound=self._number("entry_bound", "0.5"),
            **known,
        )

    def _changes(self, base: "Workload") -> dict[str, Any]:
        """What other options override of a model; widths or heads that were equal stay equal."""
        given: dict[str, Any] = {name: self._count(name) for name in ("d", "value_dim", "heads", "kv_heads")}
        if base.value_dim == base.d and given["value_dim"] is None:
            given["value_dim"] = given["d"]
        if base.kv_heads == base.heads and given["kv_heads"] is None:
            given["kv_heads"] = given["heads"]
        given |= {"mask": self.mask, "dtype": self.dtype, "accumulator": self.accumulator}
        given |= {"scale": self._number("scale", "0.125"), "tolerance": self._number("tolerance", "0.01")}
        given["entry_bound"] = self._number("entry_bound", "0.5")
        given["direction"] = direction_named(self.direction)
        if base.values_in_keys and (given["d"], given["value_dim"]) != (None, None):
            given["values_in_keys"] = False  # other widths are not those of the model's latent
        return {name: value for name, value in given.items() if value is not None}

    def _queries(self) -> int | None:
        queries = self._count("queries")
        if self.decode and queries not in (None, 1):
            raise InvalidInput(f"--decode asks about one query but --queries says {queries:,}; leave one of them out")
        return 1 if self.decode else queries

    def _documents_length(self) -> int | None:
        from attenio.masks import Documents, mask_from_text

        mask = None if self.mask is None else mask_from_text(self.mask)
        return sum(mask.lengths) if isinstance(mask, Documents) else None

    def _number(self, name: str, example: str) -> float | None:
        text = getattr(self, name)
        try:
            return None if text is None else float(text)
        except ValueError:
            raise InvalidInput(f"{name} is {text!r}; give a number such as {example}") from None

    def _count(self, name: str) -> int | None:
        text = getattr(self, name)
        return None if text is None else parse_count(text, name)


def direction_named(name: str | None) -> "Direction":
    """The direction with this name, forward if none is given."""
    from attenio.workload import Direction

    return Direction.FORWARD if name is None else Direction.named(name)


def refuse_dataflow_of_step(name: str | None) -> None:
    """A training step has a dataflow for each of its passes, so one name is not enough."""
    if name is not None:
        raise InvalidInput(
            f"--dataflow {name} is one of two that a training step needs; leave it out, or ask about one pass with"
            " --direction forward or --direction backward"
        )


def dataflow_named(name: str | None) -> "Dataflow | None":
    """The dataflow with this name, if one is given."""
    from attenio.planning import Dataflow

    return None if name is None else Dataflow.named(name)


asking = taking(Question)
