"""Who may see and do what: the same rule for every verb, and nothing to learn from a refusal (cases S01, S02)."""

import re
from typing import Any

import pytest
from tests.make import T0, spec
from tests.services.gateway.conftest import Visitor

from gangline_gateway.routes import ROUTES
from gangline_kit.errors import TemporaryError

JOB_VERBS = [
    ("GET", ""),
    ("DELETE", ""),
    ("POST", "/cancel"),
    ("POST", "/hold"),
    ("POST", "/release"),
    ("POST", "/suspend"),
    ("POST", "/resume"),
    ("PATCH", ""),
    ("POST", "/top"),
    ("POST", "/resize"),
    ("POST", "/rerun"),
    ("GET", "/explain"),
    ("GET", "/history"),
    ("GET", "/logs"),
]


def blind(text: str) -> str:
    """An answer without what only echoes the question."""
    return re.sub(r'"(instance|request_id)":"[^"]*"', "", text)


@pytest.mark.parametrize(("method", "verb"), JOB_VERBS)
@pytest.mark.parametrize("who", ["tom", "vic", "head2", "nobody"])
async def test_a_foreign_job_answers_like_one_that_does_not_exist(
    visitor: Visitor, who: str, method: str, verb: str
) -> None:
    foreign = visitor.setting.world.submit(spec(group="t1", user="una"))
    before = visitor.setting.world.state.kept.seq
    answers = []
    for job in (foreign, 4711, f"{foreign}_0", "abc", 0, -1, "1 ", "٣", 10**30):
        response = await visitor.call(who, method, f"/v1/jobs/{job}{verb}")
        answers.append((response.status, blind(await response.text())))
    assert answers[0][0] == 404
    assert len(set(answers)) == 1
    assert visitor.setting.world.state.kept.seq == before


@pytest.mark.parametrize("who", ["una", "hana", "admin"])
async def test_owner_head_and_administrator_may_steer_a_job(visitor: Visitor, who: str) -> None:
    job = visitor.setting.world.submit(spec(group="t1", user="una"))
    await visitor.ask(who, "GET", f"/v1/jobs/{job}")
    await visitor.ask(who, "POST", f"/v1/jobs/{job}/hold", status=202)
    assert visitor.setting.world.job(job).state == "held"
    await visitor.ask(who, "POST", f"/v1/jobs/{job}/release", status=202)
    await visitor.ask(who, "POST", f"/v1/jobs/{job}/cancel", status=202, json={"why": "wrong data"})
    assert visitor.setting.world.job(job).state == "cancelled"


async def test_a_running_job_is_paused_where_it_is_or_stopped_and_goes_on(visitor: Visitor) -> None:
    world = visitor.setting.world
    job = world.submit_running(spec(group="t1", user="una", gpus=0), "n1")
    await visitor.ask("una", "POST", f"/v1/jobs/{job}/suspend", status=202)
    assert world.job(job).state == "paused"
    before = world.state.kept.seq
    await visitor.ask("una", "POST", f"/v1/jobs/{job}/suspend", status=202)
    assert world.state.kept.seq == before, "a repeat changes nothing"
    await visitor.ask("una", "POST", f"/v1/jobs/{job}/resume", status=202, json={"urgent": True})
    assert world.job(job).pause.urgent
    await visitor.ask("una", "POST", f"/v1/jobs/{job}/suspend", status=202, json={"stop": True})
    assert world.job(job).state == "stopping"
    for body in ({"stop": 1}, {"halt": True}, []):
        await visitor.ask("una", "POST", f"/v1/jobs/{job}/suspend", status=422, json=body)


async def test_a_repeated_cancel_is_no_error(visitor: Visitor) -> None:
    job = visitor.setting.world.submit(spec(group="t1", user="una"))
    await visitor.ask("una", "DELETE", f"/v1/jobs/{job}", status=202)
    await visitor.ask("una", "DELETE", f"/v1/jobs/{job}", status=202)


async def test_a_job_that_ended_cannot_be_cancelled(visitor: Visitor) -> None:
    world = visitor.setting.world
    job = world.submit_running(spec(group="t1", user="una"), "n1")
    world.finish(job)
    assert (await visitor.ask("una", "DELETE", f"/v1/jobs/{job}", status=409))["code"] == "conflict"


