"""How the outside world fails: two words at every edge, temporary and permanent, and the few refusals of the bus."""

from collections.abc import Iterator


class TemporaryError(Exception):
    """The outside world could not do it now; the same try may work after `retry_after_s` seconds."""

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        """Say what failed and when to try again."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OutcomeUnknownError(TemporaryError):
    """The request left this process and no answer came back: it may or may not have been carried out."""


class StreamFullError(TemporaryError):
    """The stream refuses new messages because it reached its limit; nothing was stored."""


class PermanentError(Exception):
    """No repetition helps: somebody has to look at it."""


class TooLargeError(PermanentError):
    """The message is larger than the server takes; nothing was sent."""


class LogCutError(PermanentError):
    """The log has dropped what this fold lacks: a process that begins anew takes a newer snapshot."""


class LaneConflictError(Exception):
    """Somebody else wrote to the lane since we last looked: we are no longer its writer."""


class KeyExistsError(Exception):
    """A key that should be created has a value already."""


class StaleRevisionError(Exception):
    """A key was changed by somebody else since its revision was read."""


def flat(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The errors inside a group, however deep."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from flat(error)
        else:
            yield error
