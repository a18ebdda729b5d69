"""The pages, and what they compute, in one process: importing PyTorch and its peers takes as long as many pages.

The second builder reads what the first one parsed. Pages are first: what doctests parse anew they would take as
written.
"""

import sys
from pathlib import Path

from sphinx.cmd.build import main

HERE = Path(__file__).parent
COMMON = ["-q", "-W", "--keep-going", "-d", str(HERE / "_build" / "doctrees")]

if __name__ == "__main__":
    failed = [main([*COMMON, "-b", kind, str(HERE), str(HERE / "_build" / kind)]) for kind in ("html", "doctest")]
    sys.exit(max(failed))
