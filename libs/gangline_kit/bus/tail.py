"""Reading a stream in order and for ever: an ordered push consumer that is made anew whenever anything looks wrong."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from msgspec import Struct
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from gangline_kit.bus import jetstream
from gangline_kit.bus.connection import Connection
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.tasks import Tasks

HEARTBEAT_S = 0.5
"""The server shows this often that an idle consumer lives."""
SILENCE_S_MAX = 1.5
"""A consumer that shows nothing for this long is dead; a new one is made."""
LATE_S = 0.2
"""So much longer is waited, in case it was we who were late, and what came is still on its way through this process."""
COMPARE_S = 10.0
"""An idle reader compares itself with the last sequence of what it reads this often."""
CREATE_S = 1.0
"""A consumer should be there after this long; after TRIES_EACH tries it may take twice as long, and so on."""
TRIES_EACH = 4
GLANCE_S = 0.05
"""While a consumer is not there yet, the stream's own leader is asked this often for what comes next."""
GLANCE_ANSWER_S = 0.5
GLANCE_MAX = 100
"""Messages that are asked for one by one before they are given out."""
RETRY_S = 0.2
MISSES_MAX = 15
"""A stream that was there may be missing for this many looks, RETRY_S apart, while a server cluster finds itself."""
BATCH_MAX = 500
"""Messages given out at once."""
INACTIVE_S = 30.0
"""The server forgets a consumer nobody listens to after this long."""
NANO = 1_000_000_000


class LogMessage(Struct, frozen=True):
    """One message of a stream."""

    seq: int
    subject: str
    data: bytes
    headers: dict[str, str] | None = None
    stored_ms: int = 0
    """When the server stored it; 0 where that is not known."""


class _BrokenError(Exception):
    """The consumer cannot be trusted any more; carries why, for the log."""


