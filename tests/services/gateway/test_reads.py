"""What is read: lists that page without a gap, problems in one shape, machines, totals (case M07)."""

from typing import Any

import pytest
from tests.make import node, spec
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_gateway.problems import KINDS
from gangline_wire import requests as r


async def test_every_job_is_seen_exactly_once_while_others_come_and_end(visitor: Visitor) -> None:
    world = visitor.setting.world
    for k in range(300):
        world.submit(spec(group="t1", user="una", name=f"j{k}"))
    seen: list[int] = []
    cursor, pages = "", 0
    while True:
        page = await visitor.ask("una", "GET", f"/v1/jobs?limit=50&cursor={cursor}")
        seen += [job["id"] for job in page["jobs"]]
        cursor, pages = page.get("next", ""), pages + 1
        if not cursor:
            break
        for k in range(7):
            world.submit(spec(group="t1", user="una", name=f"new-{pages}-{k}"))
        for k in range(3):
            world.cancel(JobId(seen[k * 5]))
    assert seen[:300] == list(range(1, 301))
    assert len(seen) == len(set(seen))


async def test_newest_first_pages_as_well(visitor: Visitor) -> None:
    for k in range(25):
        visitor.setting.world.submit(spec(group="t1", user="una", name=f"j{k}"))
    first = await visitor.ask("una", "GET", "/v1/jobs?order=desc&limit=10")
    second = await visitor.ask("una", "GET", f"/v1/jobs?order=desc&limit=10&cursor={first['next']}")
    third = await visitor.ask("una", "GET", f"/v1/jobs?order=desc&limit=10&cursor={second['next']}")
    ids = [job["id"] for page in (first, second, third) for job in page["jobs"]]
    assert ids == list(range(25, 0, -1))
    assert "next" not in third


async def test_a_cursor_of_somebody_else_or_for_another_question_is_refused(visitor: Visitor) -> None:
    for k in range(5):
        visitor.setting.world.submit(spec(group="t1", user="una", name=f"j{k}"))
    cursor = (await visitor.ask("una", "GET", "/v1/jobs?limit=2"))["next"]
    await visitor.ask("una", "GET", f"/v1/jobs?limit=3&cursor={cursor}")
    bad = [
        ("vic", f"cursor={cursor}"),
        ("una", f"state=waiting&cursor={cursor}"),
        ("una", f"order=desc&cursor={cursor}"),
        ("una", "cursor=abc"),
        ("una", "cursor=-1"),
        ("una", f"cursor={cursor[:-1]}"),
        ("una", f"cursor={'A' * 600}"),
        ("una", "cursor=%C3%A4"),
    ]
    for who, query in bad:
        problem = await visitor.ask(who, "GET", f"/v1/jobs?{query}", status=400)
        assert problem["code"] == "invalid_cursor"


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=-1", "limit=1001", "limit=x", "limit=1.5", "limit=٣", "state=sleeping", "order=up", "limti=5",
     "limit=1&limit=2", "stat%00e=x"],
)  # fmt: skip
async def test_a_wrong_query_is_refused_not_ignored(visitor: Visitor, query: str) -> None:
    assert (await visitor.ask("una", "GET", f"/v1/jobs?{query}", status=400))["code"] == "invalid_query"


async def test_filters_hold_together(visitor: Visitor) -> None:
    world = visitor.setting.world
    one = world.submit(spec(group="t1", user="una", name="a", labels={"team": "x"}))
    two = world.submit(spec(group="t1", user="una", name="b", labels={"team": "y", "k": ""}))
    world.run(two, "n1")

    async def seen(query: str) -> list[int]:
        return [job["id"] for job in (await visitor.ask("una", "GET", f"/v1/jobs?{query}"))["jobs"]]

    assert await seen("state=waiting") == [one]
    assert await seen("state=running,waiting") == [one, two]
    assert await seen("state=unfinished&name=b") == [two]
    assert await seen("state=ended") == []
    assert await seen("label=team=x") == [one]
    assert await seen("label=team,k") == [two]
    assert await seen("pool=default&user=una") == [one, two]
    assert await seen("pool=moon") == []


async def test_one_job_shows_its_tasks_and_what_it_asked_for(visitor: Visitor) -> None:
    job = visitor.setting.world.submit_running(spec(group="t1", user="una", gpus=2, tasks=2), "n1")
    view = await visitor.ask("una", "GET", f"/v1/jobs/{job}")
    assert [task["id"] for task in view["tasks"]] == [f"{job}-1-worker-0", f"{job}-1-worker-1"]
    assert view["tasks"][0]["gpus"] == [0, 1]
    assert view["spec"]["roles"][0]["count"] == 2
    assert (view["state"], view["slurm"]) == ("running", "R")


