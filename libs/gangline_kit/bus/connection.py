"""One connection to the server: request/reply with many in flight, subscriptions, and what happens when it breaks."""

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import nats
from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from gangline_kit.errors import OutcomeUnknownError, PermanentError, TemporaryError, TooLargeError

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
"""How long the first connection may take."""
RECONNECT_WAIT_S = 0.1
BUFFER_CHECK_S = 0.0005
PING_S = 2.0
PINGS_OUTSTANDING_MAX = 2
PENDING_BYTES_MAX = 16 << 20
"""Unsent bytes kept; what would go beyond is refused (or dropped, for fire and forget)."""
SUBSCRIPTION_MESSAGES_MAX = 65_536
SUBSCRIPTION_BYTES_MAX = 256 << 20
CLOSE_TIMEOUT_S = 2.0
SCHEMES = ("nats", "tls", "ws", "wss")
NO_RESPONDER = "503"
HEAD_LINE = b"NATS/1.0\r\n"

Callback = Callable[[Msg], Awaitable[None]]


class BusConfig(Struct, frozen=True, kw_only=True):
    """Where the server is and who we are."""

    url: str = "nats://127.0.0.1:4222"
    """One URL, or several with commas between."""
    user: str = ""
    password: str = ""
    name: str = "gangline"
    ca_file: str = ""

    @property
    def address(self) -> str:
        """The URL as it may be shown: without user and password."""
        return re.sub(r"//[^/@]*@", "//", self.url)


