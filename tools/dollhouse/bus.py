"""One process's connection to the dollhouse's server, with the words of `gangline_kit.bus.Bus`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import Struct

from dollhouse.clock import EPOCH_MS
from dollhouse.connection import HOP_S, Gate, MemoryConnection, Rates
from dollhouse.server import Handler, Listener, MemoryServer, Subscription
from dollhouse.stored import StoredStream, check_message, matches
from dollhouse.stores import MemoryKv, MemoryObjects
from gangline_kit.bus import Record
from gangline_kit.bus.jetstream import StreamInfo, StreamState
from gangline_kit.bus.tail import LogMessage
from gangline_kit.clock import Clock
from gangline_kit.errors import OutcomeUnknownError, PermanentError, StreamFullError, TemporaryError
from gangline_kit.tasks import Tasks
from gangline_wire.streams import Bucket, Stream

WRITE_S = 0.0015
"""A durable append."""
BATCH_MAX = 500
FOUND_S = 0.2
"""A reader looks so often for a stream that nobody made yet."""
KEPT = 0.7
"""Share of those messages that servers agree on at last."""
AGREE_S = (0.05, 0.7, 4.0, 12.0)


class MemoryBus:
    """See gangline_kit.bus.Bus."""

    def __init__(
        self,
        server: MemoryServer,
        clock: Clock,
        gate: Gate | None = None,
        *,
        name: str = "",
        rates: Rates | None = None,
    ) -> None:
        """A connection of one process; `gate` is the process's own, `rates` say what goes wrong by itself."""
        self.server = server
        self.clock = clock
        self.name = name
        self.note = server.struck.note
        self.connection = MemoryConnection(gate, rates=rates, draw=server.draw, note=self.note)
        self.failure = ""
        self.dropped = 0
        self._tasks = Tasks()
        self._waiting: dict[asyncio.Future[bytes], str] = {}
        """Answers that are waited for, and the subject that was asked."""
        self._own: list[Subscription] = []
        self._served: dict[str, None] = {}
        self._arrives_s: dict[str, float] = {}
        """When the last plain message of each subject arrives: those of one subject stay in order."""

    @property
    def is_connected(self) -> bool:
        """True while the server answers."""
        return self.connection.is_connected

    async def _hop(self, seconds: float) -> None:
        await self.connection.way(seconds)

    async def close(self) -> None:
        """Hear and answer no more."""
        for subscription in self._own:
            self._drop(subscription)
        await self._tasks.close()

    async def request(
        self, subject: str, data: bytes, timeout_s: float = 5.0, headers: dict[str, str] | None = None
    ) -> bytes:
        """Ask a service."""
        await self._hop(HOP_S)
        check_message(subject, data, headers)
        first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        handlers = self.server.servers_of(subject)
        if self.connection.happens(self.connection.rates.doubled):
            handlers = [*handlers, *handlers]
            self.note("doubled")
        self._waiting[first] = subject
        for handler in handlers:
            self._tasks.spawn(_answer(handler, data, headers or {}, first), name=f"answer {subject}")
        try:
            async with asyncio.timeout(timeout_s):
                answer = await first
        except TimeoutError:
            raise OutcomeUnknownError(f"{subject}: no answer in time") from None
        finally:
            self._waiting.pop(first, None)
        await self._hop(HOP_S)
        return answer

    def abandon(self, subject: str, why: str) -> None:
        """Requests on this subject that are under way fail; see gangline_kit.bus.Bus."""
        for first, asked in self._waiting.items():
            if asked == subject and not first.done():
                first.set_exception(OutcomeUnknownError(why))

    async def serve(self, subject: str, handler: Handler, queue: str = "") -> "MemoryServing":
        """Answer requests until stopped."""
        assert subject not in self._served, f"{subject} is served here already"
        self._served[subject] = None

        async def handled(data: bytes, headers: dict[str, str]) -> bytes:
            await self._hop(0)
            answer = await handler(data, headers)
            check_message(subject, answer)
            return answer

        subscription = Subscription(pattern=subject, handler=handled, queue=queue, connection=self.connection)
        self._enter(subscription)
        return MemoryServing(self, subscription)

    def forget(self, subject: str) -> None:
        """The subject is not served here any more."""
        self._served.pop(subject, None)

    async def publish(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        """Tell whoever listens now, or a little later: messages of different subjects overtake each other."""
        if not self.connection.is_reached:
            self.dropped += 1
            self.note("cut off")
            return
        check_message(subject, data, headers)
        times = 2 if self.connection.happens(self.connection.rates.doubled) else 1
        if times > 1:
            self.note("doubled")
        jitter_s = self.connection.rates.jitter_s
        for _ in range(times):
            if not jitter_s:
                await self._deliver(subject, data, headers or {})
                continue
            now_s = asyncio.get_running_loop().time()
            at_s = max(self._arrives_s.get(subject, 0.0), now_s + self.connection.draw.random() * jitter_s)
            self._arrives_s[subject] = at_s
            self._tasks.spawn(self._deliver_later(subject, data, headers or {}, at_s - now_s), name=f"tell {subject}")

    async def _deliver_later(self, subject: str, data: bytes, headers: dict[str, str], wait_s: float) -> None:
        self.server.leaves(subject)
        await asyncio.sleep(wait_s)
        self.server.arrives(subject)
        await self._deliver(subject, data, headers)

    async def _deliver(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        """To whoever listens, and into the stream that takes the subject, if one does and has room."""
        stream = self.server.taking(subject)
        if stream is not None:
            with suppress(StreamFullError):
                stream.append(subject, data, expected_seq=None, msg_id=None, headers=headers, writer=self.name)
        await self._tell(subject, data, headers)

    async def _tell(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        for subscription in list(self.server.subscriptions):
            if subscription.hears(subject) and subscription.listener is not None:
                await subscription.listener(subject, data, headers)

    async def subscribe(self, subject: str, handler: Listener) -> Subscription:
        """Hear what is published from now on."""
        subscription = Subscription(pattern=subject, listener=handler, connection=self.connection)
        self._enter(subscription)
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Hear no more."""
        self._drop(subscription)

    async def append(
        self,
        subject: str,
        data: bytes,
        expected_seq: int | None = None,
        msg_id: str | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = 5.0,
    ) -> int:
        """Store a message."""
        await self._hop(WRITE_S / 2)
        check_message(subject, data, headers)
        self.connection.check_stores()
        stream = self.server.stream_of(subject)
        if expected_seq is not None and expected_seq == stream.last_seq(subject):
            await self._agree(stream, subject, data, headers, timeout_s)
        seq = stream.append(subject, data, expected_seq=expected_seq, msg_id=msg_id, headers=headers, writer=self.name)
        await self._tell(subject, data, headers or {})
        await self.connection.check_answer(timeout_s)
        await self._hop(WRITE_S / 2)
        return seq

    async def _agree(
        self, stream: StoredStream, subject: str, data: bytes, headers: dict[str, str] | None, timeout_s: float
    ) -> None:
        """Several servers must agree on what is stored, which mostly takes them no time.

        Raises:
            OutcomeUnknownError: they have not, for too long; then they do, or drop it.
        """
        if not self.connection.happens(self.connection.rates.undecided):
            return
        self.note("undecided")
        draw, expected = self.connection.draw, stream.last_seq(subject)
        is_kept = draw.random() < KEPT

        def decide() -> None:
            if is_kept:
                with suppress(StreamFullError):
                    stream.append(subject, data, expected_seq=expected, msg_id=None, headers=headers, writer=self.name)

        stream.defer(subject, draw.choice(AGREE_S), decide)
        await asyncio.sleep(timeout_s)
        await self.connection.gate.passed()
        raise OutcomeUnknownError("no answer in time")

    async def append_all(self, records: Sequence[Record]) -> None:
        """Store messages with ids."""
        await self._hop(WRITE_S / 2)
        self.connection.check_stores()
        for record in records:
            stream = self.server.stream_of(record.subject)
            stream.append(record.subject, record.data, expected_seq=None, msg_id=record.msg_id, writer=self.name)
        await self.connection.check_answer(5.0)
        await self._hop(WRITE_S / 2)

    async def ensure(
        self,
        streams: tuple[Stream, ...] = (),
        buckets: tuple[Bucket, ...] = (),
        objects: tuple[str, ...] = (),
        replicas: int = 1,
    ) -> None:
        """Make what is missing."""
        await self._hop(HOP_S)
        self.server.ensure(streams, buckets, objects, replicas)

    async def last_seq(self, stream: str) -> int:
        """Sequence of the stream's last message."""
        await self._hop(HOP_S)
        return self.server.stream(stream).last

    async def stream_info(self, stream: str) -> StreamInfo:
        """A stream's ends and limit."""
        await self._hop(HOP_S)
        stored = self.server.stream(stream)
        state = StreamState(
            messages=len(stored.messages), bytes=stored.bytes, first_seq=stored.first, last_seq=stored.last
        )
        return StreamInfo(created="once", state=state, config=self.server.settings_of(stream), ts=_now())

    async def drop_until(self, stream: str, seq: int) -> None:
        """Drop messages up to `seq` but the newest of every subject."""
        await self._hop(HOP_S)
        self.connection.check_stores()
        self.server.stream(stream).drop_until(seq)
        await self._hop(HOP_S)

    async def message_at(self, stream: str, seq: int) -> bytes | None:
        """The stored bytes at a sequence."""
        await self._hop(HOP_S)
        if seq <= 0:
            raise PermanentError(f"{stream} has no message {seq}")
        found = self.server.stream(stream).at(seq)
        return None if found is None else found.data

    async def last_message(self, stream: str, subject: str) -> tuple[bytes, int] | None:
        """Bytes and sequence of the subject's last message."""
        await self._hop(HOP_S)
        stored = self.server.stream(stream)
        found = stored.at(stored.last_seq(subject))
        return None if found is None else (found.data, found.seq)

    async def read(self, stream: str, start_seq: int) -> AsyncIterator[LogMessage]:
        """Every message from `start_seq` on, for ever."""
        async for message in self.read_subject(stream, "", start_seq, follow=True):
            yield message

    async def read_subject(
        self, stream: str, subject: str, start_seq: int = 1, follow: bool = True
    ) -> AsyncIterator[LogMessage]:
        """Messages of matching subjects."""
        async for batch in self.tail(stream, start_seq, subject=subject, follow=follow).batches():
            for message in batch:
                yield message

    def tail(self, stream: str, start_seq: int, *, subject: str = "", follow: bool = True) -> "MemoryTail":
        """The same in batches."""
        return MemoryTail(bus=self, stream=stream, position=start_seq - 1, subject=subject, follow=follow)

    def kv(self, bucket: str) -> MemoryKv:
        """A key-value bucket."""
        return MemoryKv(self, bucket)

    def objects(self, name: str) -> MemoryObjects:
        """An object store."""
        return MemoryObjects(self, name)

    async def hop(self, seconds: float = HOP_S) -> None:
        """One round trip, or TemporaryError."""
        await self._hop(seconds)

    def _enter(self, subscription: Subscription) -> None:
        self._own.append(subscription)
        self.server.subscriptions.append(subscription)

    def _drop(self, subscription: Subscription) -> None:
        subscription.alive = False
        if subscription in self.server.subscriptions:
            self.server.subscriptions.remove(subscription)


def _now() -> str:
    """The server's time, as it writes it."""
    at_s = (EPOCH_MS + asyncio.get_running_loop().time() * 1000) / 1000
    return datetime.fromtimestamp(at_s, tz=UTC).isoformat()


async def _answer(handler: Handler, data: bytes, headers: dict[str, str], first: "asyncio.Future[bytes]") -> None:
    """One of those who serve a subject answers; whoever asked takes the first answer."""
    try:
        answer = await handler(data, headers)
    except Exception as error:  # noqa: BLE001 - a request that makes its server stumble is answered all the same
        if not first.done():
            is_known = isinstance(error, TemporaryError | PermanentError)
            first.set_exception(error if is_known else PermanentError(f"internal error: {error!r}"))
    else:
        if not first.done():
            first.set_result(answer)


class MemoryServing(Struct, frozen=True):
    """See gangline_kit.bus.Serving."""

    bus: MemoryBus
    subscription: Subscription

    async def stop(self) -> None:
        """Answer no more."""
        self.bus.forget(self.subscription.pattern)
        await self.bus.unsubscribe(self.subscription)


class MemoryTail(Struct):
    """See gangline_kit.bus.Tail."""

    bus: MemoryBus
    stream: str
    position: int
    subject: str
    follow: bool
    resubscribed: int = 0

    async def _found(self) -> StoredStream:
        """The stream, once somebody has made it.

        Raises:
            PermanentError: it ends before what was read of it.
        """
        while True:
            await self.bus.connection.wait_connected()
            try:
                stored = self.bus.server.stream(self.stream)
            except TemporaryError:
                await asyncio.sleep(FOUND_S)
                continue
            if stored.last < self.position:
                raise PermanentError(f"stream {self.stream} ends at {stored.last} but {self.position} was read before")
            return stored

    async def batches(self) -> AsyncIterator[list[LogMessage]]:
        """Messages as they come."""
        connection = self.bus.connection
        stored = await self._found()
        while True:
            await connection.wait_connected()
            await connection.flowing.wait()
            stored.expire()
            first = stored.position_of(self.position + 1)
            batch = stored.messages[first : first + (1 if connection.slow_s else BATCH_MAX)]
            if not batch:
                if not self.follow:
                    return
                await stored.grown.wait()
                await asyncio.sleep(HOP_S + connection.delay_s)
                continue
            if connection.slow_s:
                await asyncio.sleep(connection.slow_s)
                if stored.last > batch[-1].seq:
                    self.bus.note("behind")
            await connection.gate.passed()
            self.position = batch[-1].seq
            wanted = [m for m in batch if not self.subject or matches(self.subject, m.subject)]
            if wanted:
                yield wanted
