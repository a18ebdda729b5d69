"""The explorer: planner and simulator in a browser page, which asks Python in a worker and nothing else."""

from attenio.explorer.answers import prepare, respond
from attenio.explorer.narrow_indices import accept_wide_counts

__all__ = ["accept_wide_counts", "prepare", "respond"]
