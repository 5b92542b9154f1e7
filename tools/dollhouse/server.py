"""The message server of a dollhouse: streams, key-value buckets, objects and plain messages, all in memory.

It keeps JetStream's contract where our services rely on it, and `tests/bus/test_contract.py` holds it to the same
promises as a real server: one order per stream, expected sequence per subject, duplicate window by message id, limits
by bytes, age and messages per subject, key revisions that only grow, keys that expire, requests that meet one of a
group.
"""

from collections.abc import Awaitable, Callable
from random import Random

from msgspec import Struct

from dollhouse.buckets import StoredBucket
from dollhouse.connection import MemoryConnection
from dollhouse.stored import StoredStream, matches, overlap
from dollhouse.struck import Struck
from gangline_kit.bus import setup
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_wire.streams import SNAPSHOTS, Bucket, Stream

BUCKET = "KV_"
"""How the streams under buckets are called."""

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
        self.struck = Struck()
        """What went wrong so far and made a difference."""
        self._under_way: list[str] = []
        """Subjects of what is sent and has not arrived, as it was sent."""
        self.streams: dict[str, StoredStream] = {}
        self.buckets: dict[str, StoredBucket] = {}
        self.objects: dict[str, bytes] = {}
        """Those of the snapshots."""
        self.stores = {SNAPSHOTS: self.objects}
        self.full_stores: dict[str, None] = {}
        """Object stores that take nothing for want of room."""
        self.ensure(streams, buckets)
        self.subscriptions: list[Subscription] = []

    def ensure(
        self, streams: tuple[Stream, ...], buckets: tuple[Bucket, ...], objects: tuple[str, ...] = (), replicas: int = 1
    ) -> None:
        """Make what is missing and correct the settings of the rest; see `Bus.ensure`."""
        for stream in streams:
            if stream.name not in self.streams:
                self._check_overlap(stream)
                self.streams[stream.name] = StoredStream(stream, self.now_s, replicas=replicas)
            self.streams[stream.name].settings = stream
            self.streams[stream.name].shorten()
        for bucket in buckets:
            known = self.buckets.get(bucket.name)
            if known is None:
                known = self.buckets[bucket.name] = StoredBucket(bucket, self.now_s, replicas=replicas)
            known.change(bucket)
        for name in objects:
            self.stores.setdefault(name, {})

    def _check_overlap(self, wanted: Stream) -> None:
        """No subject belongs to two streams."""
        for known in self.streams.values():
            pairs = ((one, other) for one in wanted.subjects for other in known.settings.subjects)
            if any(overlap(one, other) for one, other in pairs):
                raise PermanentError(f"{wanted.name}: subjects overlap with {known.settings.name}")

    def settings_of(self, name: str) -> dict[str, object]:
        """A stream's settings as a real server spells them."""
        stream = self.stream(name)
        if name.startswith(BUCKET):
            return setup.bucket_settings(self.buckets[name.removeprefix(BUCKET)].settings, replicas=stream.replicas)
        return setup.stream_settings(stream.settings, replicas=stream.replicas)

    def bucket(self, name: str) -> StoredBucket:
        """The bucket, or TemporaryError: somebody may still make it."""
        if name not in self.buckets:
            raise TemporaryError(f"bucket {name} does not exist")
        return self.buckets[name]

    def stream(self, name: str) -> StoredStream:
        """The stream, or TemporaryError: somebody may still make it."""
        bucket = self.buckets.get(name.removeprefix(BUCKET)) if name.startswith(BUCKET) else None
        stream = bucket.stream if bucket is not None else self.streams.get(name)
        if stream is None:
            raise TemporaryError(f"stream {name} does not exist")
        stream.expire()
        return stream

    def stream_of(self, subject: str) -> StoredStream:
        """The stream that takes the subject."""
        stream = self.taking(subject)
        if stream is None:
            raise TemporaryError(f"no stream takes {subject}")
        return stream

    def taking(self, subject: str) -> StoredStream | None:
        """The stream that takes the subject, if one does."""
        for stream in self.streams.values():
            if any(matches(pattern, subject) for pattern in stream.settings.subjects):
                return stream
        return None

    def leaves(self, subject: str) -> None:
        """A plain message is sent, and takes its time."""
        self._under_way.append(subject)

    def arrives(self, subject: str) -> None:
        """It is there, perhaps before one of another subject that was sent before it."""
        if self._under_way[0] != subject:
            self.struck.note("overtaken")
        self._under_way.remove(subject)

    def servers_of(self, subject: str) -> list[Handler]:
        """Who is asked: one of each group. One that is cut off is not among them, a frozen one is."""
        groups: dict[str, list[Handler]] = {}
        for each in self.subscriptions:
            if each.handler is not None and each.serves(subject):
                groups.setdefault(each.queue or each.pattern, []).append(each.handler)
        if not groups:
            raise TemporaryError(f"nobody answers on {subject}", retry_after_s=0.5)
        return [self.draw.choice(members) for members in groups.values()]
