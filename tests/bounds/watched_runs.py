"""Random runs of the game that note what is in fast memory after each step, and so when stays begin."""

from .random_runs import RandomRun, Word


class Watched(list[tuple[str, Word]]):
    """Steps of a run, with the words in fast memory after each and those that were there from the step before."""

    def __init__(self, run: RandomRun) -> None:
        self.run = run
        self.after: list[set[int]] = []
        self.stayed: list[set[int]] = []

    def append(self, step: tuple[str, Word]) -> None:
        super().append(step)
        done, word = step
        fast = {id(each) for each in self.run.fast}
        before = fast | {id(parent) for parent in word.parents} if done == "make" else fast
        self.stayed.append((before - ({id(word)} if done != "store" else set())) & (self.after or [set()])[-1])
        self.after.append(fast | {id(word)})


def begun(steps: Watched, words: set[int]) -> list[int]:
    """The steps at which a stay of some words begins."""
    return [step for step, here in enumerate(steps.after) if here & words and not steps.stayed[step] & words]
