"""The API server over HTTP: kubernetes-asyncio's client carries the requests, streams are never silently dead."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

import aiohttp
from kubernetes_asyncio.client import ApiClient

from gangline_kit.clock import Clock
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kubernetes.api import JSON, Answer, refusal
from gangline_kubernetes.credentials import BEARER, Credentials, CredentialsError

CONNECTIONS_MAX = 100
CONNECT_S = 5.0
LINE_BYTES_MAX = 64 << 20
TOKEN_S = 60.0
"""Credentials are used this long before they are read again."""
AGENT = "gangline"
"""The server names the manager of our fields after it."""


class HttpTransport:
    """See gangline_kubernetes.api.Transport."""

    def __init__(self, credentials: Credentials, clock: Clock) -> None:
        """Connects when the block is entered."""
        self._credentials = credentials
        self._clock = clock
        self._client: ApiClient | None = None
        self._renewed_s = clock.monotonic_s()
        self._is_refused = False
        self._renewing = asyncio.Lock()

    async def __aenter__(self) -> "HttpTransport":
        """Open the pool of connections."""
        self._credentials.configuration.connection_pool_maxsize = CONNECTIONS_MAX
        self._client = ApiClient(self._credentials.configuration)
        self._client.user_agent = AGENT
        await _without_netrc(self._client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.close()

    async def send(self, method: str, path: str, query: str, body: Any, form: str, timeout_s: float) -> Answer:
        """See Transport."""
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        try:
            async with await self._call(method, path, query, within=timeout, body=body, form=form) as answer:
                data = await answer.read()
        except aiohttp.ClientConnectorError as error:
            raise TemporaryError(f"the API server cannot be reached: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OutcomeUnknownError(f"{method} {path}: no answer ({error!r})") from error
        self._is_refused |= answer.status == 401
        kept = {"Retry-After": answer.headers["Retry-After"]} if "Retry-After" in answer.headers else {}
        return Answer(status=answer.status, body=data, headers=kept)

    async def stream(self, path: str, query: str, idle_s: float) -> AsyncIterator[bytes]:
        """See Transport."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=idle_s)
        try:
            async with await self._call("GET", path, query, within=timeout) as answer:
                if answer.status != 200:
                    self._is_refused |= answer.status == 401
                    raise refusal(Answer(status=answer.status, body=await answer.read()))
                async for line in _lines(answer.content):
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TemporaryError(f"the watch of {path} broke: {error!r}") from error

    async def _call(
        self, method: str, path: str, query: str, *, within: aiohttp.ClientTimeout, body: Any = None, form: str = ""
    ) -> aiohttp.ClientResponse:
        """Ask, and give the answer while it is still coming."""
        assert self._client is not None, "used outside its block"
        await self._renew()
        answer: aiohttp.ClientResponse = await self._client.call_api(
            f"{path}?{query}" if query else path,
            method,
            header_params={"Accept": JSON, "Content-Type": form or JSON},
            body=body,
            auth_settings=[BEARER],
            _preload_content=False,
            _request_timeout=within,
        )
        return answer

    async def _renew(self) -> None:
        """Read the credentials again when they are old, or were refused."""
        async with self._renewing:
            if not self._is_refused and self._clock.monotonic_s() - self._renewed_s < TOKEN_S:
                return
            try:
                await self._credentials.renew(refused=self._is_refused)
            except CredentialsError as error:
                raise TemporaryError(str(error)) from error
            self._is_refused, self._renewed_s = False, self._clock.monotonic_s()


async def _without_netrc(client: ApiClient) -> None:
    """Have the client use a session that looks nowhere else for credentials.

    Its own asks a thread for a netrc file at every request, which takes longer than the request itself; proxies are
    in its configuration already.
    """
    rest = client.rest_client
    own, rest.pool_manager = rest.pool_manager, aiohttp.ClientSession(connector=rest.pool_manager.connector)
    own.detach()


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
