"""Whatever the OpenAPI document allows may be sent, and nothing of it ends in an error of ours.

schemathesis draws calls from the document that the gateway serves, good ones and bad ones, for every operation.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from tests.make import node
from tests.services.gateway.conftest import Visitor
from tests.services.gateway.fakes import Setting

CALLS = 4
"""Calls per operation and caller."""
STREAM_S = 0.2


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    setting = Setting(node("n1"), node("n2"))
    async with TestClient(TestServer(setting.app)) as client:
        yield Visitor(setting, client)


def sent(operation: Any, mode: GenerationMode) -> list[Any]:
    """Calls of one operation, drawn from the document, the same ones every time."""
    cases: list[Any] = []

    @settings(
        max_examples=CALLS,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def draw(case: Any) -> None:
        cases.append(case)

    with suppress(Unsatisfiable):
        # Where nothing can be wrong, nothing wrong can be drawn.
        draw()
    return cases


async def call(visitor: Visitor, who: str, case: Any) -> int:
    """The status of one call; streams are hung up on."""
    kwargs = case.as_transport_kwargs(base_url=str(visitor.client.make_url("/")).rstrip("/"))
    headers = {
        name: value
        for name, value in {**(kwargs.get("headers") or {}), **visitor.setting.headers(who)}.items()
        if value.isascii() and value.isprintable()
    }
    more = {key: kwargs[key] for key in ("json", "data") if kwargs.get(key) is not None}
    params = {name: str(value) for name, value in (kwargs.get("params") or {}).items()}
    path = case.formatted_path
    try:
        async with asyncio.timeout(STREAM_S if path.endswith(("/events", "/logs")) else 10):
            response = await visitor.client.request(case.method, path, headers=headers, params=params, **more)
            await response.read()
    except TimeoutError:
        return 200
    return response.status


@pytest.mark.timeout(900)
async def test_no_call_that_the_document_allows_or_forbids_ends_in_an_error_of_ours(visitor: Visitor) -> None:
    served = await visitor.ask("", "GET", "/openapi.json")
    schema = schemathesis.openapi.from_dict(served)
    await visitor.submit()
    answered: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        operation = found.ok()
        for who, mode in (("admin", GenerationMode.POSITIVE), ("una", GenerationMode.NEGATIVE)):
            for case in await asyncio.to_thread(sent, operation, mode):
                status = await call(visitor, who, case)
                answered.setdefault(operation.label, set()).add(status)
                assert status < 500, (operation.label, who, case.path_parameters, case.query, case.body, status)
    assert len(answered) == sum(len(methods) for methods in served["paths"].values())
    assert any(status < 300 for statuses in answered.values() for status in statuses)
    assert any(status >= 400 for statuses in answered.values() for status in statuses)
    assert await call_health(visitor) == 200, "and it still answers"


async def call_health(visitor: Visitor) -> int:
    return (await visitor.client.get("/livez")).status
