"""Saying results on standard output, and reading folders and numbers of the command line."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def say(text: str) -> None:
    """One text with its line end."""
    sys.stdout.write(text + "\n")


def archive_folder(text: str) -> Path:
    """The folder of an archive; argparse leaves with 2 and this message when there is none.

    Raises:
        argparse.ArgumentTypeError: there is no such folder.
    """
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return path


def at_least(least: int) -> Callable[[str], int]:
    """A whole number of the command line that is not smaller; argparse leaves with 2 and a message otherwise."""

    def whole(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, found {text!r}") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"expected at least {least}, found {number}")
        return number

    return whole
