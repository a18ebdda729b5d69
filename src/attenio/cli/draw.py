"""``attenio draw``: pictures of a plan, as SVG."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import check_place, print_json
from attenio.cli.question import DEFAULT_N, DataflowName, Question, asking, dataflow_named
from attenio.errors import InvalidInput
from attenio.names import member_named
from attenio.workload import Direction


class Picture(Enum):
    """What can be drawn."""

    WORDS = "words"  # words moved against fast memory
    TILES = "tiles"  # a plan's tile, to scale
    MOVES = "moves"  # the first loads and stores of a run
    ROOFLINE = "roofline"  # flops a second against flops for each byte moved


@asking
def draw(
    question: Question,
    picture: Annotated[str, typer.Argument(help="words, tiles, moves or roofline.", metavar="PICTURE")],
    dataflow: DataflowName = None,
    out: Annotated[Path, typer.Option("--out", help="The file to write (.svg).", metavar="PATH")] = Path("picture.svg"),
    as_json: AsJson = False,
) -> None:
    """Draw words moved against fast memory, a plan's tiles to scale, what moves in a small run, or the roofline.

    \b
    Examples:
      attenio draw words --n 128K --d 64 --machine attenio-512k --out words.svg
      attenio draw tiles --n 8K --mask causal --fast-bytes 64KB --out tiles.svg
      attenio draw moves --n 8K --dataflow flash-attention-2 --out moves.svg
      attenio draw roofline --n 32K --d 128 --machine h100 --out roofline.svg
    """
    from attenio.files import write_atomically
    from attenio.planning import best_plan
    from attenio.report.answer import answer
    from attenio.report.pictures import moves_svg, roofline_svg, small_plan, tiles_svg, words_svg

    chosen = member_named(Picture, picture, "picture")
    if out.suffix.lower() != ".svg":
        raise InvalidInput(f"picture {out} does not end in .svg; use a name ending in .svg")
    check_place(out)
    question.refuse_tolerance("pictures are of")
    workload, machine = question.workload(DEFAULT_N), question.chosen_machine()
    if workload.is_training:
        raise InvalidInput("a picture is of one pass; use --direction forward or backward")
    if chosen is Picture.WORDS:
        drawn = words_svg(workload, machine.slowest_boundary.fast_words(workload.dtype))
    elif chosen is Picture.ROOFLINE:
        roofs = roofline_svg(answer(workload, machine, dataflow=dataflow_named(dataflow)))
        if roofs is None:
            raise InvalidInput(f"{machine.name} states no rates, so it has no roof; use --machine, such as h100")
        drawn = roofs
    else:
        plan = best_plan(workload, machine, dataflow=dataflow_named(dataflow))
        if chosen is Picture.MOVES and workload.direction is not Direction.FORWARD:
            raise InvalidInput("the picture moves is of a forward pass; use --direction forward, or draw tiles")
        drawn = tiles_svg(plan) if chosen is Picture.TILES else moves_svg(small_plan(plan))
    write_atomically(out, drawn)
    if as_json:
        print_json({"picture": chosen.value, "file": str(out)})
    else:
        print(f"The picture is in {out}")