async def test_a_jobs_history_comes_from_the_recorder(visitor: Visitor) -> None:
    job = visitor.setting.world.submit(spec(group="t1", user="una"))
    line = r.EventLine(id="7-0", at=1, event="Admitted", job=job, group="t1", user="una", name="job-1", message="In.")
    visitor.setting.bus.history = (line,)
    view = await visitor.ask("una", "GET", f"/v1/jobs/{job}/history")
    assert view["events"][0]["event"] == "Admitted"


# --- problems ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nowhere", "not_found"),
        ("GET", "/v1", "not_found"),
        ("GET", "/v1/jobs/1/nowhere", "not_found"),
        ("PUT", "/v1/jobs", "method_not_allowed"),
        ("PUT", "/v1/jobs/1", "method_not_allowed"),
        ("DELETE", "/v1/cluster", "method_not_allowed"),
        ("GET", "/v1/nodes/moon", "not_found"),
        ("GET", "/v1/groups/moon", "not_found"),
        ("GET", "/v1/groups/..%2Fmoon", "not_found"),
        ("GET", "/v1/groups/t1/users/moon", "not_found"),
        ("GET", "/v1/policies/moon", "not_found"),
        ("GET", "/v1/policies/a.b", "not_found"),
        ("DELETE", "/v1/tokens/moon", "not_found"),
    ],
)
async def test_a_problem_has_one_shape(visitor: Visitor, method: str, path: str, code: str) -> None:
    response = await visitor.call("admin", method, path, headers={"X-Request-Id": "my-7"})
    problem = await response.json(content_type="application/problem+json")
    assert problem["code"] == code
    assert problem["status"] == response.status == KINDS[code].status
    assert problem["title"] == KINDS[code].title
    assert problem["request_id"] == response.headers["X-Request-Id"] == "my-7"
    if code == "method_not_allowed":
        assert response.headers["Allow"]


async def test_a_request_id_that_cannot_be_one_is_replaced(visitor: Visitor) -> None:
    response = await visitor.call("admin", "GET", "/version", headers={"X-Request-Id": "a b <script>"})
    assert response.headers["X-Request-Id"] == response.headers["X-Request-Id"].strip("<>")
    assert "script" not in response.headers["X-Request-Id"]


async def test_a_defect_answers_500_without_a_word_about_its_inside(visitor: Visitor) -> None:
    visitor.setting.bus.failing = [ZeroDivisionError("secret detail")]
    response = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["true"]})
    assert response.status == 500
    assert "secret detail" not in await response.text()


# --- machines -----------------------------------------------------------------------------------------------------


async def test_nodes_show_what_is_taken_but_not_by_whom(visitor: Visitor) -> None:
    visitor.setting.world.submit_running(spec(group="t2", user="tom", gpus=3, name="hidden"), "n1")
    answer = await visitor.call("una", "GET", "/v1/nodes")
    view = await answer.json()
    assert [node["id"] for node in view["nodes"]] == ["n1", "n2"]
    assert sum(gpu.get("milli_used", 0) for gpu in view["nodes"][0]["gpus"]) == 3000
    assert view["nodes"][0]["task_count"] == 1
    assert "tom" not in await answer.text()
    page = await visitor.ask("una", "GET", "/v1/nodes?limit=1")
    rest = await visitor.ask("una", "GET", f"/v1/nodes?limit=1&cursor={page['next']}")
    assert [node["id"] for node in rest["nodes"]] == ["n2"]
    assert (await visitor.ask("una", "GET", "/v1/nodes?pool=moon"))["nodes"] == []


async def test_an_administrator_drains_a_node_and_resumes_it(visitor: Visitor) -> None:
    for who in ("una", "hana", "head2"):
        await visitor.ask(who, "POST", "/v1/nodes/n1/drain", status=403)
    await visitor.ask("admin", "POST", "/v1/nodes/n1/drain", json={"why": "fans"})
    view = await visitor.ask("una", "GET", "/v1/nodes/n1")
    assert (view["state"], view["why"]) == ("drained", "fans")
    await visitor.ask("admin", "POST", "/v1/nodes/n1/resume")
    assert (await visitor.ask("una", "GET", "/v1/nodes/n1"))["state"] == "ready"
    await visitor.ask("admin", "POST", "/v1/nodes/moon/drain", status=404)
    await visitor.ask("admin", "POST", "/v1/nodes/n1/drain", status=422, json={"wy": "fans"})


