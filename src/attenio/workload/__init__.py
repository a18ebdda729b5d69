"""What is computed: shapes, heads, mask and element type of one attention call."""

from attenio.workload.checks import checked_lengths, refuse_forms
from attenio.workload.direction import Direction
from attenio.workload.workload import Workload, WorkloadOptions, checked_workload

__all__ = ["Direction", "Workload", "WorkloadOptions", "checked_lengths", "checked_workload", "refuse_forms"]
