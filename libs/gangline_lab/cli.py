"""The lab's command line: simulate and compare; replay, verify, report and explain an archive; what-if, tune, train.

Exit codes: 0 all is as it should be, 1 it is not (a broken chain, a different decision), 2 wrong use, 130 interrupted.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gangline_core.foresight.learnt import ModelError
from gangline_lab.archive import ArchiveError, is_unfinished
from gangline_lab.commands import learning, logs, past, simulations
from gangline_lab.learning.growing import LearningError
from gangline_lab.outside import said
from gangline_lab.policyfile import PolicyFileError
from gangline_lab.rows import TraceError
from gangline_lab.runs import RunError
from gangline_lab.sim.engine import StuckError
from gangline_lab.sim.fleet import FleetError
from gangline_wire.command_line import Parser, ready_streams

STOPPED = 130
"""As a shell says of who was interrupted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    ready_streams()
    parser = _parser()
    options = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] | None = getattr(options, "run", None)
    if run is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        if not getattr(options, "proves_the_end", False):
            _note_unfinished(getattr(options, "archive", None))
        return run(options)
    except (ArchiveError, StuckError) as error:
        sys.stderr.write(f"gangline lab: {error}\n")
        return 1
    except (PolicyFileError, TraceError, FleetError, RunError, ModelError, LearningError) as error:
        sys.stderr.write(f"gangline lab: {error}\n")
        return 2
    except BrokenPipeError:
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"gangline lab: {name}{said(error)}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\ngangline lab: stopped; what was finished before stays where it is\n")
        return STOPPED


def _note_unfinished(archive: object) -> None:
    """Say that the end of an archive is left out, where it is not written yet."""
    if isinstance(archive, Path) and is_unfinished(archive):
        sys.stderr.write(f"gangline lab: the last line of {archive.name} is not finished, and is left out\n")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="gangline lab", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND")
    for kind in (simulations, past, learning, logs):
        kind.add(commands)
    return parser
