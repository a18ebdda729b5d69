"""Strips and patchworks by one set of names: for which workloads they are, what they send, and which messages."""

from attenio.cluster.bytes import stage_widths_bytes
from attenio.cluster.layout import Messages
from attenio.cluster.patches import words as patches
from attenio.cluster.patches.layout import Patchwork
from attenio.cluster.patches.messages import PatchesMessages
from attenio.cluster.strips import words as strips
from attenio.cluster.strips.layout import Strips
from attenio.cluster.strips.messages import StripsMessages
from attenio.cluster.traffic import WidthsOf, check_layout
from attenio.cluster.words import StageWords, stage_widths
from attenio.workload import Workload


def check_workload(workload: Workload, layout: Strips | Patchwork) -> None:
    """Refuse what a layout is not for."""
    check_layout(workload, layout.heads, "strips" if isinstance(layout, Strips) else "patches")


def layout_words(
    workload: Workload, layout: Strips | Patchwork, widths: WidthsOf = stage_widths
) -> tuple[StageWords, ...]:
    """What every rank sends and receives in every stage; widths may be in bytes."""
    if isinstance(layout, Strips):
        return strips.strips_words(workload, layout, widths)
    return patches.patches_words(workload, layout, widths)


def layout_bytes(workload: Workload, layout: Strips | Patchwork) -> tuple[StageWords, ...]:
    """The same in bytes, as ranks of torch.distributed send them."""
    return layout_words(workload, layout, stage_widths_bytes)


def messages_of(workload: Workload, layout: Strips | Patchwork) -> Messages:
    """What travels in a pass over the ranks of a layout.

    >>> messages = messages_of(Workload(n=64, d=8, heads=2, mask="causal"), Strips(heads=2, counts=(1,)))
    >>> [len(each) for each in messages.rows(0, 3)]
    [0, 8]
    """
    if isinstance(layout, Strips):
        relays = strips.traffic(workload, layout).relays
        return StripsMessages(strips=layout, tokens=workload.keys, relays=relays)
    found = patches.traffic(workload, layout)
    return PatchesMessages(
        patchwork=layout, tokens=workload.keys, row_sources=found.row_sources, key_sources=found.key_sources
    )
