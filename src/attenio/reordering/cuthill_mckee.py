"""Reverse Cuthill-McKee order of the graph of rows and keys, linked by required blocks.

The order goes breadth first from one end of the graph to the other, which puts rows that share keys near each other
when every row shares keys with few others. Rows and keys that are linked to most of the other side bring everything
within two steps and would hide the rest: they are left out of the graph and put first, where such rows share a tile.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.errors import MissingExtra

# Rows and keys linked to more than this part of the other side are left out.
_MOST = 0.5


def cuthill_mckee_orders(blocks: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Orders of the rows and of the columns of a table of required blocks."""
    try:
        from scipy.sparse import bmat, csr_array
        from scipy.sparse.csgraph import reverse_cuthill_mckee
    except ImportError:
        raise MissingExtra("the Cuthill-McKee order", "pebble") from None
    full_rows = np.flatnonzero(blocks.mean(axis=1) > _MOST)
    full_keys = np.flatnonzero(blocks.mean(axis=0) > _MOST)
    linked = blocks.copy()
    linked[full_rows, :] = False
    linked[:, full_keys] = False
    table = csr_array(linked.astype(np.int8))
    graph = bmat([[None, table], [table.T, None]], format="csr")
    order = np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.intp)
    count = len(blocks)
    rows, keys = order[order < count], order[order >= count] - count
    return _first(full_rows, rows), _first(full_keys, keys)


def _first(chosen: NDArray[np.intp], order: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.concatenate([chosen, order[~np.isin(order, chosen)]])
