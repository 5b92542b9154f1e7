"""Jobs after their submission: arrays, edits, turns, sizes, once more; and dated capacity and prices."""

from typing import Any

import pytest
from tests.make import HOUR, T0, group, role, spec
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.spec import ArraySpec


def settle(visitor: Visitor) -> None:
    visitor.setting.world.settle()


# --- arrays -------------------------------------------------------------------------------------------------


async def test_an_array_is_one_record_and_its_elements_are_written_with_their_index(visitor: Visitor) -> None:
    job = await visitor.submit(array="0-99%10", gpus=1)
    assert job["array"] == {"indexes": "0-99%10", "size": 100, "at_most": 10, "counts": {"waiting": 100},
                            "elements": {"waiting": "0-99"}}  # fmt: skip
    settle(visitor)
    view = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}")
    assert view["array"]["elements"] == {"waiting": "10-99", "running": "0-9"}
    assert view["reason"]["code"] == "ArrayCap"
    element = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}_7")
    assert (element["array_job"], element["array_index"], element["state"]) == (job["id"], 7, "running")
    waiting = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}_42")
    assert waiting["state"] == "waiting"
    page = await visitor.ask("una", "GET", f"/v1/jobs?array={job['id']}")
    assert len(page["jobs"]) == 11


async def test_an_array_that_waits_says_what_its_first_element_waits_for(visitor: Visitor) -> None:
    await visitor.submit(gpus=8, name="full-1")
    await visitor.submit(gpus=8, name="full-2")
    settle(visitor)
    job = await visitor.submit(array="3-9%2", gpus=8)
    settle(visitor)
    told = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}/explain")
    assert told["state"] == "waiting"
    first = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}_3/explain")
    assert first["code"]
    assert (told["code"], told["hint"], told["start_note"]) == (first["code"], first["hint"], first["start_note"])
    assert told["notes"][0] == f"Element 3, the first that waits: {first['sentence']}"
    later = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}_7/explain")
    assert later["code"] == "ArrayCap"
    assert f"`gangline edit {job['id']} at_most=N`" in later["hint"]
    shown = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}_7")
    assert f"`gangline edit {job['id']} at_most=N`" in shown["reason"]["hint"]


async def test_one_element_is_cancelled_and_the_others_go_on(visitor: Visitor) -> None:
    job = await visitor.submit(array="0-9%2", gpus=1)
    await visitor.ask("una", "DELETE", f"/v1/jobs/{job['id']}_7", status=202)
    await visitor.ask("una", "DELETE", f"/v1/jobs/{job['id']}_0", status=202)
    view = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}")
    assert view["array"]["elements"] == {"waiting": "1-6,8-9", "cancelled": "0,7"}
    await visitor.ask("una", "DELETE", f"/v1/jobs/{job['id']}", status=202)
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}"))["state"] == "cancelled"
    await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}_10", status=404)


async def test_an_array_explains_itself_and_has_no_output_of_its_own(visitor: Visitor) -> None:
    job = await visitor.submit(array="1-3", gpus=1)
    told = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}/explain")
    assert told["sentence"] == "3 elements (1-3): 3 waiting."
    answer = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}/logs", status=409)
    assert "name one element" in answer["detail"]


async def test_a_job_may_follow_one_element(visitor: Visitor) -> None:
    job = await visitor.submit(array="5-9", gpus=1)
    follower = await visitor.submit(after=[f"afterany:{job['id']}_6"])
    settle(visitor)
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{follower['id']}"))["reason"]["code"] == "Dependency"
    visitor.setting.world.finish(JobId(job["id"] + 2), code=3)
    settle(visitor)
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{follower['id']}"))["state"] == "running"
    refused = await visitor.submit(after=[f"{job['id']}_4"], status=422)
    assert refused["refusals"][0]["reason"]["code"] == "UnknownDependency"


async def test_an_element_of_an_array_of_others_is_followed_as_little_as_one_that_does_not_exist(
    visitor: Visitor,
) -> None:
    theirs = visitor.setting.world.submit(spec(group="t2", user="tom", gpus=1, array=ArraySpec(ranges=((0, 9, 1),))))
    for named in (f"{theirs}_7", theirs + 8, "77_7"):
        refused = await visitor.submit(after=[named], status=422)
        assert refused["detail"] == f"There is no job {named} to wait for."


# --- edits --------------------------------------------------------------------------------------------------


async def test_an_edit_changes_what_it_names_and_nothing_else(visitor: Visitor) -> None:
    job = await visitor.submit(gpus=1, hold=True, time_limit="1h")
    edit = {"priority": -2, "level": "low", "time_limit": "2h", "labels": {"a": "b"}}
    view = await visitor.ask("una", "PATCH", f"/v1/jobs/{job['id']}?why=later", json=edit)
    assert (view["priority"], view["level"], view["time_limit_s"], view["state"]) == (-2, "low", 7200, "held")
    (fact,) = visitor.setting.world.log[-1].facts
    assert isinstance(fact, f.JobEdited)
    assert (fact.by, fact.why) == ("una", "later")


