"""How moments given as flags are read: RFC 3339 with its offset, a time from now such as "+2h", or "now"."""

from gangline_client.durations import seconds
from gangline_client.errors import UsageError
from gangline_wire.jobfile_order import read_moment
from gangline_wire.problem import WrongValueError


def moment_ms(text: str, *, flag: str, now_ms: int) -> int:
    """Milliseconds since the epoch.

    Raises:
        UsageError: no such moment.
    """
    from_now = text.removeprefix("now")
    if from_now.startswith("+"):
        return now_ms + seconds(from_now[1:], flag=flag) * 1000
    if text and not from_now:
        return now_ms
    try:
        return read_moment(text)
    except WrongValueError as error:
        raise UsageError(f'{flag}: {error}, or "+2h" for two hours from now, or "now"') from error
