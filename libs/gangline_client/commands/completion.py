"""`gangline completion`: the script for a shell."""

from argparse import Namespace
from collections.abc import Mapping

from gangline_client.completion import script
from gangline_client.console import Console


def completion(console: Console, args: Namespace, environ: Mapping[str, str]) -> int:
    """Print the script."""
    console.say(script(args.shell).rstrip())
    return 0