async def test_a_reader_sees_everything_and_changes_nothing(visitor: Visitor) -> None:
    job = visitor.setting.world.submit(spec(group="t1", user="una"))
    before = visitor.setting.world.state.kept.seq
    await visitor.ask("reader", "GET", f"/v1/jobs/{job}")
    for verb in ("cancel", "hold", "release", "suspend", "resume"):
        await visitor.ask("reader", "POST", f"/v1/jobs/{job}/{verb}", status=403)
    await visitor.ask("reader", "POST", "/v1/jobs", status=403, json={"command": ["true"], "group": "t1"})
    await visitor.ask("reader", "PUT", "/v1/groups/t1", status=403, json={"path": "t1"})
    await visitor.ask("reader", "POST", "/v1/nodes/n1/drain", status=403)
    await visitor.ask(
        "reader", "POST", "/v1/tokens", status=403, json={"name": "x", "role": "user", "user": "x", "groups": ["t1"]}
    )
    assert visitor.setting.world.state.kept.seq == before


async def test_a_token_for_other_groups_does_not_open_the_users_own_jobs_there(visitor: Visitor) -> None:
    job = visitor.setting.world.submit(spec(group="t2", user="una"))
    await visitor.ask("una", "GET", f"/v1/jobs/{job}", status=404)


async def test_lists_hold_only_what_the_caller_may_see(visitor: Visitor) -> None:
    for group, user in (("t1", "una"), ("t1", "vic"), ("t1/a", "una"), ("t2", "tom")):
        visitor.setting.world.submit(spec(group=group, user=user))

    async def seen(who: str, query: str = "") -> list[int]:
        return [job["id"] for job in (await visitor.ask(who, "GET", f"/v1/jobs{query}"))["jobs"]]

    assert await seen("una") == [1]
    assert await seen("hana") == [1, 2, 3]
    assert await seen("tom") == [4]
    assert await seen("admin") == await seen("reader") == [1, 2, 3, 4]
    assert await seen("nobody") == []
    assert await seen("tom", "?user=una") == []
    assert await seen("tom", "?group=t1") == []
    assert await seen("hana", "?group=t1/a") == [3]


async def test_the_root_group_belongs_to_administrators_only(visitor: Visitor) -> None:
    """Case S02: a thing without an owner is not everybody's."""
    for path in ("/v1/groups/~", "/v1/groups/"):
        for who in ("una", "hana", "head2", "nobody"):
            await visitor.ask(who, "PUT", path, status=403 if who != "nobody" else 404, json={"path": "", "weight": 2})
        await visitor.ask("admin", "GET", path)
    await visitor.ask("admin", "PUT", "/v1/groups/~", json={"path": "", "weight": 2})
    assert visitor.setting.world.state.kept.groups[""].weight == 2


