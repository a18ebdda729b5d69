"""Kinds of problems, and which forms are for them: of one problem, and of many cases in arrays."""

from typing import NamedTuple, assert_never

import numpy as np

from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.staircase import is_staircase
from attenio.planning.words.all_keys import AllKeys
from attenio.planning.words.band_turns import MOST, BandTurns, take_turns
from attenio.planning.words.causal_sums import CausalSums
from attenio.planning.words.exchanged_keys import ExchangedKeys
from attenio.planning.words.exchanged_rows import ExchangedRows
from attenio.planning.words.form import (
    Form,
    KeptTile,
    KeyRing,
    Phase,
    Product,
    Rectangle,
    Resident,
    RollingTile,
    RowTile,
    WholeRows,
)
from attenio.planning.words.last_columns import LastColumns
from attenio.planning.words.left_over import LeftOver
from attenio.planning.words.row_ring import RowRing
from attenio.planning.words.stacked_rows import StackedRows
from attenio.planning.words.staying_sums import StayingSums
from attenio.planning.words.taking_turns import TakingTurns
from attenio.planning.words.turning_tiles import TurningTiles
from attenio.planning.words.waiting_rows import WaitingRows


class Kind(NamedTuple):
    """What decides which forms are for a problem.

    Whether it is one ``band``, one that is ``dense``, one ``causal`` problem (all rows begin with the first key, and
    end with one more each), a ``staircase`` of several rows that each need a key; whether its rows may come and go one
    by one, its keys, and its rows but not its keys; whether rows and keys are few, and sums of them may take ``turns``
    with those of a tile: where they are many, gradients that give way to each other at turns move less.
    """

    band: Counts = False
    dense: Counts = False
    causal: Counts = False
    staircase: Counts = False
    rows_roll: Counts = False
    keys_roll: Counts = False
    rows_alone: Counts = False
    turns: Counts = False


OTHERS, _DENSE = Kind(), Kind(band=True, dense=True)


def kind_of(band: Band) -> Kind:
    """The kind of a band, or of many."""
    rows_roll, dense = band.end_key(0 * band.rows) < band.keys, band.is_dense
    if dense is True:
        return _DENSE
    keys_roll = band.is_window
    rows_alone, few = rows_roll != keys_roll, (band.rows <= MOST) & (band.keys <= MOST)
    return Kind(
        band=rows_roll | True,
        dense=dense,
        causal=rows_alone & (band.right == 0),
        staircase=rows_roll & is_staircase(band),
        rows_roll=rows_roll,
        keys_roll=keys_roll,
        rows_alone=rows_alone,
        turns=few if few is False or not np.any(few) else rows_roll & few & take_turns(band),
    )


# Of these tiles have units; all others make one score at a time, which no granularity allows.
_InUnits = RowTile | Rectangle | Product | Resident


def makes_single_scores(form: Form) -> bool:
    """Whether a form makes one score at a time somewhere, so that no granularity allows it."""
    return not all(isinstance(phase, _InUnits) for phase in form.phases)


def is_for(form: Form, kind: Kind, free: Counts) -> Counts:
    """Whether a form is for problems of a kind, of which tiles of any size may be ``free``.

    Under a window rows and keys both come and go one by one, or none of them. Elsewhere heads together save next to
    nothing.
    """
    fits: Counts = True
    roll = all(isinstance(phase, RollingTile) for phase in form.phases)
    for phase in form.phases:
        if not isinstance(phase, _InUnits):
            fits = fits & free
        fits = fits & _takes(phase, kind, all_roll=roll)
    return fits


def _takes(phase: Phase, kind: Kind, *, all_roll: bool) -> Counts:
    """Whether a phase is for problems of a kind; in a form in which ``all_roll``, or not."""
    match phase:
        case RowTile() | Rectangle() | Product() | Resident():
            return True
        case KeptTile():
            return kind.keys_roll if phase.together else True
        case RollingTile():
            return kind.keys_roll if phase.across or phase.sums else kind.rows_roll if all_roll else kind.rows_alone
        case (
            WaitingRows()
            | StackedRows()
            | LastColumns()
            | ExchangedKeys()
            | StayingSums()
            | TakingTurns()
            | LeftOver()
            | TurningTiles()
        ):
            return kind.dense
        case KeyRing():
            return kind.band
        case RowRing():
            return kind.rows_roll | kind.dense if phase.of_dense else kind.rows_roll
        case WholeRows():
            return kind.keys_roll
        case CausalSums() | AllKeys():
            return kind.causal
        case BandTurns():
            return kind.turns
        case ExchangedRows():
            return kind.staircase
        case _:
            assert_never(phase)
