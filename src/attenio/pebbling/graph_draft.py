"""A graph while its file is being read: complains with the file's name and line, and refuses early what is too large.

>>> draft = GraphDraft("sums.edges")
>>> draft.edge("a", "sum", line=1)
>>> draft.edge("a", "sum", line=2)
Traceback (most recent call last):
attenio.errors.InvalidInput: sums.edges line 2: the edge a -> sum is given twice; keep one
"""

from collections.abc import Mapping
from pathlib import Path

from attenio.errors import InvalidInput
from attenio.pebbling.graph import MOST_VERTICES, ComputationGraph
from attenio.quantities import checked_count

# Text of the largest graph with long names, and some; beyond it even reading would take the computer's memory.
_LARGEST_BYTES = 2**30
# Up to so many parents a list is searched as fast as a set, and takes a fraction of its room.
_FEW = 16


class GraphDraft:
    """Vertices in the order in which they are first seen, their parents, weights and outputs."""

    def __init__(self, file: str, *, name: str | None = None) -> None:
        self.file = file
        self.name = (Path(file).stem or "graph") if name is None else name
        self._parents: dict[str, list[str]] = {}
        self._many: dict[str, set[str]] = {}
        self._weights: dict[str, tuple[int, int]] = {}
        self._outputs: dict[str, int] = {}

    def complaint(self, what: str, line: int | None = None) -> InvalidInput:
        """An error about this file."""
        where = self.file if line is None else f"{self.file} line {line:,}"
        # A name may hold a line break; an error is one line.
        return InvalidInput(f"{where}: {what}".replace("\n", "\\n").replace("\r", "\\r"))

    def vertex(self, name: str, *, line: int | None = None) -> bool:
        """Take the vertex in; whether it is new."""
        if name in self._parents:
            return False
        if len(self._parents) == MOST_VERTICES:
            raise self.complaint(f"more than {MOST_VERTICES:,} vertices, the most that attenio pebbles", line)
        self._parents[name] = []
        return True

    def edge(self, source: str, target: str, *, line: int | None = None) -> None:
        """Take in that ``target`` is computed from ``source``."""
        self.vertex(source, line=line)
        self.vertex(target, line=line)
        needs = self._parents[target]
        if len(needs) == _FEW:
            self._many[target] = set(needs)
        known = self._many[target] if len(needs) >= _FEW else needs
        if source in known:
            raise self.complaint(f"the edge {source} -> {target} is given twice; keep one", line)
        needs.append(source)
        if isinstance(known, set):
            known.add(source)

    def weight(self, vertex: str, words: object, *, line: int | None = None) -> None:
        """Take in how many words a vertex takes: a whole number, or text or a float that is one."""
        try:
            whole = int(float(words)) if isinstance(words, str | float) and float(words).is_integer() else words
            self._weights[vertex] = checked_count(f"the weight of {vertex}", whole), line or 0
        except (InvalidInput, ValueError, OverflowError) as error:
            what = str(error) if isinstance(error, InvalidInput) else f"the weight of {vertex} is {words!r}"
            raise self.complaint(what if ";" in what else f"{what}; give a whole number", line) from None

    def output(self, vertex: str, *, line: int | None = None) -> None:
        """Take in that a vertex is an output; if none is, those are that nothing needs."""
        self._outputs[vertex] = line or 0

    def describe(self, vertex: str, attributes: Mapping[str, object], *, line: int | None = None) -> None:
        """Take in the ``weight`` and the ``output`` (true or false) among a vertex's attributes."""
        if "weight" in attributes:
            self.weight(vertex, attributes["weight"], line=line)
        output = str(attributes.get("output", False))
        if output.lower() in ("true", "yes", "1"):
            self.output(vertex, line=line)
        elif output.lower() not in ("false", "no", "0"):
            raise self.complaint(f"output={output} of {vertex}; write true or false", line)

    def finish(self) -> ComputationGraph:
        """The graph, checked."""
        if not self._parents:
            raise self.complaint("there is no graph in it; give at least one edge")
        seen = {vertex: line for vertex, (_, line) in self._weights.items()} | self._outputs
        for vertex, line in seen.items():
            if vertex not in self._parents:
                raise self.complaint(f"the graph has no vertex {vertex!r}", line or None)
        weights = {vertex: words for vertex, (words, _) in self._weights.items()}
        try:
            return ComputationGraph.from_parents(
                self._parents, name=self.name, outputs=self._outputs or None, weights=weights
            )
        except InvalidInput as error:
            raise self.complaint(str(error)) from None


def read_text(path: Path) -> str:
    """The text of a file, or one line that says why there is none."""
    try:
        size = path.stat().st_size
        if size > _LARGEST_BYTES:
            raise InvalidInput(
                f"{path} has {size:,} bytes; attenio pebbles graphs of up to {MOST_VERTICES:,} vertices,"
                f" and reads files of up to {_LARGEST_BYTES:,} bytes"
            )
        # A byte-order mark, which some editors write, is no part of the first name.
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InvalidInput(f"{path} does not exist; check its name") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text (byte {error.start:,}); save it as UTF-8") from None
    if not text.strip():
        raise InvalidInput(f"{path} is empty; check that it was written completely")
    return text