# --- tokens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        "Bearer unknown",
        "bearer " + "x" * 600,
        "gl_una-user-0",
        "Bearer \u00e4",
    ],
)
async def test_without_a_valid_token_nothing_is_answered(visitor: Visitor, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = await visitor.client.get("/v1/jobs", headers=headers)
    assert response.status == 401
    assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert (await response.json(content_type=None))["code"] == "unauthorized"


async def test_an_expired_or_revoked_token_opens_nothing(visitor: Visitor) -> None:
    setting = visitor.setting
    setting.tokens["old"] = setting.issue("admin", user="old", expires_ms=T0 - 1)
    assert "expired" in (await visitor.ask("old", "GET", "/v1/whoami", status=401))["detail"]
    tokens = (await visitor.ask("admin", "GET", "/v1/tokens"))["tokens"]
    digest = next(token["digest"] for token in tokens if token["user"] == "una")
    await visitor.ask("admin", "DELETE", f"/v1/tokens/{digest}")
    assert "revoked" in (await visitor.ask("una", "GET", "/v1/whoami", status=401))["detail"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_but_the_open_ones_needs_a_token(visitor: Visitor, route: Any) -> None:
    path = re.sub(r"\{\w+\}", "1", route.path)
    response = await visitor.client.request(route.method, path)
    assert (response.status == 401) == (not route.is_open)


async def test_whoami_tells_what_the_token_says(visitor: Visitor) -> None:
    view = await visitor.ask("una", "GET", "/v1/whoami")
    assert view == {"user": "una", "role": "user", "name": "una's", "groups": ["t1"]}


async def test_a_new_token_is_shown_once_and_opens_the_door(visitor: Visitor) -> None:
    body = {"name": "laptop", "role": "user", "user": "una", "groups": ["t1"], "expires_in": "1d"}
    issued = await visitor.ask("admin", "POST", "/v1/tokens", status=201, json=body)
    visitor.setting.tokens["new"] = issued["token"]
    assert (await visitor.ask("new", "GET", "/v1/whoami"))["expires_ms"] == T0 + 86_400_000
    assert issued["token"] not in repr([message.raw for message in visitor.setting.world.log])
    await visitor.setting.clock.advance(86_400)
    await visitor.ask("new", "GET", "/v1/whoami", status=401)


async def test_a_head_issues_tokens_for_what_it_leads_and_no_more(visitor: Visitor) -> None:
    def body(**fields: Any) -> dict[str, Any]:
        return {"name": "x", "role": "user", "user": "una", "groups": ["t1"], **fields}

    await visitor.ask("hana", "POST", "/v1/tokens", status=201, json=body())
    await visitor.ask("hana", "POST", "/v1/tokens", status=201, json=body(groups=["t1/a"]))
    for beyond in (body(groups=["t2"]), body(role="admin"), body(role="head"), body(role="readonly", groups=[])):
        await visitor.ask("hana", "POST", "/v1/tokens", status=403, json=beyond)
    await visitor.ask("una", "POST", "/v1/tokens", status=403, json=body())


async def test_a_caller_sees_only_tokens_it_may_revoke(visitor: Visitor) -> None:
    async def seen(who: str) -> set[str]:
        return {token["user"] for token in (await visitor.ask(who, "GET", "/v1/tokens"))["tokens"]}

    assert await seen("una") == {"una"}
    assert await seen("hana") == {"una", "vic", "hana"}
    assert "root" in await seen("admin")
    tokens = (await visitor.ask("admin", "GET", "/v1/tokens"))["tokens"]
    root = next(token["digest"] for token in tokens if token["user"] == "root")
    await visitor.ask("hana", "DELETE", f"/v1/tokens/{root}", status=404)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"role": "user", "user": "x", "groups": ["t1"]}, "name"),
        ({"name": "x", "user": "x"}, "role"),
        ({"name": "x", "role": "king", "user": "x"}, "role"),
        ({"name": "x", "role": "admin"}, "user"),
        ({"name": "x", "role": "user", "user": "x"}, "groups"),
        ({"name": "x", "role": "user", "user": "x", "groups": ["t9"]}, "groups[0]"),
        ({"name": "x", "role": "user", "user": "a b", "groups": ["t1"]}, "user"),
        ({"name": "x", "role": "admin", "user": "x", "expires_in": "-5"}, "expires_in"),
        ({"name": "x", "role": "admin", "user": "x", "expires_ms": 5}, "expires_ms"),
        ({"name": "x", "role": "admin", "user": "x", "colour": "blue"}, "colour"),
    ],
)
async def test_a_wrong_token_is_refused_with_the_field(visitor: Visitor, body: dict[str, Any], path: str) -> None:
    problem = await visitor.ask("admin", "POST", "/v1/tokens", status=422, json=body)
    assert problem["errors"][0]["path"] == path


# --- hosts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example.org", "127.0.0.1.evil.org", "", "a@127.0.0.1", "127.0.0.1/x"])
async def test_another_host_name_is_not_served(visitor: Visitor, host: str) -> None:
    response = await visitor.call("admin", "GET", "/v1/whoami", headers={"Host": host})
    assert response.status in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:1", "[::1]:8470"])
async def test_loopback_names_are_served(visitor: Visitor, host: str) -> None:
    await visitor.ask("admin", "GET", "/v1/whoami", headers={"Host": host})


async def test_pages_of_other_origins_may_not_call(visitor: Visitor) -> None:
    await visitor.ask("admin", "GET", "/v1/whoami", status=403, headers={"Origin": "https://evil.example.org"})
    for origin in ("null", "x", "http://[", "http://]:1"):
        await visitor.ask("admin", "GET", "/v1/whoami", status=403, headers={"Origin": origin})
    own = f"http://127.0.0.1:{visitor.client.port}"
    await visitor.ask("admin", "GET", "/v1/whoami", headers={"Origin": own})


async def test_a_gateway_that_still_reads_the_log_says_so(visitor: Visitor) -> None:
    visitor.setting.follower.caught_up = False
    response = await visitor.call("admin", "GET", "/v1/jobs")
    assert response.status == 503
    assert (await visitor.client.get("/readyz")).status == 503
    assert (await visitor.client.get("/livez")).status == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/version", "/openapi.json", "/console/", "/"])
async def test_probes_that_ask_for_the_head_alone_hear_what_whoever_reads_hears(visitor: Visitor, path: str) -> None:
    whole = await visitor.client.get(path, allow_redirects=False)
    head = await visitor.client.head(path, allow_redirects=False)
    assert (head.status, head.headers["Content-Type"]) == (whole.status, whole.headers["Content-Type"])
    assert await head.read() == b""


async def test_the_recorder_being_away_is_no_defect(visitor: Visitor) -> None:
    job = visitor.setting.world.submit(spec(group="t1", user="una"))
    visitor.setting.bus.failing = [TemporaryError("nobody listens")]
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{job}/history", status=503))["code"] == "unavailable"
