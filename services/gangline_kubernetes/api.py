"""Talking to an API server: what it may answer, what that means, and how often a question is repeated."""

from collections.abc import AsyncIterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from gangline_kit.clock import Clock
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kit.ids import Ids
from gangline_kubernetes.objects import Failure

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TIMEOUT_S = 15.0
RETRY_S = 0.2
RETRY_S_MAX = 15.0
RETRY_ASKED_S_MAX = 60.0
"""A server that asks for more is tried again after this."""
TRIES_MAX = 6
TOO_LARGE = ("request is too large", "message larger than max")
"""What the store behind the server says of objects that it does not take."""


class Answer(Struct, frozen=True):
    """A whole answer."""

    status: int
    body: bytes
    headers: dict[str, str] = {}


class Transport(Protocol):
    """One way to an API server."""

    async def send(self, method: str, path: str, query: str, body: Any, form: str, timeout_s: float) -> Answer:
        """Send one request; a body is what JSON is made of, or None.

        Raises:
            TemporaryError: it was certainly not carried out.
            OutcomeUnknownError: nobody knows.
        """

    def stream(self, path: str, query: str, idle_s: float) -> AsyncIterator[bytes]:
        """Lines of a watch until the server ends it.

        Raises:
            RefusedError: the server answers something else than a stream.
            TemporaryError: it is cut, or silent for longer than `idle_s`.
        """


class RefusedError(Exception):
    """The server understood and said no."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        """As its Status says."""
        super().__init__(message or reason or str(code))
        self.code = code
        self.reason = reason
        self.message = message

    @property
    def is_gone(self) -> bool:
        """True when there is no such object, or no such version, any more."""
        return self.code in (404, 410)

    @property
    def is_another(self) -> bool:
        """True when the object of that name is not the one that was meant: a patch with its uid is then invalid."""
        return self.code == 422 and "metadata.uid" in self.message

    @property
    def is_of_versions(self) -> bool:
        """True when the object was changed between the server's own reading and writing."""
        return self.code == 409 and "has been modified" in self.message

    @property
    def is_for_lack_of_rights(self) -> bool:
        """True when it is we who may not do that, whatever it is about."""
        return self.code == 403 and "cannot" in self.message and " in API group " in self.message

    @property
    def is_too_large(self) -> bool:
        """True when the request, or what would become of its object, is more than the server or its store takes.

        The store's word for it comes as a fault of the server's own, and does not pass.
        """
        return self.code == 413 or (self.code == 500 and any(word in self.message for word in TOO_LARGE))


class Api:
    """Requests with their retries; what may be repeated safely is, until the server's answer is known."""

    def __init__(self, transport: Transport, clock: Clock, ids: Ids) -> None:
        """Talk over this transport."""
        self.transport = transport
        self._clock = clock
        self._ids = ids
        self.requests = 0

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, str] | None = None,
        form: str = JSON,
        tries: int = TRIES_MAX,
    ) -> bytes:
        """The body of a good answer. Refusals of too many requests and failures of the server are waited out.

        Raises:
            RefusedError: the server said no.
            TemporaryError: it could not be reached, or not do it; not carried out.
            OutcomeUnknownError: nobody knows whether it was carried out; reads and deletes are repeated instead.
        """
        may_repeat = method in ("GET", "DELETE")
        for number in range(1, tries + 1):
            self.requests += 1
            try:
                answer = await self.transport.send(method, path, urlencode(query or {}), body, form, TIMEOUT_S)
                if answer.status < 300 and not answer.body.lstrip().startswith(b"{"):
                    # Every answer of the server is an object: somebody on the way said this.
                    raise OutcomeUnknownError(f"{method} {path}: {answer.status} without an object")
            except OutcomeUnknownError:
                if not may_repeat or number == tries:
                    raise
                await self.pause(number)
                continue
            except TemporaryError:
                if number == tries:
                    raise
                await self.pause(number)
                continue
            if answer.status < 300:
                return answer.body
            refused = refusal(answer)
            if refused.is_too_large:
                raise refused
            if not _passes(refused, may_repeat) or number == tries:
                if answer.status >= 500 and not may_repeat:
                    raise OutcomeUnknownError(f"{method} {path}: {answer.status} {refused}")
                raise refused
            await self.pause(number, at_least_s=asked_s(answer.headers.get("Retry-After", ""), self._clock.now_ms()))
        raise TemporaryError(f"{method} {path}: gave up")

    async def get(self, path: str) -> bytes | None:
        """The object at this path, or None.

        Raises:
            RefusedError, TemporaryError: as `call`.
        """
        try:
            return await self.call("GET", path)
        except RefusedError as error:
            if error.code == 404:
                return None
            raise

    async def pause(self, number: int, *, at_least_s: float = 0.0) -> None:
        """Wait before the try after the `number`th: longer each time, and never all clients at once."""
        await self._clock.sleep(max(at_least_s, wait_s(number, self._ids)))


def asked_s(text: str, now_ms: int) -> float:
    """How long a Retry-After header asks to wait: seconds, or a date of HTTP; what cannot be read asks for nothing."""
    if text.strip().isdecimal():
        return min(float(text), RETRY_ASKED_S_MAX)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return 0.0
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max(0.0, at.timestamp() - now_ms / 1000), RETRY_ASKED_S_MAX)


def wait_s(number: int, ids: Ids) -> float:
    """How long to wait after the `number`th failure in a row: exponential, with jitter."""
    most = min(RETRY_S * 2 ** min(number - 1, 10), RETRY_S_MAX)
    return float(most * (0.5 + ids.fraction() / 2))


def refusal(answer: Answer) -> RefusedError:
    """What a bad answer says."""
    try:
        status = msgspec.json.decode(answer.body, type=Failure)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status = Failure(message=answer.body[:200].decode(errors="replace"))
    return RefusedError(answer.status, status.reason, status.message)


def _passes(refused: RefusedError, may_repeat: bool) -> bool:
    """True when the same request may be answered otherwise in a moment."""
    if refused.code == 429:
        # An eviction that a budget forbids is also called too many requests, and is for the caller to judge.
        return "disruption budget" not in refused.message
    return refused.code == 401 or (refused.code >= 500 and may_repeat)


def path_of(group_version: str, plural: str, *, namespace: str = "", name: str = "", sub: str = "") -> str:
    """The address of a collection, an object or a part of one."""
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{place}/{plural}" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")
