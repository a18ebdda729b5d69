"""``python -m attenio`` is the command line."""

import sys

from attenio.cli import main

if __name__ == "__main__":
    sys.exit(main())
