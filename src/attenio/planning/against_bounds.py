"""A plan beside what algorithms must move: its bound, and its gap to it."""

from typing import TYPE_CHECKING

from attenio.bounds import LowerBound, bounds_for, largest_absolute, largest_ordinary
from attenio.display import Listed, Shown
from attenio.machine import Boundary
from attenio.workload import Workload


class AgainstBounds(Shown):
    """What plans of one boundary share.

    A bound grants an algorithm all the memory inside that boundary; a plan made for a number of words only, without a
    machine, is compared with the bounds for as many.
    """

    if TYPE_CHECKING:
        workload: Workload
        fast_words: int
        moved_words: int
        boundary: Boundary | None

    @property
    def lower_bounds(self) -> Listed[LowerBound]:
        """Every bound on what moves where this plan moves its words."""
        saved = self.reads_probabilities
        if self.boundary is None:
            return bounds_for(self.workload, self.fast_words, probabilities_saved=saved)
        inside, units = self.boundary.words_inside(self.workload.dtype), self.boundary.fast.units
        return bounds_for(self.workload, inside, units=units, probabilities_saved=saved)

    @property
    def reads_probabilities(self) -> bool:
        """Whether this is a backward pass that reads the probabilities which the forward pass has saved."""
        return False

    @property
    def bound(self) -> LowerBound:
        """The largest bound that every algorithm with ordinary products obeys that is given what this plan is."""
        return largest_ordinary(self.lower_bounds)

    @property
    def gap(self) -> float:
        """Words of the plan over the bound; 1 is a proof: nothing with ordinary products, given as much, moves less."""
        return self.moved_words / self.bound.words

    @property
    def absolute_gap(self) -> float:
        """Words of the plan over the absolute bound; 1 is a proof that nothing at all moves less."""
        return self.moved_words / largest_absolute(self.lower_bounds).words
