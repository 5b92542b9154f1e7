"""The message server of a dollhouse: streams, key-value buckets, objects and plain messages, all in memory.

It keeps JetStream's contract where our services rely on it: one order per stream, expected sequence per subject,
duplicate window by message id, key revisions that only grow, keys that expire.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from dollhouse.connection import MemoryConnection
from gangline_kit.bus.tail import LogMessage
from gangline_kit.errors import KeyExistsError, LaneConflictError, StaleRevisionError, StreamFullError, TemporaryError
from gangline_wire.streams import Bucket, Stream

Handler = Callable[[bytes, dict[str, str]], Awaitable[bytes]]
Listener = Callable[[str, bytes, dict[str, str]], Awaitable[None]]


class Subscription(Struct, eq=False):
    """Somebody who hears plain messages, or answers requests."""

    pattern: str
    listener: Listener | None = None
    handler: Handler | None = None
    alive: bool = True
    connection: MemoryConnection | None = None

    def hears(self, subject: str) -> bool:
        """True when a message on this subject reaches the process now; a frozen one lost it (its buffer ran over)."""
        reached = self.connection is None or (self.connection.is_reached and self.connection.gate.is_open)
        return self.alive and reached and matches(self.pattern, subject)

    def serves(self, subject: str) -> bool:
        """True when a request on this subject is sent to the process."""
        is_there = self.connection is None or self.connection.is_connected
        return self.alive and is_there and matches(self.pattern, subject)


class StoredStream:
    """One stream in memory."""

    def __init__(self, settings: Stream, now_s: Callable[[], float]) -> None:
        """An empty stream."""
        self.settings = settings
        self.messages: list[LogMessage] = []
        self.bytes = 0
        self.grown = asyncio.Event()
        self._now_s = now_s
        self._last: dict[str, int] = {}
        self._ids: dict[str, tuple[int, float]] = {}

    def append(self, subject: str, data: bytes, *, expected_seq: int | None, msg_id: str | None) -> int:
        """Store one message; errors as `Bus.append`."""
        if msg_id is not None and msg_id in self._ids:
            seq, stored_s = self._ids[msg_id]
            if self._now_s() - stored_s < self.settings.duplicate_window_s:
                return seq
        last = self._last.get(subject, 0)
        if expected_seq is not None and expected_seq != last:
            mine = self.messages[last - 1].data == data if last > expected_seq else False
            if mine:
                return last
            raise LaneConflictError(f"{subject}: last is {last}, expected {expected_seq}")
        if self.bytes + len(data) > self.settings.bytes_max and not self.settings.discard_old:
            raise StreamFullError(f"{self.settings.name} is full")
        seq = len(self.messages) + 1
        self.messages.append(LogMessage(seq=seq, subject=subject, data=data))
        self.bytes += len(data)
        self._last[subject] = seq
        if msg_id is not None:
            self._ids[msg_id] = (seq, self._now_s())
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()
        return seq

    def last_seq(self, subject: str) -> int:
        """Sequence of the subject's last message, 0 when it has none."""
        return self._last.get(subject, 0)


class Entry(Struct):
    """A key's value; `until_s` is when it expires, 0 never."""

    value: bytes
    revision: int
    until_s: float


class StoredBucket:
    """One key-value bucket in memory."""

    def __init__(self, settings: Bucket, now_s: Callable[[], float]) -> None:
        """An empty bucket."""
        self.settings = settings
        self.revision = 0
        self._now_s = now_s
        self._entries: dict[str, Entry] = {}

    def get(self, key: str) -> Entry | None:
        """The entry, unless it expired."""
        entry = self._entries.get(key)
        return None if entry is None or 0 < entry.until_s <= self._now_s() else entry

    def put(self, key: str, value: bytes) -> int:
        """Set the value and give its revision."""
        self.revision += 1
        until_s = self._now_s() + self.settings.ttl_s if self.settings.ttl_s else 0.0
        self._entries[key] = Entry(value=value, revision=self.revision, until_s=until_s)
        return self.revision

    def create(self, key: str, value: bytes) -> int:
        """Set a value where there is none; errors as `Kv.create`."""
        if self.get(key) is not None:
            raise KeyExistsError(key)
        return self.put(key, value)

    def update(self, key: str, value: bytes, revision: int) -> int:
        """Change a value of this revision; errors as `Kv.update`."""
        entry = self.get(key)
        if entry is None or entry.revision != revision:
            raise StaleRevisionError(key)
        return self.put(key, value)

    def delete(self, key: str, revision: int | None) -> None:
        """Take a key away; errors as `Kv.delete`."""
        entry = self.get(key)
        if revision is not None and (entry is None or entry.revision != revision):
            raise StaleRevisionError(key)
        self._entries.pop(key, None)


class MemoryServer:
    """Everything the buses of one dollhouse share."""

    def __init__(self, streams: tuple[Stream, ...], buckets: tuple[Bucket, ...], now_s: Callable[[], float]) -> None:
        """A server that has these streams and buckets and nothing in them."""
        self.streams = {stream.name: StoredStream(stream, now_s) for stream in streams}
        self.buckets = {bucket.name: StoredBucket(bucket, now_s) for bucket in buckets}
        self.objects: dict[str, bytes] = {}
        self.subscriptions: list[Subscription] = []

    def stream_of(self, subject: str) -> StoredStream:
        """The stream that takes the subject."""
        for stream in self.streams.values():
            if any(matches(pattern, subject) for pattern in stream.settings.subjects):
                return stream
        raise TemporaryError(f"no stream takes {subject}")

    def servers_of(self, subject: str) -> list[Handler]:
        """Whoever answers requests on the subject; one that is cut off is not among them, a frozen one is."""
        found = [each.handler for each in self.subscriptions if each.handler is not None and each.serves(subject)]
        if not found:
            raise TemporaryError(f"nobody answers on {subject}", retry_after_s=0.5)
        return found


def matches(pattern: str, subject: str) -> bool:
    """NATS wildcards: * is one token, > is the rest."""
    wanted, found = pattern.split("."), subject.split(".")
    for position, token in enumerate(wanted):
        if token == ">":
            return len(found) > position
        if position >= len(found) or (token != "*" and token != found[position]):
            return False
    return len(wanted) == len(found)
