"""Attention on pages: requests of different lengths whose keys lie in pages, some of them shared, in fewer bits.

>>> from attenio.paging import PagedWorkload, plan_pages
>>> workload = PagedWorkload.of_levels(((1024, 8),), own=64, page_size=64, d=64, heads=8, kv_heads=2)
>>> plan = plan_pages(workload, 16_384)
>>> plan.shares, plan.moved_words < plan.apart_words / 4
(True, True)
"""

from attenio.paging.best import plan_pages
from attenio.paging.bounds import bounds_for_pages
from attenio.paging.execute import PagedRun, execute_pages
from attenio.paging.inputs import PagedInputs, paged_attention, random_paged_inputs
from attenio.paging.plan import PagedTiles, PagingPlan
from attenio.paging.sweep import sweep_pages
from attenio.paging.workload import PagedWorkload

__all__ = [
    "PagedInputs",
    "PagedRun",
    "PagedTiles",
    "PagedWorkload",
    "PagingPlan",
    "bounds_for_pages",
    "execute_pages",
    "paged_attention",
    "plan_pages",
    "random_paged_inputs",
    "sweep_pages",
]
