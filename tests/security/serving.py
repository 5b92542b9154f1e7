"""A gateway with nothing behind it on a free port, for those who speak to it line by line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.make import node
from tests.services.gateway.fakes import Setting

from gangline_gateway.app import run
from gangline_gateway.config import Config


@asynccontextmanager
async def served(config: Config | None = None, setting: Setting | None = None) -> AsyncIterator[tuple[str, int]]:
    """Host and port of a gateway that ends with the block."""
    setting = setting or Setting(node("n1"))
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(run(setting.site, config or Config(port=0), ready=ready.set_result))
    try:
        where = urlsplit(await ready)
        assert where.hostname
        assert where.port
        yield where.hostname, where.port
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
