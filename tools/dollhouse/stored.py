"""One stream of the dollhouse's server: what is kept, in which order, who may write, what goes when it is full or old.

It counts bytes as a real server's files do, so that both are full at the same message.
"""

import asyncio
import re
from collections.abc import Callable

from dollhouse.clock import EPOCH_MS
from gangline_kit.bus.connection import wire_bytes
from gangline_kit.bus.jetstream import EXPECTED_SEQUENCE, MESSAGE_ID
from gangline_kit.bus.tail import LogMessage
from gangline_kit.errors import (
    LaneConflictError,
    OutcomeUnknownError,
    PermanentError,
    StreamFullError,
    TemporaryError,
    TooLargeError,
)
from gangline_wire.streams import MESSAGE_BYTES_MAX, Stream

RECORD_BYTES = 30
"""What a file needs for a message beside its subject, headers and data."""
HEADER_BYTES = 4
"""What it needs more when there are headers."""
_LINE_ENDS = re.compile(r"[\r\n]")
_UNSENDABLE = re.compile(r"\s")


def size_of(subject: str, data: bytes, headers: dict[str, str] | None) -> int:
    """Bytes that a message takes of its stream."""
    return RECORD_BYTES + len(subject.encode()) + wire_bytes(data, headers) + (HEADER_BYTES if headers else 0)


