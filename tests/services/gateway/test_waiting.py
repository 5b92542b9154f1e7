"""Every wait has a reason, a position and an honest start; others' waits are only counted."""

from typing import Any

import pytest
from tests.make import spec
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f
from gangline_core.groups import Group
from gangline_gateway import books


async def test_a_waiting_job_says_why_and_where_it_stands(visitor: Visitor) -> None:
    world = visitor.setting.world
    for k in range(2):
        world.submit_running(spec(group="t2", user="tom", name=f"big{k}", gpus=8, time_limit_s=3600), f"n{k + 1}")
    world.submit(spec(group="t2", user="tom", name="first", gpus=8, priority=1))
    job = world.submit(spec(group="t1", user="una", gpus=8))
    view = await visitor.ask("una", "GET", f"/v1/jobs/{job}/explain")
    assert (view["position"], view["waiting"], view["state"], view["slurm"]) == (2, 2, "waiting", "PD")
    assert view["code"]
    assert view["sentence"]
    assert view["start_note"]
    assert view["terms"]


async def test_a_running_job_says_so(visitor: Visitor) -> None:
    job = visitor.setting.world.submit_running(spec(group="t1", user="una"), "n1")
    view = await visitor.ask("una", "GET", f"/v1/jobs/{job}/explain")
    assert view["sentence"].startswith("Running since")
    assert "position" not in view


async def test_the_queue_shows_own_lines_at_their_true_positions(visitor: Visitor) -> None:
    world = visitor.setting.world
    for group, user in (("t2", "tom"), ("t1", "una"), ("t2", "tom"), ("t1", "vic"), ("t1", "una")):
        world.submit(spec(group=group, user=user, gpus=1))

    async def seen(who: str, query: str = "") -> tuple[int, list[tuple[int, int]]]:
        view: Any = await visitor.ask(who, "GET", f"/v1/queue{query}")
        return view["waiting"], [(line["position"], line["id"]) for line in view["lines"]]

    assert await seen("una") == (5, [(2, 2), (5, 5)])
    assert await seen("admin") == (5, [(k, k) for k in range(1, 6)])
    assert await seen("admin", "?limit=2") == (5, [(1, 1), (2, 2)])
    assert await seen("nobody") == (5, [])
    answer = await visitor.call("una", "GET", "/v1/queue")
    assert "tom" not in await answer.text()
    await visitor.ask("una", "GET", "/v1/queue?pool=moon", status=404)


async def test_a_queue_tells_what_its_jobs_wait_for_and_finds_those_that_are_asked_for(visitor: Visitor) -> None:
    """A queue of thousands fits no answer: who looked for a user's jobs found those among the first thousand."""
    world = visitor.setting.world
    world.tell("admission", f.GroupSet(group=Group(path="t2", limit={"gpu_milli": 8000}), by="root"))
    for k in range(2):
        world.submit_running(spec(group=f"t{k + 1}", user=("una", "tom")[k], name=f"big{k}", gpus=8), f"n{k + 1}")
    for k in range(6):
        group, user = (("t2", "tom"), ("t1", "una"), ("t1", "vic"))[k % 3]
        world.submit(spec(group=group, user=user, name=f"j{k}", gpus=8))
    world.settle()

    async def seen(query: str, who: str = "admin") -> tuple[int, list[str], dict[tuple[str, str], tuple[int, int]]]:
        view: Any = await visitor.ask(who, "GET", f"/v1/queue?{query}")
        sums = {(one["code"], one.get("of", "")): (one["jobs"], one["gpu_milli"]) for one in view["waiting_for"]}
        assert view["waiting"] == 6
        return view["matching"], [line["name"] for line in view["lines"]], sums

    room, limit = ("InsufficientGpus", ""), ("GroupLimit", "t2")
    assert await seen("limit=1") == (6, ["j0"], {room: (4, 32_000), limit: (2, 16_000)})
    assert await seen("user=vic") == (2, ["j2", "j5"], {room: (2, 16_000)})
    assert await seen("group=t1&name=j4") == (1, ["j4"], {room: (1, 8000)})
    assert await seen("reason=GroupLimit&limit=1") == (2, ["j0"], {limit: (2, 16_000)})
    assert await seen("", "una") == (2, ["j1", "j4"], {room: (2, 16_000)}), "others' reasons are not told"
    await visitor.ask("una", "GET", "/v1/queue?reason=Moon", status=400)


