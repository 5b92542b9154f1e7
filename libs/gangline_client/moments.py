"""How moments given as flags are read: RFC 3339 with its offset, or a time from now such as "+2h"."""

from gangline_client.durations import seconds
from gangline_client.errors import UsageError
from gangline_wire.jobfile_order import read_moment
from gangline_wire.problem import WrongValueError


def moment_ms(text: str, *, flag: str, now_ms: int) -> int:
    """Milliseconds since the epoch.

    Raises:
        UsageError: no such moment.
    """
    if text.startswith("+"):
        return now_ms + seconds(text[1:], flag=flag) * 1000
    try:
        return read_moment(text)
    except WrongValueError as error:
        raise UsageError(f'{flag}: {error}, or "+2h" for two hours from now') from error
