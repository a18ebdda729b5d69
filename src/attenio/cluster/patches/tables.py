"""Tables of patchworks that a search found, kept with the package: ``tables.json``.

An entry has the owners of the blocks and, packed, the makers of all heads one after another. ``cut`` says into how many
each block is cut to pass on keys in small parts, where there are tokens enough for that. How they were found:
``studies/many-devices-planned/patches.py``.
"""

import json
from base64 import b64decode, b64encode
from functools import lru_cache
from importlib.resources import files
from typing import Any
from zlib import compress, decompress

import numpy as np

from attenio.cluster.patches.layout import Patchwork


@lru_cache(maxsize=1)
def tables() -> tuple[Patchwork, ...]:
    """All tables that are kept, each as it is and cut."""
    entries = json.loads(files(__package__).joinpath("tables.json").read_text(encoding="utf-8"))
    found = [(unpacked(each), int(each["cut"])) for each in entries]
    return tuple(each for table, cut in found for each in ((table, table.finer(cut)) if cut > 1 else (table,)))


def unpacked(entry: dict[str, Any]) -> Patchwork:
    """A patchwork from its entry."""
    every = np.frombuffer(decompress(b64decode(entry["makers"])), dtype=np.uint8).reshape(entry["heads"], -1)
    return Patchwork(owners=tuple(entry["owners"]), makers=tuple(tuple(each) for each in every.tolist()))


def packed(patchwork: Patchwork, cut: int = 1) -> dict[str, Any]:
    """The entry of a patchwork of at most 256 ranks.

    >>> one = Patchwork(owners=(0, 1), makers=((0, 1, 1),))
    >>> unpacked(packed(one)) == one
    True
    """
    makers = np.array(patchwork.makers, dtype=np.uint8).tobytes()
    return {
        "heads": patchwork.heads,
        "cut": cut,
        "owners": list(patchwork.owners),
        "makers": b64encode(compress(makers, 9)).decode(),
    }