async def test_the_queue_says_of_an_element_which_of_its_array_it_is(visitor: Visitor) -> None:
    array = await visitor.submit(array="3-9%2", gpus=1)
    alone = await visitor.submit(gpus=1)
    lines: Any = (await visitor.ask("una", "GET", "/v1/queue"))["lines"]
    told = {line["id"]: (line.get("array_job", 0), line.get("array_index", 0)) for line in lines}
    assert told == {array["id"] + 1: (array["id"], 3), array["id"] + 2: (array["id"], 4), alone["id"]: (0, 0)}


async def test_who_waits_for_an_element_reads_its_number_as_people_write_it(visitor: Visitor) -> None:
    array = await visitor.submit(array="3-9", gpus=1)
    written = f"{array['id']}_4"
    follows = await visitor.submit(gpus=1, after=[written])
    record = await visitor.ask("una", "GET", f"/v1/jobs/{follows['id']}")
    line = (await visitor.ask("una", "GET", "/v1/queue"))["lines"][-1]
    why = await visitor.ask("una", "GET", f"/v1/jobs/{follows['id']}/explain")
    for told in (line["reason"], why, *([record["reason"]] if "reason" in record else [])):
        assert told["sentence"] == f"Waits for job {written} to end."
        assert told["hint"] == f"See that job with `gangline why {written}`."
        assert told["numbers"] == {"job": array["id"] + 2}, "programs have the number of its own"


async def test_every_line_of_the_queue_has_a_reason(visitor: Visitor) -> None:
    world = visitor.setting.world
    for k in range(5):
        world.submit(spec(group="t1", user="una", name=f"j{k}"))
    for line in (await visitor.ask("una", "GET", "/v1/queue"))["lines"]:
        assert line["reason"]["code"]
        assert line["reason"]["sentence"]


async def test_an_explanation_follows_the_log(visitor: Visitor) -> None:
    world = visitor.setting.world
    first = world.submit(spec(group="t1", user="una", name="a"))
    second = world.submit(spec(group="t1", user="una", name="b"))
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{second}/explain"))["position"] == 2
    world.cancel(first)
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{second}/explain"))["position"] == 1
    assert "Cancelled" in (await visitor.ask("una", "GET", f"/v1/jobs/{first}/explain"))["sentence"]


async def test_a_job_and_a_list_tell_the_numbers_of_now(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round writes a reason once; while it holds, its numbers go on changing."""
    world = visitor.setting.world
    world.tell("admission", f.GroupSet(group=Group(path="t1", limit={"gpu_milli": 8000}), by="root"))
    two = [world.submit_running(spec(group="t1", user="una", name=f"run{k}", gpus=4), "n1") for k in range(2)]
    job = world.submit(spec(group="t1", user="una", name="waits", gpus=8))
    world.settle()
    world.finish(two[0])
    world.settle()
    recorded = world.job(job).reason
    assert recorded is not None
    assert recorded.numbers["used"] == 8, "as it was when the reason began to hold"

    async def told(path: str) -> str:
        found: Any = await visitor.ask("una", "GET", path)
        one = next(view for view in found["jobs"] if view["id"] == job) if "jobs" in found else found
        sentence: str = one["reason"]["sentence"]
        return sentence

    now = "Group t1 uses 4 of 8 GPUs; the job needs 8 more."
    assert [await told(f"/v1/jobs/{job}"), await told("/v1/jobs")] == [now, now]
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{job}/explain"))["sentence"] == now
    monkeypatch.setattr(books, "WAITING_MAX", 0)
    assert {await told(f"/v1/jobs/{job}"), await told("/v1/jobs")} == {now.replace("4 of", "8 of")}
