"""Planted secrets: wherever a user or a client may put one, no log line and no fact ever carries it."""

import logging
from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.make import node
from tests.services.gateway.conftest import Visitor
from tests.services.gateway.fakes import Setting

from gangline_wire import codec

PLANTED = "pl4nted-s3cret-"


def planted(number: int) -> str:
    """A secret that is found again wherever it turns up."""
    return f"{PLANTED}{number}"


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    setting = Setting(node("n1"))
    async with TestClient(TestServer(setting.app)) as client:
        yield Visitor(setting, client)


async def test_no_log_line_and_no_fact_carries_a_planted_secret(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fields = {
        "env": {"API_TOKEN": planted(1), "DB_PASSWORD": planted(2), "PLAIN": "shown"},
        "secrets": {"WANDB_API_KEY": planted(3)},
        "command": ["train", "--token", planted(4), f"--password={planted(5)}"],
    }
    job = (await visitor.submit(**fields))["id"]
    assert set(visitor.setting.bus.secrets[job].values()) >= {planted(1), planted(2), planted(3)}, "the job gets them"
    await visitor.submit(status=422, **{**fields, "gpus": -1})
    for header in (f"Bearer {planted(6)}", f"Bearer {planted(6)}.{planted(6)}.x", f"Basic {planted(7)}", planted(8)):
        answer = await visitor.client.get("/v1/whoami", headers={"Authorization": header})
        assert answer.status == 401
        assert PLANTED not in await answer.text()
    for body in (f'{{"env": {{"API_TOKEN": "{planted(9)}"', f'["{planted(9)}"]'):
        headers = {"Content-Type": "application/json"}
        broken = await visitor.call("una", "POST", "/v1/jobs", data=body.encode(), headers=headers)
        assert broken.status in (400, 422)
    for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/explain", "/v1/jobs", "/v1/queue"):
        assert PLANTED not in await (await visitor.call("una", "GET", path)).text(), path
    token = await visitor.ask("admin", "POST", "/v1/tokens", status=201, json=TOKEN)
    written = [codec.encode(fact).decode() for message in visitor.setting.world.log for fact in message.facts]
    written += [record.getMessage() for record in caplog.records]
    assert any("shown" in each for each in written), "what is no secret is there"
    assert [each for each in written if PLANTED in each or token["token"] in each] == []


TOKEN = {"name": "ci", "role": "user", "user": "una", "groups": ["t1"]}
