"""Everything a service may do with the message bus."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from msgspec import Struct
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from gangline_kit.bus import jetstream, setup
from gangline_kit.bus.connection import CONNECT_TIMEOUT_S, BusConfig, Connection
from gangline_kit.bus.kv import Kv
from gangline_kit.bus.objects import Objects
from gangline_kit.bus.serving import PROBLEM, RETRY_AFTER, Handler, Serving
from gangline_kit.bus.tail import LogMessage, Tail
from gangline_kit.clock import Clock
from gangline_kit.errors import LaneConflictError, PermanentError, TemporaryError
from gangline_kit.tasks import Tasks
from gangline_wire.streams import Bucket, Stream

APPEND_TIMEOUT_S = 5.0
DRAIN_S_MAX = 2.0

Listener = Callable[[str, bytes, dict[str, str]], Awaitable[None]]


class Record(Struct, frozen=True):
    """A message to store once, however often it is sent."""

    subject: str
    data: bytes
    msg_id: str


class Bus:
    """A connection with our words for what it can do."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        """Use `Bus.connect`."""
        self.connection = connection
        self.clock = clock
        self.dropped = 0
        """Fire-and-forget messages that were thrown away because the buffers were full."""
        self._tasks = Tasks()
        self._servings: dict[str, Serving] = {}
        """By subject."""
        self._stored_in: dict[str, str] = {}
        """Stream by subject, of subjects that expect a sequence, which are few: the lanes we write."""

    @classmethod
    async def connect(cls, config: BusConfig, clock: Clock, timeout_s: float = CONNECT_TIMEOUT_S) -> "Bus":
        """Connect.

        Raises:
            TemporaryError: no server answers.
            PermanentError: it refuses us.
        """
        connection = Connection(config)
        await connection.open(timeout_s)
        return cls(connection, clock)

    @property
    def is_connected(self) -> bool:
        """True while the server answers."""
        return self.connection.is_connected

    @property
    def failure(self) -> str:
        """Why this bus will never work again; empty while it may."""
        return self.connection.failure

    async def close(self) -> None:
        """Finish what is being answered, then disconnect."""
        for serving in tuple(self._servings.values()):
            await serving.stop()
        await self._tasks.drain(DRAIN_S_MAX)
        await self._tasks.close()
        if self.connection.is_connected:
            await self.connection.flush()
        await self.connection.close()

    # --- request and reply --------------------------------------------------------------------------------

    async def request(
        self, subject: str, data: bytes, timeout_s: float = 5.0, headers: dict[str, str] | None = None
    ) -> bytes:
        """Ask a service; one that this very bus serves answers without the detour over the server.

        Raises:
            TemporaryError: nobody listens, the bus is away, or the service says so; OutcomeUnknownError: no answer.
            PermanentError: the service could not handle the request.
        """
        own = self._servings.get(subject)
        if own is not None and self.is_connected:
            return await own.ask(data, headers or {}, timeout_s)
        answer = await self.connection.request(subject, data, timeout_s=timeout_s, headers=headers)
        if answer.headers is not None and PROBLEM in answer.headers:
            text = answer.data.decode(errors="replace")
            if answer.headers[PROBLEM] == "temporary":
                raise TemporaryError(text, retry_after_s=float(answer.headers.get(RETRY_AFTER, "1")))
            raise PermanentError(text)
        return answer.data

    def abandon(self, subject: str, why: str) -> None:
        """Requests on this subject that are under way fail with OutcomeUnknownError, so that they can be repeated."""
        self.connection.abandon(subject, why)

    async def serve(self, subject: str, handler: Handler, queue: str = "") -> Serving:
        """Answer requests, many at a time, until stopped; each request meets one server of the `queue`.

        A bus serves a subject once at a time.
        """
        assert subject not in self._servings, f"{subject} is served here already"
        serving = Serving(self.connection, self._tasks, subject=subject, handler=handler, stopped=self._forget)
        await serving.start(queue or subject)
        self._servings[subject] = serving
        return serving

    def _forget(self, subject: str) -> None:
        self._servings.pop(subject, None)

    # --- fire and forget ----------------------------------------------------------------------------------

    async def publish(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        """Tell whoever listens now; thrown away (and counted) when the bus is away or slow."""
        try:
            if self.is_connected:
                await self.connection.publish(subject, data, headers=headers)
                return
        except TemporaryError:
            pass
        self.dropped += 1

    async def subscribe(self, subject: str, handler: Listener) -> Subscription:
        """Hear what is published from now on: subject, data, headers; one after the other."""

        async def heard(message: Msg) -> None:
            await handler(message.subject, message.data, message.headers or {})

        return await self.connection.subscribe(subject, heard)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Hear no more."""
        await self.connection.unsubscribe(subscription)

    # --- streams ------------------------------------------------------------------------------------------

    async def append(
        self,
        subject: str,
        data: bytes,
        expected_seq: int | None = None,
        msg_id: str | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = APPEND_TIMEOUT_S,
    ) -> int:
        """Store a message durably; gives its sequence in the stream.

        With `expected_seq` it is stored only if that is the sequence of the subject's last message (0: it has none). A
        repetition after a lost answer finds its own bytes there and counts as stored. A `msg_id` seen within the
        stream's duplicate window gives the sequence of the first.

        Raises:
            LaneConflictError: the subject's last message is another one.
            StreamFullError: nothing was stored.
            TemporaryError: not stored; OutcomeUnknownError: perhaps stored.
        """
        sent = dict(headers) if headers else {}
        if expected_seq is not None:
            sent[jetstream.EXPECTED_SEQUENCE] = str(expected_seq)
        if msg_id is not None:
            sent[jetstream.MESSAGE_ID] = msg_id
        try:
            ack = await jetstream.store(self.connection, subject, data, headers=sent or None, timeout_s=timeout_s)
        except LaneConflictError:
            stored = await self._own_message(subject, data, expected_seq or 0)
            if stored is None:
                raise
            return stored
        if expected_seq is not None:
            self._stored_in[subject] = ack.stream
        return ack.seq

    async def append_all(self, records: Sequence[Record]) -> None:
        """Store records in order, waiting only for the answers to the first and the last of them.

        A stream stores in order what one connection sends, so the distance between the two answers tells whether all
        that lies between is there; if in doubt, each is sent again with an answer of its own. What is there already
        (within the stream's duplicate window) is not stored again.

        Raises:
            StreamFullError, TemporaryError, PermanentError: as `append`; perhaps some were stored. Repeat them all.
        """
        generation = self.connection.generation
        first = records[0]
        begin = end = await self.append(first.subject, first.data, msg_id=first.msg_id)
        for record in records[1:-1]:
            headers = {jetstream.MESSAGE_ID: record.msg_id}
            await self.connection.publish(record.subject, record.data, headers=headers)
        for record in records[1:][-1:]:
            end = await self.append(record.subject, record.data, msg_id=record.msg_id)
        if end - begin < len(records) - 1 or self.connection.generation != generation:
            for record in records:
                await self.append(record.subject, record.data, msg_id=record.msg_id)

    async def _own_message(self, subject: str, data: bytes, after: int) -> int | None:
        """Sequence of the subject's last message if it is ours: an earlier try whose answer was lost."""
        # The leader of all servers would say which stream it is, but perhaps it has just died.
        stream = self._stored_in.get(subject) or await jetstream.stream_of(self.connection, subject)
        last = await jetstream.last_message(self.connection, stream, subject)
        return last.seq if last is not None and last.seq > after and last.data == data else None

    async def last_seq(self, stream: str) -> int:
        """Sequence of the stream's last message.

        Raises:
            TemporaryError: the bus is away, or the stream does not exist (yet).
        """
        return (await self.stream_info(stream)).state.last_seq

    async def stream_info(self, stream: str) -> jetstream.StreamInfo:
        """A stream's identity, settings and ends; errors as `last_seq`."""
        return await jetstream.stream_info(self.connection, stream)

    async def drop_until(self, stream: str, seq: int) -> None:
        """Drop messages up to `seq` but the newest of every subject, so that appends expect what they did before.

        Raises:
            TemporaryError: perhaps not all are dropped; what is newer is there in any case.
        """
        await jetstream.drop_until(self.connection, stream, seq)

    async def message_at(self, stream: str, seq: int) -> bytes | None:
        """The stored bytes at a sequence, or None."""
        try:
            return (await jetstream.message_at(self.connection, stream, seq)).data
        except jetstream.NotFoundError:
            return None

    async def last_message(self, stream: str, subject: str) -> tuple[bytes, int] | None:
        """Bytes and sequence of the subject's last message, or None."""
        last = await jetstream.last_message(self.connection, stream, subject)
        return None if last is None else (last.data, last.seq)

    async def read(self, stream: str, start_seq: int) -> AsyncIterator[LogMessage]:
        """Every message from `start_seq` on, in order, for ever; errors as `Tail.batches`."""
        async for message in self.read_subject(stream, "", start_seq, follow=True):
            yield message

    async def read_subject(
        self, stream: str, subject: str, start_seq: int = 1, follow: bool = True
    ) -> AsyncIterator[LogMessage]:
        """Messages of matching subjects; without `follow` it ends at what is now the last one."""
        async for batch in self.tail(stream, start_seq, subject=subject, follow=follow).batches():
            for message in batch:
                yield message

    def tail(self, stream: str, start_seq: int, *, subject: str = "", follow: bool = True) -> Tail:
        """The same in batches, for readers in a hurry."""
        return Tail(self.connection, stream, start_seq, subject=subject, follow=follow)

    # --- stores -------------------------------------------------------------------------------------------

    def kv(self, bucket: str) -> Kv:
        """A key-value bucket, made by `ensure`."""
        return Kv(self.connection, bucket)

    def objects(self, name: str) -> Objects:
        """An object store, made by `ensure`."""
        return Objects(self.connection, name)

    async def ensure(
        self,
        streams: tuple[Stream, ...] = (),
        buckets: tuple[Bucket, ...] = (),
        objects: tuple[str, ...] = (),
        replicas: int = 1,
    ) -> None:
        """Create what is missing and correct settings that differ; errors as `setup.ensure`."""
        for stream in streams:
            await setup.ensure(self.connection, setup.stream_settings(stream, replicas=replicas))
        for bucket in buckets:
            await setup.ensure(self.connection, setup.bucket_settings(bucket, replicas=replicas))
        for name in objects:
            await setup.ensure(self.connection, setup.objects_settings(name, replicas=replicas))
