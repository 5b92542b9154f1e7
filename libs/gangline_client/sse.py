"""How the lines of a server-sent event stream become events (HTML standard, section 9.2.6)."""

from dataclasses import dataclass

BUFFER_BYTES_MAX = 4 * 1024 * 1024
DIGITS_MAX = 18
"""A longer number is none that anybody means, and of one that is far longer Python makes none at all."""


class StreamTooLongError(Exception):
    """A single event is larger than any honest server sends."""


@dataclass(frozen=True)
class SentEvent:
    """One dispatched event."""

    id: str
    event: str
    data: str


class EventParser:
    """Bytes in, events out; keeps what is not complete yet, and the id to resume after."""

    def __init__(self) -> None:
        """Nothing received yet."""
        self.last_id = ""
        self.retry_ms: int | None = None
        self._rest = b""
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[SentEvent]:
        """The events completed by this chunk.

        Raises:
            StreamTooLongError: an event grew past BUFFER_BYTES_MAX.
        """
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        found = [self._line(line.decode("utf-8", errors="replace")) for line in lines]
        if len(self._rest) + sum(map(len, self._data)) > BUFFER_BYTES_MAX:
            raise StreamTooLongError(f"an event of more than {BUFFER_BYTES_MAX} bytes")
        return [event for event in found if event is not None]

    def _line(self, line: str) -> SentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id" if "\0" not in value:
                self.last_id = value
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "retry":
                self.retry_ms = number(value) or self.retry_ms
            case _:
                """Comments (an empty name) keep the line alive; unknown fields are ignored."""
        return None

    def _dispatch(self) -> SentEvent | None:
        data, event = self._data, self._event
        self._data, self._event = [], ""
        if not data:
            return None
        return SentEvent(id=self.last_id, event=event or "message", data="\n".join(data))


def number(digits: str) -> int:
    """What the digits say; 0 where they say no number that anybody means."""
    return int(digits) if digits.isdecimal() and len(digits) <= DIGITS_MAX else 0
