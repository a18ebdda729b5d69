"""``attenio explore``: planner and simulator in a browser page."""

from pathlib import Path
from typing import Annotated

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import print_aside, print_json
from attenio.errors import InvalidInput
from attenio.quantities import parse_count, show_bytes, show_given


def explore(
    build: Annotated[
        Path | None,
        typer.Option("--build", help="Write the page into this folder, for any web host.", metavar="FOLDER"),
    ] = None,
    port: Annotated[
        str, typer.Option("--port", help="The port to serve on; 0 takes a free one.", metavar="COUNT")
    ] = "0",
    as_json: AsJson = False,
) -> None:
    """Choose a model, sizes, a mask and a machine in a page, and see bound, plan, tiles, timeline and game at once.

    The page runs attenio itself, in the browser. It is served to this computer only, until Ctrl-C; with --build it is
    written as files that any web host serves. The first time, npm fetches Python for the browser (9 MB).

    \b
    Examples:
      attenio explore
      attenio explore --build public/explorer
    """
    from attenio.explorer import site
    from attenio.explorer.packages import are_kept

    number = parse_count(port, "port")
    if not 0 <= number < 2**16:
        raise InvalidInput(f"port is {show_given(number)}; give one below 65,536, or 0 for a free one")
    if build is not None:
        site.make_folder(build)
    if not are_kept():
        print_aside("npm fetches Python for the browser, 9 MB, the first time")
    if build is not None:
        size = site.build(build)
        if as_json:
            print_json({"folder": str(build), "bytes": size})
        else:
            print(f"The page is in {build}, {show_bytes(size)}; serve that folder and open index.html")
        return
    from attenio.explorer.serve import Explorer

    try:
        server = Explorer(site.files(), number)
    except OSError as problem:
        raise InvalidInput(f"port {number} cannot be used: {problem.strerror}; give another one, or 0") from None
    if as_json:
        print_json({"url": server.url})
    else:
        print(f"The explorer is at {server.url}; Ctrl-C ends it", flush=True)
    with server:
        server.serve_forever()