async def test_only_an_administrator_forgets_a_node_and_only_a_lost_one(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.submit_running(spec(group="t1", user="una", gpus=3), "n1")
    for who in ("una", "hana", "head2"):
        await visitor.ask(who, "DELETE", "/v1/nodes/n1?gone=true", status=403)
    await visitor.ask("admin", "DELETE", "/v1/nodes/n1?gone=true", status=409)
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000))
    await visitor.ask("admin", "DELETE", "/v1/nodes/n1", status=409)
    await visitor.ask("admin", "DELETE", "/v1/nodes/n1?gone=true&why=scrapped")
    await visitor.ask("una", "GET", "/v1/nodes/n1", status=404)
    await visitor.ask("admin", "DELETE", "/v1/nodes/n1", status=404)
    assert not world.state.kept.tasks


async def test_the_totals_add_up(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.submit_running(spec(group="t1", user="una", gpus=3), "n1")
    world.submit(spec(group="t2", user="tom", name="w"))
    view = await visitor.ask("nobody", "GET", "/v1/cluster")
    assert (view["gpus_total"], view["gpus_used_milli"], view["nodes"], view["nodes_ready"]) == (16, 3000, 2, 2)
    assert view["gpus"] == [{"model": "A100", "total": 16, "used_milli": 3000, "free_milli": 13_000}]
    assert (view["running"], view["waiting"]) == (1, 1)


async def test_free_gpus_are_shown_of_nodes_that_take_work_and_those_of_tainted_ones_apart(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.see(*(node(name) for name in ("n3", "n4", "n5")), node("n2", taints=["maintenance"]))
    held = world.submit_running(spec(group="t1", user="una", gpus=4), "n1")
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=True, by="root"))
    world.tell("telemetry", f.NodeLost(node=NodeId("n3"), silent_ms=30_000))
    world.tell("telemetry", f.NodeQuarantined(node=NodeId("n5"), problem="starts fail"))
    [models] = (await visitor.ask("nobody", "GET", "/v1/cluster"))["gpus"]
    assert (models["free_milli"], models["tainted_milli"], models["used_milli"]) == (8000, 8000, 4000)
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=False, by="root"))
    [models] = (await visitor.ask("nobody", "GET", "/v1/cluster"))["gpus"]
    assert (models["free_milli"], models["tainted_milli"]) == (12_000, 8000)
    assert world.job(held).state == JobState.RUNNING


async def test_metrics_count_by_route_and_are_not_for_everybody(visitor: Visitor) -> None:
    await visitor.ask("una", "GET", "/v1/jobs/77", status=404)
    await visitor.ask("una", "GET", "/metrics", status=403)
    text = await (await visitor.call("reader", "GET", "/metrics")).text()
    assert 'gangline_http_requests_total{method="GET",route="/v1/jobs/{id}",status="404"} 1.0' in text
    await visitor.call("", "GET", "/a-scanner-was-here")
    text = await (await visitor.call("reader", "GET", "/metrics")).text()
    assert "scanner" not in text


async def test_bad_bytes_never_make_a_server_error(visitor: Visitor) -> None:
    paths: list[Any] = ["/v1/jobs/%FF", "/v1/groups/%00", "/v1/groups/%FF%FE/users/x", "/v1/nodes/%0A", "/%2e%2e/v1"]
    for path in paths:
        response = await visitor.call("admin", "GET", path)
        assert 400 <= response.status < 500


async def test_an_administrator_lets_a_node_serve_another_pool_and_gives_it_back(visitor: Visitor) -> None:
    await visitor.ask("una", "POST", "/v1/nodes/n1/assign", status=403, json={"pool": "large"})
    await visitor.ask("admin", "POST", "/v1/nodes/n1/assign", status=422, json={"pool": "nowhere"})
    await visitor.ask("admin", "POST", "/v1/nodes/n1/assign", status=422, json={})
    await visitor.ask("admin", "PUT", "/v1/pools/large", json={})
    before = (await visitor.ask("admin", "GET", "/v1/nodes/n1"))["pool"]
    await visitor.ask("admin", "POST", "/v1/nodes/n1/assign", json={"pool": "large", "why": "a deadline"})
    moved = await visitor.ask("admin", "GET", "/v1/nodes/n1")
    assert (moved["pool"], moved["home"]) == ("large", before)
    await visitor.ask("admin", "POST", "/v1/nodes/n1/assign", json={"pool": ""})
    back = await visitor.ask("admin", "GET", "/v1/nodes/n1")
    assert (back["pool"], back.get("home", "")) == (before, "")
