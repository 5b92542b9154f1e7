"""How durations given as flags are read."""

from gangline_client.errors import UsageError
from gangline_wire.durations import read_seconds
from gangline_wire.problem import WrongValueError


def seconds(text: str, *, flag: str) -> int:
    """Whole seconds of "90s", "15m", "1h30m", "2d" or a bare number.

    Raises:
        UsageError: no such duration.
    """
    try:
        return read_seconds(text)
    except WrongValueError as error:
        raise UsageError(f"{flag}: {error}") from error
