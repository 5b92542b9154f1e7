"""What one tenant can learn of or do to another, things without an owner, and secrets; after public reports."""

import json
import logging
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.make import node, spec
from tests.services.gateway.conftest import Visitor, visitor
from tests.services.gateway.fakes import Setting

from gangline_gateway.routes import ROUTES
from gangline_wire.codec import encode

__all__ = ["visitor"]  # a fixture of the gateway's tests

STRANGERS = ("tom", "vic", "head2", "nobody")
ANSWER_OWN = ("instance", "request_id", "requestId")


def blind(body: Any, number: int) -> str:
    """An answer without what only echoes the question."""
    kept = {name: value for name, value in body.items() if name not in ANSWER_OWN}
    return json.dumps(kept, sort_keys=True).replace(str(number), "N")


# --- foreign jobs (windmill-labs/windmill#10341) ------------------------------------------------------------------


@pytest.mark.parametrize("who", STRANGERS)
@pytest.mark.parametrize("ended", [False, True], ids=["waiting", "failed"])
async def test_a_job_that_follows_a_foreign_one_is_refused_as_if_there_were_none(
    visitor: Visitor, who: str, ended: bool
) -> None:
    world = visitor.setting.world
    world.submit(*(spec(group="t1", user="una") for _ in range(76)))
    foreign = world.submit_running(spec(group="t1", user="una"), "n1")
    if ended:
        world.finish(foreign, code=1)
    group = {"tom": "t2", "head2": "t2", "vic": "t1", "nobody": "t2"}[who]
    answers = []
    for number in (foreign, 4711):
        for change in ({}, {"pool": "nowhere"}, {"gpus": 5000}):
            document = {"command": ["true"], "group": group, "after": [number], **change}
            response = await visitor.call(who, "POST", "/v1/jobs", json=document)
            answers.append((response.status, blind(await response.json(), number)))
            many = await visitor.call(who, "POST", "/v1/jobs:batch?dry_run=true", json={"jobs": [document, document]})
            answers.append((many.status, blind(await many.json(), number)))
    assert all(status >= 400 for status, _ in answers)
    assert answers[: len(answers) // 2] == answers[len(answers) // 2 :]
    assert len(world.state.kept.jobs) == 77


async def test_ones_own_job_may_be_followed(visitor: Visitor) -> None:
    first = (await visitor.submit("una", group="t1"))["id"]
    await visitor.submit("una", group="t1", after=[first])
    # A head follows the jobs of those it leads, an administrator everybody's.
    await visitor.submit("hana", group="t1", after=[first])
    await visitor.submit("admin", group="t2", user="tom", after=[first])


@pytest.mark.parametrize("who", STRANGERS)
async def test_nothing_that_is_counted_or_streamed_tells_of_a_foreign_job(visitor: Visitor, who: str) -> None:
    foreign = visitor.setting.world.submit(spec("hush", group="t1", user="una", labels={"deal": "hush"}))
    for path in ("/v1/jobs", "/v1/jobs?name=hush", "/v1/jobs?label=deal=hush", "/v1/queue", "/v1/nodes", "/v1/cluster"):
        assert "hush" not in await (await visitor.call(who, "GET", path)).text(), path
    statuses = [(await visitor.call(who, "GET", f"/v1/events?job={job}")).status for job in (foreign, 4711)]
    assert statuses == [404, 404]


# --- things without an owner (open-mercato/open-mercato#2279) -----------------------------------------------------

OWNERLESS = [
    ("PUT", "/v1/groups/~", {"path": ""}),
    ("PUT", "/v1/groups/", {"path": ""}),
    ("PUT", "/v1/groups/new", {"path": "new"}),
    ("PUT", "/v1/groups/~/users/tom", {"name": "tom", "group": ""}),
    ("PUT", "/v1/policies/default", {"ordering": "fifo"}),
    ("PUT", "/v1/pools/default", {"name": "default"}),
    ("PUT", "/v1/pools/mine", {"name": "mine"}),
    ("POST", "/v1/nodes/n1/drain", {}),
    ("POST", "/v1/nodes/n1/resume", {}),
    ("POST", "/v1/tokens", {"name": "x", "role": "admin", "user": "tom", "groups": []}),
    ("POST", "/v1/tokens", {"name": "x", "role": "user", "user": "tom", "groups": [""]}),
    ("POST", "/v1/tokens", {"name": "x", "role": "head", "user": "tom", "groups": []}),
    ("POST", "/v1/jobs", {"command": ["true"], "group": ""}),
    ("POST", "/v1/jobs", {"command": ["true"], "group": "~"}),
]


@pytest.mark.parametrize(("method", "path", "document"), OWNERLESS)
@pytest.mark.parametrize("who", ["nobody", "head2", "hana", "reader"])
async def test_what_belongs_to_nobody_is_changed_by_administrators_only(
    visitor: Visitor, who: str, method: str, path: str, document: dict[str, Any]
) -> None:
    before = visitor.setting.world.state.kept.seq
    response = await visitor.call(who, method, path, json=document)
    assert response.status in (403, 404, 422, 400), await response.text()
    assert visitor.setting.world.state.kept.seq == before


async def test_a_job_in_no_group_is_nobodys_but_the_administrators(visitor: Visitor) -> None:
    job = visitor.setting.world.submit(spec(group="", user=""))
    for who in (*STRANGERS, "una", "hana"):
        for method, verb in (("GET", ""), ("DELETE", ""), ("POST", "/hold"), ("GET", "/logs")):
            assert (await visitor.call(who, method, f"/v1/jobs/{job}{verb}")).status == 404
    await visitor.ask("admin", "GET", f"/v1/jobs/{job}")
    await visitor.ask("admin", "DELETE", f"/v1/jobs/{job}", status=202)


# --- secrets (marin-community/marin#3885) -------------------------------------------------------------------------

SECRET, BEARER = "s3cr3t-123", "abcdef-bearer-9"
LOUD: dict[str, Any] = {
    "name": "loud",
    "group": "t1",
    "command": ["run", "--header", f"Authorization: Bearer {BEARER}", "--mode", "LIVE"],
    "env": {"API_TOKEN": SECRET, "MODE": "LIVE", "PLACE": "DELIVERY"},
}


async def test_a_secret_is_in_no_answer_fact_log_or_metric(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    setting = Setting(node("n1"))
    async with TestClient(TestServer(setting.app)) as client:
        caller = Visitor(setting, client)
        job = (await caller.ask("una", "POST", "/v1/jobs", status=202, json=LOUD))["id"]
        texts = [encode(message.facts).decode() for message in setting.world.log]
        for who in ("una", "hana", "admin"):
            for path in ("/v1/jobs", f"/v1/jobs/{job}", f"/v1/jobs/{job}/explain", "/v1/queue"):
                response = await caller.call(who, "GET", path)
                texts += [await response.text()]
        texts.append(await (await caller.call("admin", "GET", "/metrics")).text())
        # What is refused, dry or repeated says no more than what is taken.
        for change in (
            {"gpus": 900},
            {"env": {"API_TOKEN": 5, "X_KEY": SECRET}},
            {"env": {"API_TOKEN": [SECRET]}},
            {"env": f"API_TOKEN={SECRET}"},
            {"secrets": ["NO_SUCH"]},
            {"command": f"run --password {SECRET}"},
            {"envv": {"API_TOKEN": SECRET}},
            {"env": {f"A={SECRET}": "x"}},
        ):
            for path in ("/v1/jobs", "/v1/jobs?dry_run=true"):
                response = await caller.call("una", "POST", path, json={**LOUD, "name": "other", **change})
                texts.append(await response.text())
        response = await caller.call(
            "una", "POST", "/v1/jobs", data=f'{{"env": {{"API_TOKEN": "{SECRET}"', headers=JSON
        )
        texts.append(await response.text())
        texts += [encode(message.facts).decode() for message in setting.world.log]
    texts.append(caplog.text)
    leaks = [text for text in texts if SECRET in text or BEARER in text]
    assert not leaks
    shown = next(text for text in texts if '"MODE"' in text)
    assert '"MODE":"LIVE"' in shown
    assert "DELIVERY" in shown
    assert setting.bus.secrets, "the value is kept where only agents read it"


JSON = {"Content-Type": "application/json"}


async def test_every_change_leaves_a_line_for_auditors_even_when_it_is_refused(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gangline.audit")
    foreign = visitor.setting.world.submit(spec(group="t1", user="una"))
    for route in ROUTES:
        if route.changes:
            path = route.template.replace("{id}", str(foreign)).replace("{path:.*}", "t1").replace("{user}", "una")
            path = path.replace("{pool}", "default").replace("{digest}", "0" * 64).replace("{name}", "bios")
            caplog.clear()
            response = await visitor.call("tom", route.method, path, json={})
            assert f"{route.method} {path} by tom (user): {response.status}" in caplog.text


async def test_nobody_writes_a_line_of_their_own_for_auditors(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    forged = "2026-11-28%2021:00:00,000%20INFO%20gangline.audit:%20POST%20%2Fv1%2Fx%20by%20root%20(admin):%20200"
    for gap in ("%0a", "%0d", "%1b%5b2J", "%c2%85", "%e2%80%a8", "\u2028"):
        caplog.clear()
        response = await visitor.call("tom", "POST", f"/v1/jobs/1{gap}{forged}/cancel", json={})
        assert response.status == 404, gap
        (line,) = [record.getMessage() for record in caplog.records if record.name == "gangline.audit"]
        assert len(line.splitlines()) == 1, gap
        assert line.isprintable(), gap
        assert line.isascii(), gap
        assert "by tom (user): 404" in line, gap
        assert "by root (admin): 200" not in line, gap
        assert len(line) < 400


async def test_a_refused_change_is_told_by_default(visitor: Visitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    foreign = (await visitor.submit("una"))["id"]
    response = await visitor.call("tom", "POST", f"/v1/jobs/{foreign}/cancel", json={})
    assert response.status == 404
    assert f"POST /v1/jobs/{foreign}/cancel by tom (user): 404" in caplog.text