async def test_a_dry_run_of_an_edit_changes_nothing(visitor: Visitor) -> None:
    job = await visitor.submit(gpus=1)
    before = visitor.setting.world.state.kept.seq
    await visitor.ask("una", "PATCH", f"/v1/jobs/{job['id']}?dry_run=true", json={"priority": 3})
    assert visitor.setting.world.state.kept.seq == before


@pytest.mark.parametrize(
    ("edit", "status", "field"),
    [
        ({"priority": "high"}, 422, "priority"),
        ({"priorty": 3}, 422, "priorty"),
        ({"pool": "nowhere"}, 422, "pool"),
        ({"level": "top"}, 422, "level"),
        ({"at_most": 3}, 422, "at_most"),
        ({}, 422, ""),
        ({"deadline": "2001-01-01T00:00:00Z"}, 422, "deadline"),
    ],
)
async def test_a_wrong_edit_is_refused_with_its_field(visitor: Visitor, edit: Any, status: int, field: str) -> None:
    job = await visitor.submit(gpus=1)
    problem = await visitor.ask("una", "PATCH", f"/v1/jobs/{job['id']}", status=status, json=edit)
    assert [error["path"] for error in problem["errors"]] == [field]


async def test_owners_stay_within_their_bound_and_heads_within_their_groups(visitor: Visitor) -> None:
    world = visitor.setting.world
    known = world.state.kept.groups["t1"]
    world.tell(
        "admission", f.GroupSet(group=group("t1", heads=known.heads, user_priority_max=5, priority_max=50), by="a")
    )
    job = await visitor.submit(gpus=1, priority=5)
    path = f"/v1/jobs/{job['id']}"
    problem = await visitor.ask("una", "PATCH", path, status=422, json={"priority": 6})
    assert problem["detail"] == "The priority is 6; group t1 for its users allows at most 5."
    await visitor.ask("hana", "PATCH", path, json={"priority": 50})
    await visitor.ask("hana", "PATCH", path, status=422, json={"priority": 51})
    await visitor.ask("admin", "PATCH", path, json={"priority": 1000})
    assert (await visitor.submit(gpus=1, priority=6, status=422))["refusals"][0]["reason"]["code"] == "PriorityBound"


async def test_what_a_running_job_was_told_cannot_be_edited(visitor: Visitor) -> None:
    job = await visitor.submit(gpus=1, time_limit="1h")
    settle(visitor)
    path = f"/v1/jobs/{job['id']}"
    assert (await visitor.ask("una", "PATCH", path, status=409, json={"pool": "default"}))["code"] == "conflict"
    await visitor.ask("una", "PATCH", path, json={"priority": -1})


# --- turns --------------------------------------------------------------------------------------------------


