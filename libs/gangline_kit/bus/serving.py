"""The answering side of requests: many at a time, each with an answer whatever happens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from gangline_kit.bus.connection import Connection
from gangline_kit.errors import OutcomeUnknownError, PermanentError, TemporaryError
from gangline_kit.tasks import Tasks

log = logging.getLogger(__name__)

INBOX = "_INBOX."
"""Where answers are waited for; the answer to what a consumer delivers would be an acknowledgement."""
REQUESTS_IN_FLIGHT_MAX = 4096
"""Requests one `serve` works on at a time; more are answered "busy"."""
PROBLEM = "Gangline-Problem"
"""Header of an answer that is an error: "temporary" or "permanent"."""
RETRY_AFTER = "Gangline-Retry-After"

Handler = Callable[[bytes, dict[str, str]], Awaitable[bytes]]
"""Answers a request: a coroutine function, or a function that gives a future which somebody else will fill."""


class Serving:
    """Answers to the requests on one subject."""

    def __init__(
        self, connection: Connection, tasks: Tasks, *, subject: str, handler: Handler, stopped: Callable[[str], None]
    ) -> None:
        """Use `Bus.serve`."""
        self.subject = subject
        self._connection = connection
        self._tasks = tasks
        self._handler = handler
        self._stopped = stopped
        self._in_flight = 0
        self._subscription: Subscription | None = None

    async def start(self, queue: str) -> None:
        """Begin to listen; when it returns, the server sends requests here."""
        self._subscription = await self._connection.subscribe(self.subject, self._heard, queue=queue)
        await self._connection.flush()

    async def stop(self) -> None:
        """Take no more requests; those in flight are still answered."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._stopped(self.subject)
            await self._connection.unsubscribe(subscription)

    # --- requests of this very process --------------------------------------------------------------------

    async def ask(self, data: bytes, headers: dict[str, str], timeout_s: float) -> bytes:
        """Answer a request without the detour over the server; errors as `Bus.request`.

        As over the server, the answering does not end when nobody waits for it any more.
        """
        if self._in_flight >= REQUESTS_IN_FLIGHT_MAX:
            raise TemporaryError(f"{self.subject}: busy")
        self._in_flight += 1
        loop = asyncio.get_running_loop()
        found = self._handler(data, headers)
        if isinstance(found, asyncio.Future):
            # Nobody works on it in our name, so there is nothing that would have to go on without us.
            answer: asyncio.Future[bytes] = found
            answer.add_done_callback(self._finished)
        else:
            answer = loop.create_future()
            self._tasks.spawn(self._answer_here(found, answer), name=f"answer {self.subject}")
        timer = loop.call_later(timeout_s, _fail, answer, OutcomeUnknownError(f"{self.subject}: no answer in time"))
        try:
            return await answer
        finally:
            timer.cancel()

    def _finished(self, answer: asyncio.Future[bytes]) -> None:
        self._in_flight -= 1

    async def _answer_here(self, work: Awaitable[bytes], answer: asyncio.Future[bytes]) -> None:
        try:
            found = await self._handle(work)
        except (TemporaryError, PermanentError) as error:
            _fail(answer, error)
        else:
            if not answer.done():
                answer.set_result(found)
        finally:
            _fail(answer, OutcomeUnknownError(f"{self.subject}: the bus was closed"))

    # --- requests of others -------------------------------------------------------------------------------

    async def _heard(self, message: Msg) -> None:
        if not message.reply.startswith(INBOX):
            # Whoever may make a consumer can have the server publish a stream's messages here; nobody asks for answers
            # to those at an inbox.
            log.warning("%s: a message that nobody asked is set aside", self.subject)
            return
        if self._in_flight >= REQUESTS_IN_FLIGHT_MAX:
            await self._problem(message, "temporary", f"{self.subject}: busy", retry_after_s=1.0)
            return
        self._in_flight += 1
        self._tasks.spawn(self._answer(message), name=f"answer {self.subject}")

    async def _answer(self, message: Msg) -> None:
        """Handle one request and send the answer, whatever it is."""
        try:
            data = await self._handle(self._handler(message.data, message.headers or {}))
            with suppress(TemporaryError):
                await self._connection.publish(message.reply, data)
        except TemporaryError as error:
            await self._problem(message, "temporary", str(error), retry_after_s=error.retry_after_s)
        except PermanentError as error:
            await self._problem(message, "permanent", str(error))

    async def _handle(self, work: Awaitable[bytes]) -> bytes:
        try:
            return await work
        except (TemporaryError, PermanentError):
            raise
        except Exception:
            # One poisonous request must not take the leader down again and again: its sender hears of it, and so do we.
            log.exception("request on %s failed", self.subject)
            raise PermanentError(f"{self.subject}: internal error") from None
        finally:
            self._in_flight -= 1

    async def _problem(self, message: Msg, kind: str, text: str, *, retry_after_s: float = 1.0) -> None:
        headers = {PROBLEM: kind, RETRY_AFTER: f"{retry_after_s:g}"}
        with suppress(TemporaryError, PermanentError):
            await self._connection.publish(message.reply, text.encode(), headers=headers)


def _fail(answer: asyncio.Future[bytes], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
