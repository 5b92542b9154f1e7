"""Saying results on standard output, and reading folders and numbers of the command line."""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from gangline_core.ids import JobId
from gangline_lab.side_by_side import processors

WHOLE = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
JOB = re.compile(r"([0-9]{1,16})(?:_([0-9]{1,16}))?", re.ASCII)
HEAD = re.compile(r"[0-9a-f]{32}", re.ASCII)
FEW_JOBS = 300
"""Of fewer jobs a run is over before another process has started."""


def say(text: str) -> None:
    """One text with its line end."""
    sys.stdout.write(text + "\n")


def with_workers(command: argparse.ArgumentParser) -> None:
    """Let the number of processes be told."""
    command.add_argument(
        "--workers", type=at_least(1), metavar="N", help="simulations at once (as many as there are processors)"
    )


def with_knobs(command: argparse.ArgumentParser) -> None:
    """Let single settings of a policy be told."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="[POOL:]KEY=VALUE",
        help="one setting of a policy, as for `gangline policy set` (starvation=1h); may be repeated",
    )


def workers_of(options: argparse.Namespace, *, jobs: int) -> int:
    """As many runs at once as were asked for, or as there are processors; of few jobs one after the other."""
    asked: int | None = options.workers
    return asked or (1 if jobs < FEW_JOBS else processors())


def archive_folder(text: str) -> Path:
    """The folder of an archive; argparse leaves with 2 and this message when there is none.

    Raises:
        argparse.ArgumentTypeError: there is no such folder.
    """
    path = Path(text)
    if path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is a file; an archive is the folder in which its segments are")
    if not text or not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text or 'without a name'}")
    return path


def job_named(text: str) -> tuple[JobId, int | None]:
    """A job's number, and the index where it is an element of an array (`42_7`), as people write it.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    match = JOB.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a job's number, or 42_7 for an element of an array, found {text!r}")
    return JobId(int(match[1])), None if match[2] is None else int(match[2])


def head_of_chain(text: str) -> str:
    """The head that a chain must end in. An empty one would be no question at all.

    Raises:
        argparse.ArgumentTypeError: no chain has such a head.
    """
    if not HEAD.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected 32 hexadecimal digits, as `verify` prints, found {text!r}")
    return text


def any_whole(text: str) -> int:
    """A whole number of the command line; `42_7`, which Python reads as 427, is none.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a whole number, found {text!r}")
    return int(text)


def at_least(least: int) -> Callable[[str], int]:
    """A whole number of the command line that is not smaller; argparse leaves with 2 and a message otherwise."""

    def whole(text: str) -> int:
        number = any_whole(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"expected at least {least}, found {number}")
        return number

    return whole
