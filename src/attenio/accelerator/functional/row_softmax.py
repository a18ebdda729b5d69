"""Softmax of one complete row after the other, in place: FLAT's and standard attention's."""

from attenio.accelerator.functional.arithmetic import Numbers, Values
from attenio.accelerator.functional.tile import finite
from attenio.accelerator.step import Operation


class RowSoftmax:
    """The row that is under way."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers, self.row = numbers, 0

    def do(self, operation: Operation, scores: Values) -> bool:
        """One step on the row; False if it is a step of something else."""
        numbers, row = self._numbers, slice(self.row, self.row + 1)
        match operation:
            case Operation.MAXIMUM:
                largest = scores[row].max(axis=1, keepdims=True)
                scores[row] = numbers.less(scores[row], finite(largest))
            case Operation.EXPONENTIALS:
                scores[row] = numbers.exponentials(scores[row])
            case Operation.SUM:
                self._sum = numbers.row_sums(scores[row])
            case Operation.NORMALISE:
                scores[row] = numbers.divided(scores[row], self._sum)
                self.row += 1
            case _:
                return False
        return True
