"""`python -m gangline_lab`: the lab's command line."""

import sys

from gangline_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
