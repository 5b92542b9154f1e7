"""What can go wrong between a user and the platform, each with its cause and the next step.

ClientError
├── SettingsError       no address or token, a broken contexts file
├── UnreachableError    nobody answers, after the retries
├── ProblemError        the platform answered with a problem (RFC 9457)
└── InputError          a file or name the user gave leads nowhere
    └── UsageError      a flag or change that cannot be understood
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline_wire.views import ProblemView

NEXT_STEP_BY_STATUS = {
    401: "Give a valid token with --token, GANGLINE_TOKEN, or `gangline context set`.",
    403: "Your token does not allow this (`gangline whoami`); ask the group's head or an administrator.",
    404: "See what there is with `gangline show`, `gangline nodes`, `gangline quota` or `gangline policy show`.",
    409: "Look at the present state with `gangline show` or `gangline why`, then decide again.",
    412: "Somebody else changed it meanwhile; look at it again and repeat the change.",
    413: "Send fewer or smaller jobs at once.",
    429: "Slow down; the limit is part of the message.",
    500: "This is a defect of the platform; report it with the request id.",
    503: "Try again shortly; the platform is starting or changing its leader.",
}


class ClientError(Exception):
    """Anything the SDK raises on purpose; `next_step` tells the reader what to do, where there is something to do."""

    next_step: str = ""


class SettingsError(ClientError):
    """It is not known where the platform is or with which token to enter."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        """The cause, and what to do."""
        super().__init__(message)
        self.next_step = next_step


class InputError(ClientError):
    """A file or name that leads nowhere."""

    def __init__(self, message: str, *, next_step: str = "", faults: Sequence[str] = ()) -> None:
        """The cause, every fault of a file that has several, and what to do."""
        super().__init__("\n  ".join((message, *faults)))
        self.cause = message
        self.faults = tuple(faults)
        self.next_step = next_step


class UsageError(InputError):
    """A flag or change that cannot be understood; the command ends with 2, as for any wrong usage."""


class UnreachableError(ClientError):
    """Nobody answered at the address."""

    def __init__(self, url: str, cause: str) -> None:
        """The address and what the network said."""
        super().__init__(f"no answer from {url}: {cause}")
        self.url = url
        self.next_step = "Start the platform on this machine with `gangline up`, or name another with --url."


class ProblemError(ClientError):
    """The platform said no, and why."""

    def __init__(self, problem: "ProblemView") -> None:
        """Keep the whole answer; the text is its detail or title."""
        super().__init__(problem.detail or problem.title)
        self.problem = problem
        self.next_step = NEXT_STEP_BY_STATUS.get(problem.status, "")
