"""One colour and one marker per dataflow, the same in every figure and table.

The light set extends Okabe and Ito's and Tol's colours for all kinds of colour vision; the dark set has the same hues,
lightened. Markers differ as well, so nothing is told by colour alone.
"""

from attenio.planning.plan import Dataflow

# light, dark, marker
_STYLES: dict[Dataflow, tuple[str, str, str]] = {
    Dataflow.ATTENIO: ("#0072b2", "#4fb0e8", "circle"),
    Dataflow.FLASH_ATTENTION_2: ("#d55e00", "#ff8b45", "square"),
    Dataflow.FLASH_ATTENTION_1: ("#b8860b", "#f0c05a", "diamond"),
    Dataflow.FLAT: ("#009e73", "#3ccfa5", "triangle-up"),
    Dataflow.STANDARD: ("#6f6f6f", "#adadad", "triangle-down"),
    Dataflow.SQUARE_TILING: ("#cc79a7", "#ec9fca", "cross"),
    Dataflow.RANK_ONE_TILING: ("#882255", "#d9668f", "x"),
    Dataflow.SCORE_STATIONARY: ("#2f93b8", "#9addf2", "pentagon"),
    Dataflow.SPLIT_KEYS: ("#7a7a1f", "#cdcd63", "hexagon"),
    Dataflow.STACKED_GROUPS: ("#4b3ca8", "#a99cff", "star"),
    Dataflow.KEPT_KEYS: ("#0b5345", "#76d7c4", "circle-cross"),
    Dataflow.KEPT_ROWS: ("#784212", "#e59866", "circle-x"),
    Dataflow.TWO_PASS: ("#1f5f8b", "#6cc3ff", "hourglass"),
    Dataflow.KEY_STATIONARY: ("#a63603", "#ff9f6b", "triangle-left"),
    Dataflow.QUERY_STATIONARY: ("#006d2c", "#74d69a", "triangle-right"),
    Dataflow.TILED_PRODUCTS: ("#7a0177", "#f083dc", "square-x"),
    Dataflow.FUSED_VALUES: ("#5c5c8a", "#b9b9e6", "diamond-cross"),
    Dataflow.SPILLED_GRADIENTS: ("#8c510a", "#e0b070", "bowtie"),
    Dataflow.KEPT_ROW_GRADIENTS: ("#5b2c6f", "#c39bd3", "asterisk"),
    Dataflow.FEATURE_STATE: ("#00695c", "#5fd4c4", "star-square"),
    Dataflow.VALUE_COLUMNS: ("#8e0038", "#ff7aa8", "star-diamond"),
    Dataflow.FEATURE_BLOCKS: ("#3e5f00", "#a9d64a", "star-triangle-up"),
    Dataflow.WINDOW_AND_FEATURES: ("#5d4037", "#d7a893", "hexagram"),
    Dataflow.FEATURE_GRADIENT: ("#37474f", "#a7bcc7", "diamond-tall"),
}

# Of a dataflow that has no style of its own yet.
_PLAIN = ("#444444", "#bbbbbb", "circle-open")


def color(dataflow: Dataflow) -> str:
    """The dataflow's colour as a variable of the page, which follows the reader's light or dark scheme."""
    return f"var(--{dataflow.value})"


def marker(dataflow: Dataflow) -> str:
    """The dataflow's marker, by Plotly's name."""
    return _STYLES.get(dataflow, _PLAIN)[2]


def stylesheet() -> str:
    """Rules that define every dataflow's colour, light and dark."""
    styles = {dataflow.value: _STYLES.get(dataflow, _PLAIN) for dataflow in Dataflow}
    light = " ".join(f"--{name}: {style[0]};" for name, style in styles.items())
    dark = " ".join(f"--{name}: {style[1]};" for name, style in styles.items())
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
