"""The message server of a dollhouse: streams, key-value buckets, objects and plain messages, all in memory.

It keeps JetStream's contract where our services rely on it, and `tests/bus/test_contract.py` holds it to the same
promises as a real server: one order per stream, expected sequence per subject, duplicate window by message id, limits
by bytes, age and messages per subject, key revisions that only grow, keys that expire, requests that meet one of a
group.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from msgspec import Struct

from dollhouse.clock import EPOCH_MS
from dollhouse.connection import MemoryConnection
from gangline_kit.bus.tail import LogMessage
from gangline_kit.errors import (
    KeyExistsError,
    LaneConflictError,
    OutcomeUnknownError,
    StaleRevisionError,
    StreamFullError,
    TemporaryError,
    TooLargeError,
)
from gangline_wire.streams import MESSAGE_BYTES_MAX, Bucket, Stream

Handler = Callable[[bytes, dict[str, str]], Awaitable[bytes]]
Listener = Callable[[str, bytes, dict[str, str]], Awaitable[None]]


class Subscription(Struct, eq=False):
    """Somebody who hears plain messages, or answers requests."""

    pattern: str
    listener: Listener | None = None
    handler: Handler | None = None
    queue: str = ""
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
        """What is kept, oldest first; with gaps where something was dropped."""
        self.ever: list[LogMessage] = []
        """All that was ever stored, message `seq` at `seq - 1`; for those who look on."""
        self.dropped_until = 0
        """So far somebody has dropped what is older."""
        self.writers: list[str] = []
        """Who stored message `seq`, at `seq - 1`; for those who look on."""
        self.last = 0
        self.bytes = 0
        self.grown = asyncio.Event()
        self._undecided: dict[str, None] = {}
        """Subjects on which the servers have not agreed on a message yet."""
        self._now_s = now_s
        self._stored_s: dict[int, float] = {}
        self._last_of: dict[str, int] = {}
        self._ids: dict[str, tuple[int, float]] = {}

    def append(
        self,
        subject: str,
        data: bytes,
        *,
        expected_seq: int | None,
        msg_id: str | None,
        headers: dict[str, str] | None = None,
        writer: str = "",
        stored_ms: int | None = None,
    ) -> int:
        """Store one message; errors as `Bus.append`. A copy of another log keeps the times at which that stored it."""
        if len(data) > MESSAGE_BYTES_MAX:
            raise TooLargeError(f"{subject}: {len(data)} bytes are more than the server takes")
        if msg_id is not None and msg_id in self._ids:
            seq, stored_s = self._ids[msg_id]
            if self._now_s() - stored_s < self.settings.duplicate_window_s:
                return seq
        if expected_seq is not None and subject in self._undecided:
            raise OutcomeUnknownError(f"{subject}: an earlier message of the subject is on its way")
        last = self._last_of.get(subject, 0)
        if expected_seq is not None and expected_seq != last:
            known = self.at(last) if last > expected_seq else None
            if known is not None and known.data == data:
                return last
            raise LaneConflictError(f"{subject}: last is {last}, expected {expected_seq}")
        self._make_room(len(data))
        self.last += 1
        stored_ms = EPOCH_MS + int(self._now_s() * 1000) if stored_ms is None else stored_ms
        stored = LogMessage(seq=self.last, subject=subject, data=data, headers=headers, stored_ms=stored_ms)
        self.messages.append(stored)
        self.ever.append(stored)
        self.writers.append(writer)
        self.bytes += len(data)
        self._stored_s[self.last] = self._now_s()
        self._last_of[subject] = self.last
        if msg_id is not None:
            self._ids[msg_id] = (self.last, self._now_s())
        self._forget(subject)
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()
        return self.last

    def defer(self, subject: str, seconds: float, decide: Callable[[], object]) -> None:
        """For so long nobody knows whether a message of this subject is stored; then `decide` says so."""
        self._undecided[subject] = None

        def decided() -> None:
            self._undecided.pop(subject, None)
            decide()

        asyncio.get_running_loop().call_later(seconds, decided)

    def last_seq(self, subject: str) -> int:
        """Sequence of the subject's last message, 0 when it has none."""
        return self._last_of.get(subject, 0)

    def at(self, seq: int) -> LogMessage | None:
        """The message with this sequence, if it is kept."""
        position = self.position_of(seq)
        found = self.messages[position] if position < len(self.messages) else None
        return found if found is not None and found.seq == seq else None

    def position_of(self, seq: int) -> int:
        """Where in `messages` the first one stands that is not before this sequence."""
        if not self.messages:
            return 0
        position = max(0, min(seq - self.messages[0].seq, len(self.messages)))
        while position > 0 and self.messages[position - 1].seq >= seq:
            position -= 1
        return position

    def drop_until(self, seq: int) -> None:
        """Drop messages up to this sequence but the newest of every subject."""
        self.dropped_until = max(self.dropped_until, min(seq, self.last))
        newest = set(self._last_of.values())
        kept = [message for message in self.messages if message.seq > seq or message.seq in newest]
        for gone in self.messages:
            if gone.seq <= seq and gone.seq not in newest:
                self.bytes -= len(gone.data)
                self._stored_s.pop(gone.seq, None)
        self.messages[:] = kept

    def expire(self) -> None:
        """What is older than the stream keeps is gone, looked at or not."""
        age_s = self.settings.age_s_max
        while age_s and self.messages and self._now_s() - self._stored_s[self.messages[0].seq] >= age_s:
            self._drop(0)

    def _make_room(self, size: int) -> None:
        """Old messages make way where the stream says so; errors as `Bus.append`."""
        self.expire()
        while self.bytes + size > self.settings.bytes_max:
            if not self.settings.discard_old or not self.messages:
                raise StreamFullError(f"{self.settings.name} is full")
            self._drop(0)

    def _forget(self, subject: str) -> None:
        most = self.settings.messages_per_subject_max
        if most > 0:
            mine = [position for position, message in enumerate(self.messages) if message.subject == subject]
            for position in reversed(mine[:-most]):
                self._drop(position)

    def _drop(self, position: int) -> None:
        gone = self.messages.pop(position)
        if self._last_of.get(gone.subject) == gone.seq:
            del self._last_of[gone.subject]
        self.bytes -= len(gone.data)
        self._stored_s.pop(gone.seq, None)


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
        """Set the value and give its revision; errors as `Kv.put`."""
        others = sum(len(name) + len(entry.value) for name, entry in self._entries.items() if name != key)
        if others + len(key) + len(value) > self.settings.bytes_max:
            raise StreamFullError(f"{self.settings.name} is full")
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
        """Take a key away, which is a change like any other; errors as `Kv.delete`."""
        entry = self.get(key)
        if revision is not None and (entry is None or entry.revision != revision):
            raise StaleRevisionError(key)
        self.revision += 1
        self._entries.pop(key, None)

    def held(self) -> list[str]:
        """Keys that have a value, sorted."""
        return sorted(key for key in self._entries if self.get(key) is not None)


