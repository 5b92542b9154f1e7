"""`python -m gangline_embedded`."""

import sys

from gangline_embedded.main import main

sys.exit(main())
