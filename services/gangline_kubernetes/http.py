"""The API server over HTTP: one pool of connections, tokens read anew, and streams that are never silently dead."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

import aiohttp
from yarl import URL

from gangline_kit.clock import Clock
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kubernetes.api import Answer, refusal
from gangline_kubernetes.credentials import Credentials, CredentialsError

CONNECTIONS_MAX = 100
CONNECT_S = 5.0
LINE_BYTES_MAX = 64 << 20
TOKEN_S = 60.0
"""A token is used this long before it is read again."""
AGENT = "gangline"


class HttpTransport:
    """See gangline_kubernetes.api.Transport."""

    def __init__(self, credentials: Credentials, clock: Clock) -> None:
        """Connects when the block is entered."""
        self._credentials = credentials
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._token = ""
        self._token_s = -TOKEN_S

    async def __aenter__(self) -> "HttpTransport":
        """Open the pool of connections."""
        tls = self._credentials.tls()
        connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=tls if tls is not None else True)
        self._session = aiohttp.ClientSession(
            connector=connector, headers={"User-Agent": AGENT, "Accept": "application/json"}
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def send(self, method: str, path: str, query: str, body: bytes, form: str, timeout_s: float) -> Answer:
        """See Transport."""
        assert self._session is not None, "used outside its block"
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        headers = await self._headers(form if body else "")
        try:
            async with self._session.request(
                method,
                self._url(path, query),
                data=body or None,
                headers=headers,
                timeout=timeout,
                server_hostname=self._credentials.server_name or None,
            ) as answer:
                data = await answer.read()
                if answer.status == 401:
                    self._token_s = -TOKEN_S
                kept = {"Retry-After": answer.headers["Retry-After"]} if "Retry-After" in answer.headers else {}
                return Answer(status=answer.status, body=data, headers=kept)
        except aiohttp.ClientConnectorError as error:
            raise TemporaryError(f"the API server cannot be reached: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OutcomeUnknownError(f"{method} {path}: no answer ({error!r})") from error

    async def stream(self, path: str, query: str, idle_s: float) -> AsyncIterator[bytes]:
        """See Transport."""
        assert self._session is not None, "used outside its block"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=idle_s)
        try:
            async with self._session.get(
                self._url(path, query),
                headers=await self._headers(""),
                timeout=timeout,
                server_hostname=self._credentials.server_name or None,
            ) as answer:
                if answer.status != 200:
                    self._token_s = -TOKEN_S
                    raise refusal(Answer(status=answer.status, body=await answer.read()))
                async for line in _lines(answer.content):
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TemporaryError(f"the watch of {path} broke: {error!r}") from error

    def _url(self, path: str, query: str) -> URL:
        return URL(f"{self._credentials.server}{path}" + (f"?{query}" if query else ""), encoded=True)

    async def _headers(self, form: str) -> dict[str, str]:
        now_s = self._clock.monotonic_s()
        if now_s - self._token_s >= TOKEN_S:
            try:
                self._token = await asyncio.to_thread(self._credentials.authorization)
            except CredentialsError as error:
                raise TemporaryError(str(error)) from error
            self._token_s = now_s
        headers = {"Authorization": self._token} if self._token else {}
        return {**headers, "Content-Type": form} if form else headers


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines, however long."""
    rest = b""
    async for part in content.iter_any():
        *whole, rest = (rest + part).split(b"\n") if rest else part.split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise TemporaryError("a line of a watch has no end")
        for line in whole:
            if line:
                yield line
