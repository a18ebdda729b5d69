"""Where features apply: what the approximate dataflows ask of a workload and of their tiles."""

from attenio.elements import ElementType
from attenio.masks.patterns import Band
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems.told_mask import told_mask
from attenio.workload import Workload


def why_no_features(workload: Workload, dataflow: Dataflow) -> str | None:
    """Why an approximate dataflow does not work on this workload, or None if it does."""
    patterns = [pattern for pattern, _ in workload.separate_patterns]
    if not all(isinstance(p, Band) and p.first_key(p.rows - 1) == 0 for p in patterns):
        return (
            f"{dataflow.value} adds keys to a state and cannot take them out again, as mask {workload.mask} asks;"
            " use exact, or a dense, causal or documents mask"
        )
    if dataflow is Dataflow.WINDOW_AND_FEATURES and all(pattern.is_dense for pattern in patterns):
        return (
            f"{dataflow.value} keeps the last keys as they are under a causal mask, and {told_mask(workload)}; use"
            f" {Dataflow.FEATURE_STATE.value}"
        )
    if workload.accumulator not in (None, ElementType.FP32):
        return f"{dataflow.value} adds up in fp32; leave accumulator {workload.accumulator.value} out or use exact"
    return None


def refused_tiles(workload: Workload, dataflow: Dataflow, tiles: Tiles) -> str | None:
    """What is wrong with the tiles of an approximate dataflow, or None if nothing is."""
    if dataflow is Dataflow.WINDOW_AND_FEATURES and tiles["key_tile"] > tiles["window"]:
        return f"key_tile is {tiles['key_tile']:,}, more keys than the window of {tiles['window']:,} has to give up"
    if dataflow is not Dataflow.FEATURE_GRADIENT:
        return None
    states, saved = tiles["resident_states"], tiles.get("saved_state", 0)
    if states > 2 or saved > 1:
        return f"resident_states is {states:,} and saved_state {saved:,}; there are two states, and one to save"
    if (states > 1 or saved) and not all(pattern.is_dense for pattern, _ in workload.separate_patterns):
        return "a causal mask has a state for every position; use resident_states=1 without a saved state"
    return None
