"""What the witness of a bound says, in a line."""

from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from attenio.pebbling import ComputationGraph
    from attenio.pebbling.certified.bound import Witness


def witness_line(witness: "Witness", graph: "ComputationGraph") -> str:
    """The witness in words."""
    from attenio.pebbling.certified.bound import (
        CountingWitness,
        PairWitness,
        PartitionWitness,
        SpectralWitness,
        WavefrontWitness,
    )

    match witness:
        case None:
            return "inputs read once, outputs written once"
        case PartitionWitness():
            moved = "loads" if witness.loads_only else "words moved"
            return f"at least {witness.epochs:,} epochs of {witness.epoch_words:,} {moved}"
        case CountingWitness():
            return f"an epoch of {witness.epoch_words:,} loads computes at most {witness.later:,} values"
        case PairWitness():
            return f"{len(witness.pairs):,} products of two inputs, epochs of {witness.epoch_words:,} words"
        case WavefrontWitness():
            names = [graph.names[moment.vertex] for moment in witness.moments[:3]]
            more = "" if len(witness.moments) <= 3 else f" and {len(witness.moments) - 3:,} more"
            return f"what is alive when {', '.join(names)}{more} is computed" if names else "nothing need be alive"
        case SpectralWitness():
            return f"{witness.segments:,} segments, {len(witness.smallest):,} smallest eigenvalues"
        case _:
            assert_never(witness)
