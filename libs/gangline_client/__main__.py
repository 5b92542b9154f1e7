"""`python -m gangline_client` is the `gangline` command."""

import sys

from gangline_client.main import main

sys.exit(main())
