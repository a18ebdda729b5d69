"""What all pictures share: a canvas with a title and a description, colours for light and dark, rectangles and text.

>>> "<title>a tile</title>" in picture(10, 10, "a tile", "a square", [box(1, 1, 8, 8, "query")])
True
"""

from html import escape

# Okabe and Ito's hues; the dark ones are lightened. A class of the same name fills with a colour.
_LIGHT = {
    "ink": "#1c1c1c", "soft": "#5d5d5d", "line": "#d5d5d5", "paper": "#ffffff", "query": "#0072b2", "key": "#b35900",
    "value": "#00785a", "score": "#e3e6ea", "output": "#8a2f6b", "bound": "#1c1c1c", "attenio": "#0072b2",
    "flash": "#c24e00", "standard": "#6a6a6a", "forbidden": "#eef0f2",
}  # fmt: skip
_DARK = {
    "ink": "#ececec", "soft": "#b5b5b5", "line": "#444444", "paper": "#14171a", "query": "#4fb0e8", "key": "#ffab5e",
    "value": "#3ccfa5", "score": "#333a41", "output": "#e59acb", "bound": "#ececec", "attenio": "#4fb0e8",
    "flash": "#ff8b45", "standard": "#adadad", "forbidden": "#22272c",
}  # fmt: skip


def picture(width: float, height: float, title: str, description: str, parts: list[str]) -> str:
    """One SVG; ``description`` says in words what the picture shows."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" font-family="system-ui,'
        f' sans-serif" font-size="14"><title>{escape(title)}</title><desc>{escape(description)}</desc>'
        f'<style>{_stylesheet()}</style><rect width="{width:g}" height="{height:g}" class="f-paper"/>'
        f"{''.join(parts)}</svg>\n"
    )


def box(x: float, y: float, width: float, height: float, kind: str, **more: str) -> str:
    """A filled rectangle, at least a hair wide."""
    extra = "".join(f' {name.replace("_", "-")}="{escape(value)}"' for name, value in more.items())
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.6):.2f}" height="{max(height, 0.6):.2f}"'
        f' class="f-{kind}"{extra}/>'
    )


def outline(x: float, y: float, width: float, height: float) -> str:
    """The edge of a rectangle."""
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="none" class="s-soft"/>'


def circle(x: float, y: float, radius: float, kind: str, name: str) -> str:
    """A dot with an edge of paper, so that dots on top of each other are told apart; its name shows on hovering."""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="f-{kind} s-paper" stroke-width="1.5">'
        f"<title>{escape(name)}</title></circle>"
    )


def text(x: float, y: float, words: str, kind: str = "ink", **more: str) -> str:
    """A line of text."""
    extra = "".join(f' {name.replace("_", "-")}="{escape(value)}"' for name, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" class="f-{kind}"{extra}>{escape(words)}</text>'


def path(points: list[tuple[float, float]], kind: str, *, width: float = 2.5, dash: str = "") -> str:
    """A line through points."""
    drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{drawn}" fill="none" class="s-{kind}" stroke-width="{width:g}"{dashed}/>'


def _stylesheet() -> str:
    def rules(colours: dict[str, str]) -> str:
        return "".join(f".f-{name}{{fill:{value}}}.s-{name}{{stroke:{value}}}" for name, value in colours.items())

    return f"{rules(_LIGHT)}@media (prefers-color-scheme:dark){{{rules(_DARK)}}}"
