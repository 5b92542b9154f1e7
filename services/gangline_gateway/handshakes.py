"""How long whoever connects to a gateway with a certificate may take until the connection is encrypted."""

import asyncio

from aiohttp import web

HANDSHAKE_S_MAX = 10.0
"""From the connection to the end of its handshake; a link to the other end of the world needs one or two."""


class EncryptedSite(web.TCPSite):
    """Listens like any other, with that limit: the HTTP library has no setting for it, and loops wait for a minute."""

    __slots__ = ()

    async def start(self) -> None:
        """Listen."""
        await web.BaseSite.start(self)
        assert self._runner.server is not None
        self._server = await asyncio.get_running_loop().create_server(
            self._runner.server,
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=self._backlog,
            ssl_handshake_timeout=HANDSHAKE_S_MAX,
        )
