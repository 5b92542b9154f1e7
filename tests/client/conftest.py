"""One fake platform per test that asks for it."""

from collections.abc import AsyncIterator

import pytest
from tests.client.fake_platform import FakePlatform, running


@pytest.fixture
async def platform() -> AsyncIterator[FakePlatform]:
    async with running() as served:
        yield served
