"""Whose fault it is that a task could not be started: where it is the machine's, no job fails for it."""

import errno
from collections.abc import Callable

from msgspec.structs import replace

from gangline_agent import meeting
from gangline_agent.journal import Intent
from gangline_core.facts import ExitCause
from gangline_kit.errors import TemporaryError

REST_S = 30.0
"""So long a machine that could not start something is given nothing more."""
TOLD_S = 1.5
"""Within this time the log knows that it is not: before it knows of the task, which would come back at once."""
MACHINES = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EPIPE,
        errno.EROFS,
        errno.ESTALE,
    }
)
"""What a machine runs out of, and what is wrong with its disk; a job can do nothing about it."""


def is_machines(error: Exception) -> bool:
    """True for a failed start that says nothing of the job: another machine, or another moment, would do."""
    return isinstance(error, TemporaryError) or (isinstance(error, OSError) and error.errno in MACHINES)


def refused(intent: Intent, error: Exception) -> Intent:
    """What is written down of a task that could not be started."""
    if is_machines(error) and intent.stop_cause is None:
        return replace(intent, stop_cause=ExitCause.PLACE_REFUSED)
    return meeting.refused(intent, error)


class Rest:
    """Why the machine is given nothing for a while."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        """Nothing has failed yet."""
        self._monotonic_s = monotonic_s
        self._why = ""
        self._until_s = 0.0

    def note(self, why: str) -> None:
        """A task could not be started, by the machine's fault."""
        self._why, self._until_s = why, self._monotonic_s() + REST_S

    @property
    def problem(self) -> str:
        """As nodes say what ails them; empty when nothing does any more."""
        return f"a task could not be started: {self._why}" if self._monotonic_s() < self._until_s else ""
