"""The terminal player: one frame on the screen, keys to move between frames."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attenio.pebbling.frames import Frame
from attenio.quantities import show_words

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from attenio.pebbling import Game

_STYLES = {
    (True, False): "bold white on red",
    (False, True): "bold white on blue",
    (True, True): "bold white on magenta",
}
_FORWARD, _BACK, _LEAVE = (" ", "n", "\x1b[C"), ("b", "p", "\x1b[D"), ("q", "Q", "\x04", "\x1b")
_FIRST, _LAST = ("\x1b[H", "\x1b[1~"), ("\x1b[F", "\x1b[4~")


class Player:
    """The board of every frame is found by replaying the changes, forwards or backwards, from the present one."""

    def __init__(self, game: "Game", film: Sequence[Frame]) -> None:
        self.game = game
        self.film = film
        self.at = 0
        self.red: set[int] = set(film[0].reddened)
        self.blue: set[int] = set(film[0].blued)

    def go(self, step: int) -> None:
        """Show the frame after this many moves, or the nearest there is."""
        target = min(max(step, 0), len(self.film) - 1)
        while self.at < target:
            self.at += 1
            frame = self.film[self.at]
            self.red = (self.red | set(frame.reddened)) - set(frame.unreddened)
            self.blue = (self.blue | set(frame.blued)) - set(frame.unblued)
        while self.at > target:
            frame = self.film[self.at]
            self.red = (self.red - set(frame.reddened)) | set(frame.unreddened)
            self.blue = (self.blue - set(frame.blued)) | set(frame.unblued)
            self.at -= 1

    def screen(self) -> "RenderableType":
        """The present frame: the move, the counts, and every vertex with its pebbles."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        frame = self.film[self.at]
        head = Text.assemble(
            (f"move {self.at:,} of {len(self.film) - 1:,}  ", "bold"),
            frame.move,
            f"\nred {frame.red_words:,} of {show_words(self.game.red)}    moved {show_words(frame.cost_words)}",
        )
        legend = Text.assemble(
            ("red", _STYLES[True, False]), " fast  ", ("blue", _STYLES[False, True]), " slow  ",
            ("both", _STYLES[True, True]), "    space/→ next   b/← back   number Enter jump   q leave",
        )  # fmt: skip
        return Group(Panel(head), board_text(self.game, self.red, self.blue), Text(), legend)

    def run(self, console: "Console | None" = None) -> None:
        """Show frames and follow keys until the player leaves."""
        import typer
        from rich.console import Console

        shown = Console(highlight=False) if console is None else console
        typed = ""
        with shown.screen(hide_cursor=True) as screen:
            while True:
                screen.update(self.screen())
                key = typer.getchar()
                if key in _LEAVE:
                    return
                if key.isdigit():
                    typed += key
                    continue
                if key in ("\r", "\n") and typed:
                    self.go(int(typed[:12]))
                elif key in _FORWARD or key in ("\r", "\n"):
                    self.go(self.at + 1)
                elif key in _BACK:
                    self.go(self.at - 1)
                elif key in _FIRST:
                    self.go(0)
                elif key in _LAST:
                    self.go(len(self.film) - 1)
                typed = ""


def board_text(game: "Game", red: set[int], blue: set[int]) -> "Text":
    """Every vertex in the colour of its pebbles, a line for each matrix: names up to their first bracket."""
    from rich.text import Text

    lines: dict[str, Text] = {}
    for vertex, name in enumerate(game.graph.names):
        family = name.partition("[")[0]
        line = lines.setdefault(family, Text())
        line.append(name, style=_STYLES.get((vertex in red, vertex in blue), "dim"))
        line.append(" ")
    return Text("\n").join(lines.values())