def check_message(subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
    """Nothing is sent that a server would not take.

    Raises:
        PermanentError: no such subject; TooLargeError: too much.
        TemporaryError: a subject with an empty part, which nobody can listen to.
    """
    if not subject or _UNSENDABLE.search(subject):
        raise PermanentError(f"{subject!r} or its headers are nothing that can be sent")
    if wire_bytes(data, headers) > MESSAGE_BYTES_MAX:
        raise TooLargeError(f"{subject}: {len(data)} bytes are more than the server takes")
    if not all(subject.split(".")):
        raise TemporaryError(f"nobody answers on {subject}", retry_after_s=0.5)


class StoredStream:
    """One stream in memory."""

    def __init__(
        self, settings: Stream, now_s: Callable[[], float], *, replicas: int = 1, lasts_s: float = 0.0
    ) -> None:
        """An empty stream, kept by so many servers; messages last so long where that is no whole number of seconds."""
        self.settings = settings
        self.replicas = replicas
        self.lasts_s = lasts_s
        self.messages: list[LogMessage] = []
        """What is kept, oldest first; with gaps where something was dropped."""
        self.ever: list[LogMessage] = []
        """All that was ever stored, message `seq` at `seq - 1`; for those who look on."""
        self.dropped_until = 0
        """So far somebody has dropped what is older."""
        self.writers: list[str] = []
        """Who stored message `seq`, at `seq - 1`; for those who look on."""
        self.refused = 0
        """How often there was no room."""
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
        headers = self._sent(headers, expected_seq=expected_seq, msg_id=msg_id)
        check_message(subject, data, headers)
        if expected_seq is not None and subject in self._undecided:
            raise OutcomeUnknownError(f"{subject}: an earlier message of the subject is on its way")
        # One server looks at the expected sequence first, several at the id.
        first = self._seen(msg_id) if self.replicas > 1 else None
        if first is None and expected_seq is not None and expected_seq != (last := self.last_seq(subject)):
            known = self.at(last) if last > expected_seq else None
            if known is not None and known.data == data:
                return last
            raise LaneConflictError(f"{subject}: last is {last}, expected {expected_seq}")
        if (first := first or self._seen(msg_id)) is not None:
            return first
        size = size_of(subject, data, headers)
        self._make_room(subject, size)
        self.last += 1
        stored_ms = EPOCH_MS + int(self._now_s() * 1000) if stored_ms is None else stored_ms
        stored = LogMessage(seq=self.last, subject=subject, data=data, headers=headers, stored_ms=stored_ms)
        self.messages.append(stored)
        self.ever.append(stored)
        self.writers.append(writer)
        self.bytes += size
        self._stored_s[self.last] = self._now_s()
        self._last_of[subject] = self.last
        if msg_id is not None:
            self._ids[msg_id] = (self.last, self._now_s())
        self._forget(subject)
        self.shorten()
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()
        return self.last

    @staticmethod
    def _sent(headers: dict[str, str] | None, *, expected_seq: int | None, msg_id: str | None) -> dict[str, str] | None:
        """The headers as they are stored: with what a writer says to the server by them, in one line each."""
        sent = {name.strip(): _LINE_ENDS.sub(" ", value.strip()) for name, value in (headers or {}).items()}
        if expected_seq is not None:
            sent[EXPECTED_SEQUENCE] = str(expected_seq)
        if msg_id is not None:
            sent[MESSAGE_ID] = msg_id
        return sent or None

    def _seen(self, msg_id: str | None) -> int | None:
        """Sequence of the message that came with this id a short while ago."""
        seq, stored_s = self._ids.get(msg_id or "", (0, 0.0))
        return seq if seq and self._now_s() - stored_s < self.settings.duplicate_window_s else None

    def defer(self, subject: str, seconds: float, decide: Callable[[], object]) -> None:
        """For so long nobody knows whether a message of this subject is stored; then `decide` says so."""
        self._undecided[subject] = None

        def decided() -> None:
            self._undecided.pop(subject, None)
            decide()

        asyncio.get_running_loop().call_later(seconds, decided)

    def last_seq(self, subject: str) -> int:
        """Sequence of the last message of matching subjects, 0 when there is none."""
        if "*" not in subject and ">" not in subject:
            return self._last_of.get(subject, 0)
        return max((seq for known, seq in self._last_of.items() if matches(subject, known)), default=0)

    def subjects(self, pattern: str) -> list[str]:
        """Subjects that have messages and match, sorted."""
        self.expire()
        return sorted(subject for subject in self._last_of if matches(pattern, subject))

    @property
    def first(self) -> int:
        """Sequence of the oldest message; of an empty stream the one after its last, 0 of one that was never used."""
        if self.messages:
            return self.messages[0].seq
        return self.last + 1 if self.last else 0

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
                self.bytes -= size_of(gone.subject, gone.data, gone.headers)
                self._stored_s.pop(gone.seq, None)
        self.messages[:] = kept

    def purge(self, subject: str) -> None:
        """Drop all messages of a subject."""
        for position in reversed([n for n, message in enumerate(self.messages) if message.subject == subject]):
            self._drop(position)

    def expire(self) -> None:
        """What is older than the stream keeps is gone, looked at or not."""
        age_s = self.lasts_s or self.settings.age_s_max
        while age_s and self.messages and self._now_s() - self._stored_s[self.messages[0].seq] >= age_s:
            self._drop(0)

    def _make_room(self, subject: str, size: int) -> None:
        """A stream that drops nothing refuses what is too much; errors as `Bus.append`."""
        self.expire()
        if self.settings.discard_old or self.bytes + size <= self.settings.bytes_max:
            return
        if self.replicas == 1:
            mine = [message for message in self.messages if message.subject == subject]
            is_at_limit = 0 < self.settings.messages_per_subject_max <= len(mine)
            # What it takes the place of goes; several servers do not count with that.
            if is_at_limit and size <= size_of(mine[0].subject, mine[0].data, mine[0].headers):
                return
        self.refused += 1
        raise StreamFullError(f"{self.settings.name} is full")

    def shorten(self) -> None:
        """The oldest messages go where the stream says so."""
        while self.settings.discard_old and self.bytes > self.settings.bytes_max and self.messages:
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
        self.bytes -= size_of(gone.subject, gone.data, gone.headers)
        self._stored_s.pop(gone.seq, None)


def matches(pattern: str, subject: str) -> bool:
    """NATS wildcards: * is one token, > is the rest."""
    wanted, found = pattern.split("."), subject.split(".")
    for position, token in enumerate(wanted):
        if token == ">":
            return len(found) > position
        if position >= len(found) or (token != "*" and token != found[position]):
            return False
    return len(wanted) == len(found)


def overlap(one: str, other: str) -> bool:
    """True when some subject matches both patterns."""
    ours, theirs = one.split("."), other.split(".")
    for mine, yours in zip(ours, theirs, strict=False):
        if ">" in (mine, yours):
            return True
        if mine != yours and "*" not in (mine, yours):
            return False
    return len(ours) == len(theirs)
