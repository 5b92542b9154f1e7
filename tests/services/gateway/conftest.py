"""A gateway on fakes, served by a real aiohttp server on a free port."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer
from tests.make import node
from tests.services.gateway.fakes import Setting


class Visitor:
    """Somebody who calls the gateway."""

    def __init__(self, setting: Setting, client: TestClient[Any, Any]) -> None:
        self.setting = setting
        self.client = client

    async def call(self, who: str, method: str, path: str, **more: Any) -> ClientResponse:
        """One call with this caller's token; "" comes without any."""
        headers = {**(self.setting.headers(who) if who else {}), **more.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **more)

    async def ask(self, who: str, method: str, path: str, *, status: int = 200, **more: Any) -> Any:
        """The JSON of the answer, which must have this status."""
        response = await self.call(who, method, path, **more)
        body = await response.json(content_type=None)
        assert response.status == status, (response.status, body)
        return body

    async def submit(self, who: str = "una", *, status: int = 202, **fields: Any) -> Any:
        """Submit a small job."""
        document = {"command": ["true"], **fields}
        return await self.ask(who, "POST", "/v1/jobs", status=status, json=document)


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    setting = Setting(node("n1"), node("n2"))
    async with TestClient(TestServer(setting.app)) as client:
        yield Visitor(setting, client)