async def test_a_user_puts_own_jobs_first_heads_the_groups_and_administrators_any(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.submit(spec(group="t2", user="tom", gpus=1, priority=9))
    first, second = world.submit(spec(group="t1", user="una")), world.submit(spec(group="t1", user="una"))
    await visitor.ask("una", "POST", f"/v1/jobs/{second}/top", status=202)
    lines = (await visitor.ask("admin", "GET", "/v1/queue"))["lines"]
    assert [line["id"] for line in lines] == [1, second, first]
    for who, among in (("una", "group"), ("una", "all"), ("hana", "all")):
        await visitor.ask(who, "POST", f"/v1/jobs/{second}/top", status=403, json={"among": among})
    await visitor.ask("hana", "POST", f"/v1/jobs/{first}/top", status=202, json={"among": "group"})
    await visitor.ask("admin", "POST", f"/v1/jobs/{first}/top", status=202, json={"among": "all"})
    lines = (await visitor.ask("admin", "GET", "/v1/queue"))["lines"]
    assert [line["id"] for line in lines] == [first, 1, second]


# --- sizes --------------------------------------------------------------------------------------------------


async def test_a_size_outside_of_its_bounds_is_refused_at_once_and_the_job_is_left_alone(visitor: Visitor) -> None:
    # intelligent-machine-learning/dlrover#1534
    world = visitor.setting.world
    job = world.submit(spec(group="t1", user="una", roles=(role(tasks=4, minimum=3, maximum=4, gpus=1),)))
    settle(visitor)
    for size in (2, 6):
        problem = await visitor.ask("una", "POST", f"/v1/jobs/{job}/resize", status=422, json={"size": size})
        assert problem["errors"][0]["message"] == f"is {size}; role worker may have 3 to 4 tasks"
    assert world.job(job).asked == {}
    await visitor.ask("una", "POST", f"/v1/jobs/{job}/resize", status=202, json={"size": 3})
    assert world.job(job).asked == {"worker": 3}
    rigid = world.submit(spec(group="t1", user="una"))
    for size in (1, 2):
        problem = await visitor.ask("una", "POST", f"/v1/jobs/{rigid}/resize", status=409, json={"size": size})
        assert "role worker is not elastic: it has 1 task" in problem["detail"]


# --- once more ----------------------------------------------------------------------------------------------


async def test_a_job_runs_once_more_as_a_new_one(visitor: Visitor) -> None:
    world = visitor.setting.world
    job = await visitor.submit(gpus=1, priority=3)
    settle(visitor)
    world.finish(JobId(job["id"]), code=1)
    again = await visitor.ask("una", "POST", f"/v1/jobs/{job['id']}/rerun", status=202)
    assert again["id"] > job["id"]
    assert (again["priority"], again["state"]) == (3, "waiting")


async def test_one_element_runs_once_more_with_its_index(visitor: Visitor) -> None:
    world = visitor.setting.world
    job = await visitor.submit(array="0-3", gpus=1)
    settle(visitor)
    world.finish(JobId(job["id"] + 3), code=1)
    again = await visitor.ask("una", "POST", f"/v1/jobs/{job['id']}_2/rerun", status=202)
    assert again["array"]["indexes"] == "2"


async def test_a_job_with_secrets_cannot_run_again_because_they_are_gone(visitor: Visitor) -> None:
    job = await visitor.submit(env={"API_TOKEN": "s3cr3t"})
    assert (await visitor.ask("una", "POST", f"/v1/jobs/{job['id']}/rerun", status=409))["code"] == "conflict"


# --- dated capacity and prices ------------------------------------------------------------------------------


async def test_a_window_keeps_nodes_and_says_why(visitor: Visitor) -> None:
    window = {"start_ms": T0 + HOUR, "end_ms": T0 + 2 * HOUR, "nodes": ["n1", "n2"], "why": "new BIOS"}
    await visitor.ask("una", "PUT", "/v1/windows/bios", status=403, json=window)
    await visitor.ask("admin", "PUT", "/v1/windows/bios?why=planned", json=window)
    endless, short = await visitor.submit(gpus=1), await visitor.submit(gpus=1, time_limit="30m")
    settle(visitor)
    world = visitor.setting.world
    assert world.job(short["id"]).state == JobState.RUNNING
    told = await visitor.ask("una", "GET", f"/v1/jobs/{endless['id']}/explain")
    assert told["code"] == "RunsIntoWindow"
    assert told["numbers"]["window"] == "bios"
    shown = (await visitor.ask("una", "GET", "/v1/windows"))["windows"]
    assert shown[0]["window"]["nodes"] == ["n1", "n2"]
    await visitor.ask("admin", "DELETE", "/v1/windows/bios")
    settle(visitor)
    assert world.job(endless["id"]).state == JobState.RUNNING


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nodes": ["n9"]}, "nodes"),
        ({"end_ms": T0}, "end_ms"),
        ({"pool": "x"}, "pool"),
        ({"groups": ["x"]}, "groups"),
        ({"start_ms": -1}, "start_ms"),
        ({"start_ms": 253_402_300_799_000, "end_ms": 253_402_300_799_001}, "end_ms"),
    ],
)
async def test_a_wrong_window_is_refused_with_its_field(visitor: Visitor, change: Any, field: str) -> None:
    window = {"start_ms": T0 + HOUR, "end_ms": T0 + 2 * HOUR, "nodes": ["n1"], **change}
    problem = await visitor.ask("admin", "PUT", "/v1/windows/bios", status=422, json=window)
    assert [error["path"] for error in problem["errors"]] == [field]


async def test_prices_change_as_a_whole_and_only_from_the_version_that_was_read(visitor: Visitor) -> None:
    await visitor.ask("admin", "PUT", "/v1/prices", json={"milli": {"A100": 2500, "*": 500}})
    assert await visitor.ask("una", "GET", "/v1/prices") == {"milli": {"a100": 2500, "*": 500}, "version": 1}
    await visitor.ask("admin", "PUT", "/v1/prices", status=412, json={"milli": {}}, headers={"If-Match": '"7"'})
    await visitor.ask("una", "PUT", "/v1/prices", status=403, json={"milli": {}})


async def test_too_many_submits_are_told_when_to_come_back(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.tell("admission", f.GroupSet(group=group("t1", submits_per_minute=2), by="admin"))
    await visitor.submit()
    world.wait(20)
    await visitor.setting.clock.advance(20)
    await visitor.submit()
    response = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["true"]})
    assert (response.status, response.headers["Retry-After"]) == (429, "40")


async def test_owners_give_time_of_a_running_job_back_and_heads_give_more(visitor: Visitor) -> None:
    job = await visitor.submit(gpus=1, time_limit="1h")
    settle(visitor)
    path = f"/v1/jobs/{job['id']}"
    assert (await visitor.ask("una", "PATCH", path, json={"time_limit": "30m"}))["time_limit_s"] == 1800
    refused = await visitor.ask("una", "PATCH", path, status=403, json={"time_limit": "2h"})
    assert "only a head of its group or an administrator" in refused["detail"]
    assert (await visitor.ask("hana", "PATCH", path, json={"time_limit": "2h"}))["time_limit_s"] == 7200
    await visitor.ask("tom", "PATCH", path, status=404, json={"time_limit": "10m"})
