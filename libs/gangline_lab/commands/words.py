"""Saying results on standard output."""

import sys


def say(text: str) -> None:
    """One text with its line end."""
    sys.stdout.write(text + "\n")
