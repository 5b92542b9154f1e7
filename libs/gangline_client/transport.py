"""How one HTTP call is made: with the token, a timeout, and again when that is safe and may help."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

from gangline_client.doors import Sleep
from gangline_client.errors import ProblemError, SettingsError, UnreachableError
from gangline_client.retry import RETRYABLE_STATUSES, Retry, retry_after
from gangline_client.unreadable import UNREADABLE
from gangline_client.utf8 import checked
from gangline_wire.views import ProblemView

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 60.0
SILENCE_S_MAX = 60.0
"""A stream with heartbeats that says nothing for this long is taken for dead."""
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds and tries after which a peer that is gone without a word is noticed, by socket option."""
PROBLEM_DETAIL_CHARACTERS_MAX = 500


@dataclass(frozen=True)
class Call:
    """One call: what is asked, and whether asking twice does no harm."""

    method: str
    path: str
    """Already encoded, beginning with a slash."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    """False for calls whose repetition would do the thing twice."""


@dataclass(frozen=True)
class Answer:
    """A good answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def view(self, kind: type[T]) -> T:
        """The body as a view.

        Raises:
            ProblemError: the body is not what this version of the client understands.
        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except UNREADABLE as error:
            raise ProblemError(_problem(f"The answer cannot be read: {error}", status=self.status)) from error


class Transport:
    """The connection pool to one platform."""

    def __init__(self, url: str, token: str, *, retry: Retry, sleep: Sleep = asyncio.sleep) -> None:
        """Nothing is opened before the first call.

        Raises:
            SettingsError: `url` is no http or https address.
        """
        self.url = url.rstrip("/")
        self.retry = retry
        self.sleep = sleep
        self._base = _checked_url(self.url)
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the connections back."""
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # sockets are let go in the loop's next turn, which may be its last

    async def call(self, call: Call) -> Answer:
        """The good answer to the call, after as many tries as allowed.

        Raises:
            ProblemError: the platform refused.
            UnreachableError: nobody answered.
        """
        attempt = 1
        while True:
            try:
                return await self._once(call)
            except ProblemError as error:
                if attempt >= self.retry.attempts or not _worth_repeating(call, error.problem):
                    raise
                delay_s = self.retry.delay_s(attempt, retry_after_s=error.problem.retry_after_s)
            except (aiohttp.ClientError, TimeoutError) as error:
                if not (attempt < self.retry.attempts and (call.repeatable or _never_sent(error))):
                    raise UnreachableError(self.url, _cause(error)) from error
                delay_s = self.retry.delay_s(attempt)
            await self.sleep(delay_s)
            attempt += 1

    @asynccontextmanager
    async def stream(self, call: Call, *, has_heartbeat: bool) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of a long answer, tried once; the caller resumes where it stopped.

        Without heartbeats it may be silent for hours: then only the network tells that the peer is gone.

        Raises:
            ProblemError: the platform refused.
            UnreachableError: nobody answered, or the connection broke on the way.
        """
        silence_s = SILENCE_S_MAX if has_heartbeat else None
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
        try:
            async with self._request(call, timeout=timeout) as response:
                if response.status >= 300:
                    raise ProblemError(_read_problem(response.status, response.headers, await response.read()))
                yield self._chunks(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnreachableError(self.url, _cause(error)) from error

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        async for chunk in response.content.iter_any():
            yield chunk

    async def _once(self, call: Call) -> Answer:
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
        async with self._request(call, timeout=timeout) as response:
            body = await response.read()
            if response.status >= 300:
                raise ProblemError(_read_problem(response.status, response.headers, body))
            return Answer(response.status, response.headers, body)

    def _request(self, call: Call, *, timeout: aiohttp.ClientTimeout) -> "aiohttp.client._RequestContextManager":
        if self._session is None:
            connector = aiohttp.TCPConnector(socket_factory=_watchful_socket)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        headers = {"Accept": "application/json, */*;q=0.5", **call.headers}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if call.body is not None:
            headers.setdefault("Content-Type", "application/json")
        address = URL(f"{self._base}{call.path}", encoded=True).with_query(checked(call.query) or None)
        return self._session.request(
            call.method, address, data=call.body, headers=headers, timeout=timeout, allow_redirects=False
        )


def _worth_repeating(call: Call, problem: ProblemView) -> bool:
    """True for "not now"; a job refused by a limit of its group is not tried again behind the user's back."""
    if problem.status not in RETRYABLE_STATUSES or problem.refusals:
        return False
    return call.repeatable or problem.status == 429


def _checked_url(url: str) -> URL:
    try:
        parsed = URL(url)
    except ValueError as error:
        raise SettingsError(f"{url!r} is no address: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise SettingsError(f"{url!r} is no address", next_step='Write it as "http://host:port" or "https://host".')
    return parsed.origin() if parsed.path in {"", "/"} else parsed


def _watchful_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket on which a peer that vanished without a word is noticed."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _never_sent(error: BaseException) -> bool:
    """True when the server cannot have seen the request."""
    return isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def _cause(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno).lower()
    return str(error) or type(error).__name__


def _read_problem(status: int, headers: Mapping[str, str], body: bytes) -> ProblemView:
    wait_s = retry_after(headers.get("Retry-After"))
    try:
        problem = msgspec.json.decode(body, type=ProblemView)
    except UNREADABLE:
        text = body.decode("utf-8", errors="replace").strip()[:PROBLEM_DETAIL_CHARACTERS_MAX]
        return _problem(text or f"HTTP {status}", status=status, retry_after_s=wait_s)
    if problem.retry_after_s is None and wait_s is not None:
        return msgspec.structs.replace(problem, retry_after_s=wait_s)
    return problem


def _problem(detail: str, *, status: int, retry_after_s: float | None = None) -> ProblemView:
    """A problem for an answer that is none, for instance of a proxy on the way."""
    return ProblemView(
        type="about:blank",
        title=f"HTTP {status}",
        status=status,
        code="unreadable_answer",
        detail=detail,
        retry_after_s=retry_after_s,
    )