class Connection:
    """A nats client with its own request/reply multiplexer.

    All answers come to one inbox; a future waits for each. When the connection breaks, everything in flight fails at
    once with OutcomeUnknownError instead of running into its timeout.
    """

    def __init__(self, config: BusConfig) -> None:
        """Not connected yet."""
        self.config = config
        self.client = Client()
        self.generation = 0
        """Counts connections: it changes whenever the server may have forgotten what we asked of it."""
        self.failure: str = ""
        """Why the connection is closed for good; empty while it lives."""
        self._connected = asyncio.Event()
        self._waiting: dict[str, tuple[asyncio.Future[Msg], str]] = {}
        """Requests in flight: the answer to come and the subject, by token."""
        self._count = 0
        self._inbox = ""
        self._closing = False
        self._opening = asyncio.timeout(None)
        self._is_refused = False
        self._stumble: Exception | None = None
        """What the last try to connect ran into, of tries that the client makes by itself."""
        self._listeners: list[Callable[[], None]] = []

    # --- life ---------------------------------------------------------------------------------------------

    async def open(self, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Connect.

        Raises:
            TemporaryError: no server answered in time.
            PermanentError: the server refused the user or the password, or the address is none of a server.
        """
        config = self.config
        if (strange := _strange(config)) is not None:
            raise PermanentError(f"{strange!r} is no address of a NATS server, such as nats://HOST:4222 is")
        prefix = f"_INBOX.{config.user or 'any'}"
        try:
            async with asyncio.timeout(timeout_s) as self._opening:
                await self._connect(prefix)
        except (TimeoutError, NatsError, OSError) as error:
            await self._abandon()
            if self._is_refused:
                raise PermanentError(f"the NATS server at {config.address} refused user {config.user!r}") from None
            tried = f"{config.address} in {timeout_s:g} s ({_words(self._stumble or error)})"
            raise TemporaryError(f"no NATS server answers at {tried}: start it, or correct the address") from error
        self._inbox = self.client.new_inbox()
        await self.subscribe(f"{self._inbox}.*", self._answer)
        self.generation = 1
        self._connected.set()

    async def _connect(self, inbox_prefix: str) -> None:
        config = self.config
        tls = ssl.create_default_context(cafile=config.ca_file or None) if config.url.startswith("tls://") else None
        await self.client.connect(
            servers=[url.strip() for url in config.url.split(",")],
            user=config.user or None,
            password=config.password or None,
            name=config.name,
            tls=tls,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_closed,
            connect_timeout=2,
            reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # nats-py sleeps this long; floats work
            max_reconnect_attempts=-1,
            ping_interval=PING_S,  # type: ignore[arg-type]  # likewise
            max_outstanding_pings=PINGS_OUTSTANDING_MAX,
            pending_size=PENDING_BYTES_MAX,
            inbox_prefix=inbox_prefix,
        )

    async def _abandon(self) -> None:
        """Close what a failed first connection left open; the client itself forgets the socket of its last try."""
        with suppress(NatsError, OSError):
            await self.client.close()
        transport = self.client._transport
        if transport is not None:
            transport.close()  # type: ignore[no-untyped-call]  # not annotated there
            # Whatever ended it, such as a handshake that was broken off, is told to whoever waits for its end, even as
            # a cancellation that nobody meant for us.
            await asyncio.gather(transport.wait_closed(), return_exceptions=True)  # type: ignore[no-untyped-call]  # likewise

    async def close(self) -> None:
        """Disconnect; everything in flight fails."""
        self._closing = True
        self._connected.clear()
        self._fail_waiting("the connection was closed")
        if self.client.is_closed:
            return
        with suppress(NatsError, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.client.close()

    @property
    def is_connected(self) -> bool:
        """True while the server answers."""
        return self._connected.is_set()

    async def wait_connected(self) -> None:
        """Wait until the server answers.

        Raises:
            PermanentError: the connection is closed for good.
        """
        self.check()
        await self._connected.wait()
        self.check()

    def check(self) -> None:
        """Raise PermanentError when the connection is closed for good."""
        if self.failure:
            raise PermanentError(self.failure)

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each loss and each return of the connection; gives the function that ends it."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    # --- talking ------------------------------------------------------------------------------------------

    async def request(
        self, subject: str, data: bytes, *, timeout_s: float, headers: dict[str, str] | None = None, again_s: float = 0
    ) -> Msg:
        """Ask and wait for the one answer; with `again_s` the same is asked again that often, until one answer comes.

        Raises:
            TemporaryError: not connected, or nobody listens: it was not carried out.
            OutcomeUnknownError: no answer in time, or the connection broke meanwhile.
            PermanentError: the server says we may not use this subject.
        """
        self.check()
        if not self.is_connected:
            raise TemporaryError(f"{subject}: the bus is away", retry_after_s=1.0)
        loop = asyncio.get_running_loop()
        self._count += 1
        token = f"{self._count:x}"
        answer: asyncio.Future[Msg] = loop.create_future()
        self._waiting[token] = answer, subject
        timer = loop.call_later(timeout_s, self._expire, token)
        try:
            await self._send(subject, data, f"{self._inbox}.{token}", headers)
            while again_s and not answer.done():
                await asyncio.wait((answer,), timeout=again_s)
                if not answer.done():
                    await self._send(subject, data, f"{self._inbox}.{token}", headers)
            message = await answer
        finally:
            timer.cancel()
            self._waiting.pop(token, None)
        if not message.data and message.headers and message.headers.get("Status") == NO_RESPONDER:
            raise TemporaryError(f"nobody answers on {subject}", retry_after_s=0.5)
        return message

    async def publish(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Send, without an answer.

        Raises:
            TemporaryError: the buffers are full.
        """
        self.check()
        await self._send(subject, data, reply, headers)

    async def _send(self, subject: str, data: bytes, reply: str, headers: dict[str, str] | None) -> None:
        # The client counts the data alone; a server that gets more with its headers closes the connection for good.
        if wire_bytes(data, headers) > self.client.max_payload:
            raise TooLargeError(f"{subject}: {len(data)} bytes are more than the server takes")
        try:
            await self.client.publish(subject, data, reply, headers)
        except (nats.errors.BadSubjectError, nats.errors.BadHeaderError) as error:
            raise PermanentError(f"{subject!r} or its headers are nothing that can be sent: {error!r}") from error
        except NatsError as error:
            raise TemporaryError(f"{subject}: {error!r}") from error

    async def subscribe(self, subject: str, callback: Callback, *, queue: str = "") -> Subscription:
        """Hear everything on the subject, one message after the other."""
        self.check()
        return await self.client.subscribe(
            subject,
            queue=queue,
            cb=callback,
            pending_msgs_limit=SUBSCRIPTION_MESSAGES_MAX,
            pending_bytes_limit=SUBSCRIPTION_BYTES_MAX,
        )

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Hear no more; harmless when the connection is gone."""
        with suppress(NatsError, OSError):
            await subscription.unsubscribe()

    async def flush(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Wait until the server has handled everything sent so far, at most this long."""
        with suppress(NatsError, OSError, TimeoutError):
            async with asyncio.timeout(timeout_s):
                # The library's ping goes out ahead of what still waits in its buffer, so that goes first.
                while self.client.pending_data_size > 0:  # noqa: ASYNC110 - the buffer tells nobody when it is empty
                    await asyncio.sleep(BUFFER_CHECK_S)
                await self.client.flush()

    def inbox(self) -> str:
        """A fresh subject only we listen on."""
        return self.client.new_inbox()

    # --- what the client tells us -------------------------------------------------------------------------

    async def _answer(self, message: Msg) -> None:
        waiting = self._waiting.get(message.subject.rpartition(".")[2])
        if waiting is not None and not waiting[0].done():
            waiting[0].set_result(message)

    def _expire(self, token: str) -> None:
        answer, subject = self._waiting[token]
        if not answer.done():
            answer.set_exception(OutcomeUnknownError(f"{subject}: no answer in time"))

    def abandon(self, subject: str, why: str) -> None:
        """Wait no longer for answers to requests on this subject: whoever should give them is known to be gone."""
        self._fail_waiting(why, subject=subject)

    def _fail_waiting(self, why: str, *, subject: str = "") -> None:
        for answer, asked in self._waiting.values():
            if not answer.done() and subject in ("", asked):
                answer.set_exception(OutcomeUnknownError(why))

    async def _on_error(self, error: Exception) -> None:
        # The client reports every refused connection try here; only what we do not expect is worth a line.
        if "permissions violation" in str(error).lower():
            self._deny(str(error))
        elif "authorization violation" in str(error).lower():
            self._refuse()
        elif isinstance(error, (OSError, NatsError, TimeoutError)):
            self._stumble = error
            log.debug("bus: %r", error)
        else:
            log.error("bus: a callback failed", exc_info=error)

    def _refuse(self) -> None:
        """A wrong password does not get right by trying again, so the first connection gives up at once."""
        log.error("bus: the server refuses user %r", self.config.user)
        if self.generation == 0:
            self._is_refused = True
            self._opening.reschedule(asyncio.get_running_loop().time())

    def _deny(self, text: str) -> None:
        """The server answers what we may not do on the side, in lower case; the request itself would run into time."""
        log.error("bus: %s", text)
        for answer, subject in self._waiting.values():
            if not answer.done() and f'"{subject.lower()}"' in text.lower():
                answer.set_exception(PermanentError(f"{subject}: user {self.config.user!r} has no right to it"))

    async def _on_disconnected(self) -> None:
        self._connected.clear()
        self._fail_waiting("the connection broke")
        if self.generation and not self._closing:
            log.warning("bus: connection lost, trying again")
        self._tell()

    async def _on_reconnected(self) -> None:
        self.generation += 1
        self._connected.set()
        log.warning("bus: connected again")
        self._tell()

    async def _on_closed(self) -> None:
        if self._closing:
            return
        # The client gives up for good only when the server refuses us; a new process may be luckier.
        self.failure = f"the server closed the connection for good: {self.client.last_error!r}"
        self._connected.set()
        self._fail_waiting(self.failure)
        self._tell()

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()


def _strange(config: BusConfig) -> str | None:
    """The first address of the list that can be none of a NATS server, such as that of the HTTP API."""
    found = [url.strip() for url in config.address.split(",")]
    return next((url for url in found if not _is_address(url)), None)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        return parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _words(error: Exception) -> str:
    """What went wrong as people read it; that nothing came at all is said as well."""
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or repr(error)


def wire_bytes(data: bytes, headers: dict[str, str] | None) -> int:
    """What a server counts of a message: its data and its headers, as they cross the wire."""
    if not headers:
        return len(data)
    lines = sum(len(name.encode()) + len(value.encode()) + 4 for name, value in headers.items())
    return len(HEAD_LINE) + lines + 2 + len(data)
