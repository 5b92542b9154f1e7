"""`python -m gangline_agent` is `gangline agent`."""

from gangline_agent.main import main

main()