class MemoryServer:
    """Everything the buses of one dollhouse share."""

    def __init__(
        self,
        streams: tuple[Stream, ...],
        buckets: tuple[Bucket, ...],
        now_s: Callable[[], float],
        draw: Random | None = None,
    ) -> None:
        """A server that has these streams and buckets and nothing in them; `draw` picks who of a group is asked."""
        self.now_s = now_s
        self.draw = draw or Random(0)
        self.streams = {stream.name: StoredStream(stream, now_s) for stream in streams}
        self.buckets = {bucket.name: StoredBucket(bucket, now_s) for bucket in buckets}
        self.objects: dict[str, bytes] = {}
        self.subscriptions: list[Subscription] = []

    def ensure(self, streams: tuple[Stream, ...], buckets: tuple[Bucket, ...]) -> None:
        """Make what is missing and correct the settings of the rest; see `Bus.ensure`."""
        for stream in streams:
            self.streams.setdefault(stream.name, StoredStream(stream, self.now_s)).settings = stream
        for bucket in buckets:
            self.buckets.setdefault(bucket.name, StoredBucket(bucket, self.now_s)).settings = bucket

    def stream(self, name: str) -> StoredStream:
        """The stream, or TemporaryError: somebody may still make it."""
        if name not in self.streams:
            raise TemporaryError(f"stream {name} does not exist")
        self.streams[name].expire()
        return self.streams[name]

    def stream_of(self, subject: str) -> StoredStream:
        """The stream that takes the subject."""
        for stream in self.streams.values():
            if any(matches(pattern, subject) for pattern in stream.settings.subjects):
                return stream
        raise TemporaryError(f"no stream takes {subject}")

    def servers_of(self, subject: str) -> list[Handler]:
        """Who is asked: one of each group. One that is cut off is not among them, a frozen one is."""
        groups: dict[str, list[Handler]] = {}
        for each in self.subscriptions:
            if each.handler is not None and each.serves(subject):
                groups.setdefault(each.queue or each.pattern, []).append(each.handler)
        if not groups:
            raise TemporaryError(f"nobody answers on {subject}", retry_after_s=0.5)
        return [self.draw.choice(members) for members in groups.values()]


def matches(pattern: str, subject: str) -> bool:
    """NATS wildcards: * is one token, > is the rest."""
    wanted, found = pattern.split("."), subject.split(".")
    for position, token in enumerate(wanted):
        if token == ">":
            return len(found) > position
        if position >= len(found) or (token != "*" and token != found[position]):
            return False
    return len(wanted) == len(found)
