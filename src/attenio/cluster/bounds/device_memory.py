"""Limited memory: what a device cannot hold comes over the network again."""

from attenio.bounds.backward.gradient_rows import gradient_row_words
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.bounds.output_epochs import output_epoch_words
from attenio.cluster.grid import checked_devices
from attenio.quantities import checked_count
from attenio.workload import Direction, Workload, checked_workload, refuse_forms

PAGE = "docs/theory/devices_memory.md"


def device_memory(workload: Workload, devices: int, memory_words: int) -> LowerBound:
    """Words that devices of so much memory exchange, however their work and their tokens are spread.

    Theorem: the words of output epochs (backward, of gradient rows) for P units of M words, less 2PM: 4Zd²/M - 2PM for
    equal widths, forward, from M = 4d² on.
    Assumes: each word is on one device at first and results end on one device; the network is the only slow memory.
    Regime: binds where M is small beside the words that a device of a grid gathers.
    Proof: docs/theory/devices_memory.md

    >>> n, d, memory = 2**20, 64, 2**16
    >>> device_memory(Workload(n=n, d=d), 64, memory).words == 4 * n * n * d * d // memory - 2 * 64 * memory
    True
    """
    checked_workload(workload)
    refuse_forms(workload, "bounds for many devices know no")
    checked_devices(devices)
    checked_count("device memory (words)", memory_words, most=2**60)
    scores, d, value_dim = float(workload.scores), float(workload.d), float(workload.value_dim)
    memory, units = float(memory_words), float(devices)
    if workload.values_in_keys:
        words = 0.0  # those proofs count entries of keys and of values apart
    elif workload.direction is Direction.FORWARD:
        words = float(output_epoch_words(scores, d, value_dim, memory, units))
    else:
        words = float(gradient_row_words(scores, d, value_dim, memory, units, step=workload.is_training))
    return LowerBound(
        theorem="device-memory",
        words=int(max(words - 2.0 * units * memory, 0.0)),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="small memory: the vertical law with the network as slow memory",
        citation=f"derived here, {PAGE}",
        assumptions=(
            "each word is on one device at first, and results end on one device",
            "devices hold no more than their memory and exchange words with each other only",
            "each score and each result is a sum of products of its own; recomputation allowed",
        ),
        page=PAGE,
    )
