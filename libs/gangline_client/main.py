"""The `gangline` command: which verb, with which settings, and what its failure means to the shell."""

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gangline_wire.command_line import ready_streams

if TYPE_CHECKING:
    from argparse import Namespace

    from gangline_client.console import Console
    from gangline_client.doors import Doors
    from gangline_client.errors import ClientError
    from gangline_client.verbs import Handover, Verb

SUCCESS = 0
FAILURE = 1
WRONG_USAGE = 2
INTERRUPTED = 130
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What is wrong with a file that takes no more of the answer."""
COMPLETE = "__complete"
"""The verb that the completion scripts use."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    ready_streams()
    try:
        return _dispatch(words, os.environ)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; jobs are left alone.\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone, as in `gangline show | head`; nothing more can be said to it.
        _say_no_more()
        return FAILURE
    except OSError as error:
        if error.errno not in FULL:
            raise
        sys.stderr.write(f"gangline: the answer could not be written: {error.strerror}\n")
        _say_no_more()
        return FAILURE


def _say_no_more() -> None:
    """What is still to be written goes nowhere, and does not fail once more when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: list[str], environ: Mapping[str, str]) -> int:
    from gangline_client.verbs import HANDOVERS, VERBS

    handovers = {each.name: each for each in HANDOVERS}
    if words and words[0] in handovers:
        _hand_over(handovers[words[0]], words[1:])
    if words and words[0] == COMPLETE:
        return _complete(words[1:], environ)
    from gangline_client.parser import overview, parse

    args = parse(words)
    if args.verb is None:
        sys.stdout.write(overview() + "\n")
        return SUCCESS
    from gangline_client.console import Format, console_of_process

    verb = next(verb for verb in VERBS if verb.name == args.verb)
    return run_verb(verb, args, environ, console=console_of_process(environ, form=Format(args.output)))


def run_verb(
    verb: "Verb", args: "Namespace", environ: Mapping[str, str], *, console: "Console", doors: "Doors | None" = None
) -> int:
    """Do one verb from start to end; the exit code."""
    from gangline_client.errors import ClientError

    try:
        if verb.offline:
            from importlib import import_module

            home = import_module(f"gangline_client.commands.{verb.home}")
            return int(getattr(home, verb.function)(console, args, environ))
        import asyncio

        from gangline_client.doors import Doors
        from gangline_client.online import run_online

        return asyncio.run(run_online(verb, args, environ=environ, console=console, doors=doors or Doors()))
    except ClientError as error:
        return _fail(console, error)
    except ExceptionGroup as group:
        return _fail(console, _first(group))


def _fail(console: "Console", error: "ClientError") -> int:
    from gangline_client.errors import UsageError
    from gangline_client.problems import told

    for line in told(error):
        console.note(line)
    return WRONG_USAGE if isinstance(error, UsageError) else FAILURE


def _first(group: BaseException) -> "ClientError":
    """The first of our own errors that ended a TaskGroup; any other error goes on as it is."""
    from gangline_client.errors import ClientError

    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    if isinstance(group, ClientError):
        return group
    raise group


def _hand_over(handover: "Handover", words: list[str]) -> None:
    """Become the program that does this verb; never returns."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", handover.module, *handover.first, *words])


def _complete(words: list[str], environ: Mapping[str, str]) -> int:
    from gangline_client.completion import complete

    def look_up(kind: str) -> list[str]:
        from gangline_client.online import look_up_names

        return look_up_names(kind, environ)

    for value in complete(words, look_up=look_up):
        sys.stdout.write(value + "\n")
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
