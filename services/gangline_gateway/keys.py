"""The public keys of an identity provider: fetched once, kept, and looked at again when that may help."""

import asyncio
import json
import logging
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import jwt

from gangline_gateway.config import Config
from gangline_kit.clock import Clock
from gangline_kit.errors import PermanentError
from gangline_kit.tasks import Tasks

log = logging.getLogger(__name__)

FETCH_S_MAX = 5.0
BYTES_MAX = 512 << 10
KEYS_MAX = 64
AGAIN_S = 10.0
"""Keys are not fetched more often than this, whatever tokens claim to be signed with."""
STALE_S_MAX = 86_400.0
"""Keys of a provider that cannot be reached serve so long; then nobody is let in by them."""
DISCOVERY = "/.well-known/openid-configuration"


class KeysError(Exception):
    """The keys cannot be had now."""


class Keys:
    """What a provider signs with, by key id."""

    def __init__(self, *, issuer: str, url: str, refresh_s: float, clock: Clock, tasks: Tasks) -> None:
        """Nothing is fetched yet; without a `url` the provider's discovery document names it."""
        self._issuer = issuer
        self._url = url
        self._refresh_s = refresh_s
        self._clock = clock
        self._tasks = tasks
        self._listed: list[Any] = []
        self._keys: dict[str, jwt.PyJWK] = {}
        self._tried_s = self._fetched_s = -STALE_S_MAX
        self._fetching = asyncio.Lock()
        self.generation = 0
        """Grows whenever the keys are other ones than before."""

    @classmethod
    def of(cls, config: Config, clock: Clock, tasks: Tasks) -> "Keys":
        """The keys of these settings.

        Raises:
            PermanentError: an address that keys must not come from, or no audience.
        """
        if not config.oidc_audience:
            raise PermanentError("GANGLINE_GATEWAY_OIDC_AUDIENCE is needed: tokens for others must open nothing here")
        for address in (config.oidc_issuer, config.oidc_jwks_url):
            if address and not _is_safe(address):
                raise PermanentError(f"keys must come over https, not from {address}")
        return cls(
            issuer=config.oidc_issuer,
            url=config.oidc_jwks_url,
            refresh_s=config.oidc_refresh_s,
            clock=clock,
            tasks=tasks,
        )

    def look_again(self) -> None:
        """Fetch in the background what has become old."""
        now_s = self._clock.monotonic_s()
        if self._keys and now_s - self._fetched_s > STALE_S_MAX:
            self._replace([])
        if self._keys and now_s - self._fetched_s > self._refresh_s and now_s - self._tried_s > AGAIN_S:
            self._tasks.spawn(self._refresh(), name="keys of the identity provider")

    async def find(self, kid: str) -> jwt.PyJWK | None:
        """The key of this id, or the only one there is when a token names none.

        Raises:
            KeysError: there are no keys, and none can be had.
        """
        found = self._look(kid)
        if found is None:
            await self._refresh()
            found = self._look(kid)
            if not self._keys:
                raise KeysError("its keys cannot be had now")
        return found

    def _look(self, kid: str) -> jwt.PyJWK | None:
        if not kid and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _refresh(self) -> None:
        """Fetch, unless somebody just did."""
        async with self._fetching:
            if self._clock.monotonic_s() - self._tried_s <= AGAIN_S:
                return
            self._tried_s = self._clock.monotonic_s()
            try:
                found = await self._fetch()
            except (aiohttp.ClientError, TimeoutError, KeysError, OSError) as error:
                log.warning("the keys of %s: %s", self._issuer, str(error) or type(error).__name__)
                return
            self._fetched_s = self._clock.monotonic_s()
            if found != self._listed:
                self._replace(found)

    def _replace(self, listed: list[Any]) -> None:
        self._listed = listed
        self._keys = dict(readable(listed))
        self.generation += 1

    async def _fetch(self) -> list[Any]:
        timeout = aiohttp.ClientTimeout(total=FETCH_S_MAX)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            url = self._url or await self._discover(session)
            document = await _get(session, url)
        listed = document.get("keys")
        if not isinstance(listed, list) or len(listed) > KEYS_MAX:
            raise KeysError(f"{url} holds no list of keys")
        return listed

    async def _discover(self, session: aiohttp.ClientSession) -> str:
        document = await _get(session, self._issuer.rstrip("/") + DISCOVERY)
        if document.get("issuer") != self._issuer:
            raise KeysError(f"it calls itself {str(document.get('issuer'))[:200]}")
        url = document.get("jwks_uri")
        if not isinstance(url, str) or not _is_safe(url):
            raise KeysError("its keys would not come over https")
        return url


def readable(listed: list[Any]) -> list[tuple[str, jwt.PyJWK]]:
    """Keys for signatures that we understand; others are none of our business."""
    found: list[tuple[str, jwt.PyJWK]] = []
    for each in listed:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") == "oct":
            continue
        try:
            key = jwt.PyJWK.from_dict(each)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        found.append((str(each.get("kid", "")), key))
    return found


async def _get(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """The JSON object at an address; redirects are not followed, since they could lead anywhere."""
    async with session.get(url, allow_redirects=False) as answer:
        if answer.status != 200:
            raise KeysError(f"{url} answers {answer.status}")
        body = await answer.content.read(BYTES_MAX + 1)
        while len(body) <= BYTES_MAX and not answer.content.at_eof():
            body += await answer.content.read(BYTES_MAX + 1 - len(body))
    if len(body) > BYTES_MAX:
        raise KeysError(f"{url} is too large")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise KeysError(f"{url} is no JSON") from None
    if not isinstance(found, dict):
        raise KeysError(f"{url} is no JSON object")
    return found


def _is_safe(url: str) -> bool:
    """True for https, and for plain http on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    try:
        return parts.scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False