class Tail:
    """A position in a stream that only moves forward.

    Each consumer numbers what it delivers; a number that is missing, silence, or a new connection makes a new consumer
    from the next sequence, so nothing is skipped and nothing comes twice. A stream that is behind the position, or was
    made anew, is not the stream we read: PermanentError.
    """

    def __init__(
        self, connection: Connection, stream: str, start_seq: int, *, subject: str = "", follow: bool = True
    ) -> None:
        """Begin at `start_seq`; with `subject` only matching messages; without `follow` stop at the present end."""
        self.stream = stream
        self.position = start_seq - 1
        """Sequence of the last message given out."""
        self.resubscribed = -1
        """How often the consumer had to be made anew."""
        self._connection = connection
        self._subject = subject
        self._follow = follow
        self._created = ""
        self._missed = 0
        self._tries = 0
        """Consumers that were asked for in vain since the last that came."""
        self._making = Tasks(on_failure=lambda error: None)
        """At most one consumer is asked for; who waits for it hears why there is none."""
        self._inbox: deque[Msg] = deque()
        self._wake = asyncio.Event()
        self._subscription: Subscription | None = None
        self._delivered = 0
        self._end: int | None = None
        """Where a reader that does not follow stops."""
        self._generation = 0

    async def batches(self) -> AsyncIterator[list[LogMessage]]:
        """Messages as they come, in lists of at most BATCH_MAX.

        Raises:
            PermanentError: the stream is not the one we read before.
        """
        stop_listening = self._connection.listen(self._wake.set)
        try:
            while True:
                try:
                    making = await self._open()
                    while not making.done():
                        batch = await self._glance(making)
                        if batch:
                            yield batch
                    making.result()
                    self.resubscribed += 1
                    while self._follow or self.position < await self._known_end():
                        batch = await self._next()
                        if batch:
                            yield batch
                    return
                except (_BrokenError, TemporaryError):
                    await self._close()
                    await self._connection.wait_connected()
                    await asyncio.sleep(RETRY_S if self._delivered == 0 else 0)
        finally:
            stop_listening()
            await self._close()

    async def _open(self) -> asyncio.Task[None]:
        """Check that the stream is ours and have a consumer made from the next sequence on; gives who waits for it."""
        self._generation = self._connection.generation
        await self._verify()
        inbox = self._connection.inbox()
        self._inbox.clear()
        self._delivered = 0
        self._subscription = await self._connection.subscribe(inbox, self._receive)
        config: dict[str, object] = {
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(self.position + 1, 1),
            "ack_policy": "none",
            "max_deliver": 1,
            "idle_heartbeat": int(HEARTBEAT_S * NANO),
            "flow_control": True,
            "inactive_threshold": int(INACTIVE_S * NANO),
            "mem_storage": True,
            "num_replicas": 1,
        }
        if self._subject:
            config["filter_subject"] = self._subject
        wanted: dict[str, object] = {"stream_name": self.stream, "config": config}
        return self._making.spawn(self._create(wanted), name=f"consumer of {self.stream}")

    async def _create(self, wanted: dict[str, object]) -> None:
        """Servers that look for a leader answer nobody, so nobody waits long; one that came late is never heard."""
        timeout_s = min(CREATE_S * (1 + self._tries // TRIES_EACH), jetstream.API_TIMEOUT_S)
        self._tries += 1
        await jetstream.call(self._connection, f"CONSUMER.CREATE.{self.stream}", wanted, timeout_s=timeout_s)
        self._tries = 0

    async def _glance(self, making: asyncio.Task[None]) -> list[LogMessage]:
        """What comes next, as long as the consumer is not made; perhaps nothing.

        Consumers are made by the leader of all servers. Where that one has died, streams that others lead go on.
        """
        await asyncio.wait((making,), timeout=GLANCE_S)
        batch: list[LogMessage] = []
        while self._follow and not making.done() and len(batch) < GLANCE_MAX:
            try:
                found = await jetstream.next_message(
                    self._connection,
                    self.stream,
                    self.position + 1,
                    self._subject or ">",
                    timeout_s=GLANCE_ANSWER_S,
                )
            except TemporaryError:
                break
            self.position = found.seq
            batch.append(LogMessage(found.seq, found.subject, found.data, found.headers, found.stored_ms))
        return batch

    async def _known_end(self) -> int:
        """Sequence of what was the last matching message at first.

        The stream's leader is asked: a consumer may live on a server that has not caught up and knows of fewer.
        """
        if self._end is None:
            self._end = await self._last()
        return self._end

    async def _last(self) -> int:
        """Of what is still there: a stream's own last sequence may be that of a message which its age has taken."""
        last = await jetstream.last_message(self._connection, self.stream, self._subject or ">")
        return 0 if last is None else last.seq

    async def _verify(self) -> None:
        try:
            info = await jetstream.stream_info(self._connection, self.stream)
        except jetstream.NotFoundError as error:
            self._missed += 1
            if self._created and self._missed > MISSES_MAX:
                raise PermanentError(f"stream {self.stream} is gone: refusing to go on without it") from error
            raise TemporaryError(f"stream {self.stream} does not exist") from error
        self._missed = 0
        if self._created and info.created != self._created:
            raise PermanentError(f"stream {self.stream} was made anew at {info.created}: refusing to go on")
        if info.state.last_seq < self.position:
            raise PermanentError(
                f"stream {self.stream} ends at {info.state.last_seq} but {self.position} was read before: it lost data"
            )
        self._created = info.created

    async def _close(self) -> None:
        await self._making.close()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await self._connection.unsubscribe(subscription)

    async def _receive(self, message: Msg) -> None:
        self._inbox.append(message)
        self._wake.set()

    async def _next(self) -> list[LogMessage]:
        """At least one message; perhaps none for a reader that does not follow, when the end came nearer."""
        idle_s = 0.0
        while True:
            batch = await self._take()
            if batch:
                return batch
            self._wake.clear()
            if self._inbox:
                continue
            if self._connection.generation != self._generation or not self._connection.is_connected:
                raise _BrokenError("the connection changed")
            if not await self._woken(SILENCE_S_MAX) and not await self._woken(LATE_S):
                raise _BrokenError("the consumer is silent")
            if not self._inbox or self._inbox[0].headers is not None:
                idle_s += HEARTBEAT_S
                if not self._follow and not any(message.reply.startswith("$JS.ACK") for message in self._inbox):
                    # What should come may have been discarded meanwhile.
                    self._end = min(await self._known_end(), await self._last())
                    return []
            if idle_s >= COMPARE_S:
                idle_s = 0.0
                await self._compare()

    async def _woken(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                return await self._wake.wait()
        except TimeoutError:
            return False

    async def _compare(self) -> None:
        """A consumer that beats but delivers nothing is found out by the end of what it should deliver."""
        if self._subject:
            last = await self._last()
        else:
            last = (await jetstream.stream_info(self._connection, self.stream)).state.last_seq
        if last > self.position:
            await asyncio.sleep(RETRY_S)
            if not any(message.reply.startswith("$JS.ACK") for message in self._inbox):
                raise _BrokenError("the stream went on without us")

    async def _take(self) -> list[LogMessage]:
        """What has arrived, in order; answers flow control on the way."""
        batch: list[LogMessage] = []
        inbox = self._inbox
        while inbox and len(batch) < BATCH_MAX:
            message = inbox.popleft()
            if message.headers is not None and message.headers.get("Status") == "100":
                await self._control(message)
                continue
            fields = message.reply.split(".")
            # $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>, or two fields more
            # in front of the stream (domain, account) in servers' newer form.
            first = 5 if len(fields) == 9 else 7
            delivered = int(fields[first + 1])
            if delivered != self._delivered + 1:
                if batch:
                    inbox.appendleft(message)
                    break
                raise _BrokenError(f"message {self._delivered + 1} of the consumer is missing")
            self._delivered = delivered
            if int(fields[first]) <= self.position:
                continue  # It was read before the consumer was there.
            self.position = int(fields[first])
            stored_ms = int(fields[first + 2]) // 1_000_000
            batch.append(LogMessage(self.position, message.subject, message.data, message.headers, stored_ms))
        return batch

    async def _control(self, message: Msg) -> None:
        headers = message.headers or {}
        if message.reply:
            await self._connection.publish(message.reply, b"")
            return
        stalled = headers.get("Nats-Consumer-Stalled")
        if stalled:
            await self._connection.publish(stalled, b"")
        last = headers.get("Nats-Last-Consumer")
        if last is not None and int(last) > self._delivered and not self._inbox:
            raise _BrokenError(f"the consumer sent {last} messages, {self._delivered} came")
