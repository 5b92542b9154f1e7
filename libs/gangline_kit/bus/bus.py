"""Everything a service may do with the message bus."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from gangline_kit.bus import jetstream, setup
from gangline_kit.bus.connection import CONNECT_TIMEOUT_S, BusConfig, Connection
from gangline_kit.bus.kv import Kv
from gangline_kit.bus.objects import Objects
from gangline_kit.bus.tail import LogMessage, Tail
from gangline_kit.clock import Clock
from gangline_kit.errors import LaneConflictError, PermanentError, TemporaryError
from gangline_kit.tasks import Tasks
from gangline_wire.streams import Bucket, Stream

log = logging.getLogger(__name__)

APPEND_TIMEOUT_S = 5.0
REQUESTS_IN_FLIGHT_MAX = 4096
"""Requests one `serve` works on at a time; more are answered "busy"."""
DRAIN_S_MAX = 2.0
PROBLEM = "Gangline-Problem"
"""Header of an answer that is an error: "temporary" or "permanent"."""
RETRY_AFTER = "Gangline-Retry-After"

Handler = Callable[[bytes, dict[str, str]], Awaitable[bytes]]
Listener = Callable[[str, bytes, dict[str, str]], Awaitable[None]]


class Bus:
    """A connection with our words for what it can do."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        """Use `Bus.connect`."""
        self.connection = connection
        self.clock = clock
        self.dropped = 0
        """Fire-and-forget messages that were thrown away because the buffers were full."""
        self._tasks = Tasks()
        self._servings: list[Serving] = []

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
        for serving in tuple(self._servings):
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
        """Ask a service.

        Raises:
            TemporaryError: nobody listens, the bus is away, or the service says so; OutcomeUnknownError: no answer.
            PermanentError: the service could not handle the request.
        """
        answer = await self.connection.request(subject, data, timeout_s=timeout_s, headers=headers)
        if answer.headers is not None and PROBLEM in answer.headers:
            text = answer.data.decode(errors="replace")
            if answer.headers[PROBLEM] == "temporary":
                raise TemporaryError(text, retry_after_s=float(answer.headers.get(RETRY_AFTER, "1")))
            raise PermanentError(text)
        return answer.data

    async def serve(self, subject: str, handler: Handler, queue: str = "") -> "Serving":
        """Answer requests, many at a time, until stopped; each request meets one server of the `queue`."""
        serving = Serving(self, subject, handler)
        await serving.start(queue or subject)
        self._servings.append(serving)
        return serving

    def forget(self, serving: "Serving") -> None:
        """The serving stopped."""
        with suppress(ValueError):
            self._servings.remove(serving)

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
            return await jetstream.append(self.connection, subject, data, headers=sent or None, timeout_s=timeout_s)
        except LaneConflictError:
            stored = await self._own_message(subject, data, expected_seq or 0)
            if stored is None:
                raise
            return stored

    async def _own_message(self, subject: str, data: bytes, after: int) -> int | None:
        """Sequence of the subject's last message if it is ours: an earlier try whose answer was lost."""
        stream = await jetstream.stream_of(self.connection, subject)
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

    def spawn(self, serving: "Serving", message: Msg) -> None:
        """Answer one request in the background; the bus waits for it when it closes."""
        self._tasks.spawn(serving.answer(message), name=f"answer {serving.subject}")


class Serving:
    """Answers to the requests on one subject."""

    def __init__(self, bus: Bus, subject: str, handler: Handler) -> None:
        """Use `Bus.serve`."""
        self.subject = subject
        self._bus = bus
        self._handler = handler
        self._in_flight = 0
        self._subscription: Subscription | None = None

    async def start(self, queue: str) -> None:
        """Begin to listen."""
        self._subscription = await self._bus.connection.subscribe(self.subject, self._heard, queue=queue)

    async def stop(self) -> None:
        """Take no more requests; those in flight are still answered."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await self._bus.connection.unsubscribe(subscription)
            self._bus.forget(self)

    async def _heard(self, message: Msg) -> None:
        if self._in_flight >= REQUESTS_IN_FLIGHT_MAX:
            await self._problem(message, "temporary", f"{self.subject}: busy", retry_after_s=1.0)
            return
        self._in_flight += 1
        self._bus.spawn(self, message)

    async def answer(self, message: Msg) -> None:
        """Handle one request and send the answer, whatever it is."""
        try:
            data = await self._handler(message.data, message.headers or {})
            with suppress(TemporaryError):
                await self._bus.connection.publish(message.reply, data)
        except TemporaryError as error:
            await self._problem(message, "temporary", str(error), retry_after_s=error.retry_after_s)
        except PermanentError as error:
            await self._problem(message, "permanent", str(error))
        except Exception:
            # One poisonous request must not take the leader down again and again: its sender hears of it, and so do we.
            log.exception("request on %s failed", self.subject)
            await self._problem(message, "permanent", f"{self.subject}: internal error")
        finally:
            self._in_flight -= 1

    async def _problem(self, message: Msg, kind: str, text: str, *, retry_after_s: float = 1.0) -> None:
        headers = {PROBLEM: kind, RETRY_AFTER: f"{retry_after_s:g}"}
        with suppress(TemporaryError, PermanentError):
            await self._bus.connection.publish(message.reply, text.encode(), headers=headers)
