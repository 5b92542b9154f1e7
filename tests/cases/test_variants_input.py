"""The same kinds of trouble in other shapes: what is typed, what is written, what is read back, and clocks."""

import asyncio
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases.test_input import said
from tests.cases.test_output import ended
from tests.make import HOUR, node
from tests.services.agent.rig import an_order, rig
from tests.services.gateway.conftest import Visitor, visitor

from gangline_core.job import JobState
from gangline_core.limits.calendar import Season, is_on
from gangline_wire import output, subjects
from gangline_wire.durations import read_seconds, show_seconds

__all__ = ["visitor"]  # a fixture of the gateway's tests


# --- numbers, names, pages, hang-ups (M) --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "text", "holds"),
    [
        ("cpus", '"1500m"', True), ("cpus", "0.5", True), ("cpus", '"0.5"', True),
        *(("cpus", text, False) for text in ("-0.5", '"1500mm"', '"1,5"', "1e400", '"¼"', '"5e-324"', "[]")),
        ("estimate", '"2h"', True), ("estimate", '"1d"', True),
        *(("estimate", text, False) for text in ('"2 h"', '"h"', '"-2h"', '"2h-1m"', '"PT2H"', "1e30", "false")),
        ("retries", "3", True), *(("retries", text, False) for text in ("-1", "1.5", '"3x"', "2147483648", "null")),
        ("devices", "{}", True),
        *(("devices", text, False) for text in ('{"rdma": -1}', '{"rdma": 1.5}', '{"rdma": "two"}', '{"": 1}', "[1]")),
        ("memory", '"0.5Gi"', True), ("memory", '"1e3Mi"', False), ("memory", '"16GiB"', False),
        ("memory", '"∞"', False),
        ("gpus", '"1/2"', False), ("gpus", '"0,5"', False), ("gpus", '"1.5"', False), ("gpus", "1.5", False),
    ],
)  # fmt: skip
async def test_other_fields_are_read_as_written_or_refused(
    visitor: Visitor, field: str, text: str, holds: bool
) -> None:
    status = await said(visitor, f'{{"command": ["true"], "{field}": {text}}}')
    assert (status == 200) is holds, (status, field, text)
    assert holds or 400 <= status < 500


@pytest.mark.parametrize("power", [31, 32, 33, 63, 64, 65])
@pytest.mark.parametrize("field", ["memory", "gpu_memory", "cpus", "tasks", "gpus"])
async def test_no_number_near_a_power_of_two_wraps_into_something_small(
    visitor: Visitor, field: str, power: int
) -> None:
    visitor.setting.world.see(node("n1", gpus=8))
    for near in (2**power - 1, 2**power, 2**power + 1):
        value: Any = f"{near}Mi" if "memory" in field else near
        response = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["x"], field: value})
        assert response.status in (400, 409, 422), (field, near)
    assert not visitor.setting.world.waiting()


@pytest.mark.parametrize("where", ["job", "role", "topology", "elastic"])
@pytest.mark.parametrize("wrong", ["gpu", "Gpus", "gpus ", "limits", "_gpus", "gpu-memory"])
async def test_an_unknown_field_at_any_depth_is_refused_with_its_path(visitor: Visitor, where: str, wrong: str) -> None:
    body: dict[str, Any] = {"command": ["true"]}
    if where == "job":
        body[wrong] = 1
    elif where == "role":
        body = {"roles": [{"name": "a", "command": ["true"], wrong: 1}]}
    else:
        body[where] = {wrong: 1}
    response = await visitor.call("una", "POST", "/v1/jobs?dry_run=true", json=body)
    assert response.status in (400, 422)
    assert wrong.strip() in (await response.text()).replace("\\", "")


@pytest.mark.parametrize("name", ["a" * 80, "ünïcode", "a.b_c-d"])
@pytest.mark.parametrize("other", ["x", "_"])
async def test_a_name_and_another_that_begins_alike_never_become_one(visitor: Visitor, name: str, other: str) -> None:
    jobs = []
    for one in (name, name[:-1] + other):
        response = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["true"], "name": one})
        if response.status == 202:
            jobs.append((await response.json())["name"])
        else:
            assert response.status in (400, 422)
    assert len(set(jobs)) == len(jobs)


@pytest.mark.parametrize("size", [1, 3, 7])
async def test_pages_of_any_size_show_what_was_there_once_while_jobs_come_and_go(visitor: Visitor, size: int) -> None:
    world = visitor.setting.world
    world.see(node("n1"))
    there = [world.submit(gpus=1) for _ in range(20)]
    seen: list[int] = []
    cursor = ""
    while True:
        path = f"/v1/jobs?limit={size}" + (f"&cursor={cursor}" if cursor else "")
        page = await (await visitor.call("admin", "GET", path)).json()
        seen += [job["id"] for job in page["jobs"]]
        world.submit(gpus=1)
        if len(seen) == 6:
            world.cancel(there[0])
        cursor = page.get("cursor") or page.get("next") or ""
        if not cursor or len(seen) > 200:
            break
    assert len(seen) == len(set(seen))
    assert set(there) <= set(seen)


@pytest.mark.parametrize("count", [2, 5])
async def test_a_batch_that_is_hung_up_on_is_there_whole_or_not_at_all(visitor: Visitor, count: int) -> None:
    body = {"jobs": [{"command": ["true"], "name": f"b{k}"} for k in range(count)]}
    for wait_s in (0, 0.001, 0.01):
        call = asyncio.ensure_future(visitor.call("una", "POST", "/v1/jobs:batch", json=body))
        await asyncio.sleep(wait_s)
        call.cancel()
        await asyncio.wait([call])
    response = await visitor.call("una", "POST", "/v1/jobs:batch", json=body)
    names = [job.spec.name for job in visitor.setting.world.state.kept.jobs.values()]
    assert sorted(names) in ([], sorted(f"b{k}" for k in range(count)))
    assert response.status in (202, 409)


# --- durations and clocks (R) -------------------------------------------------------------------------------


@given(st.integers(1, 30 * 86_400))
def test_every_duration_that_is_shown_is_read_back_as_the_same(seconds: int) -> None:
    assert read_seconds(show_seconds(seconds)) == seconds


@pytest.mark.parametrize(
    "text",
    ["14-0", "1-12:30:00", "P1D", "-1", "9999999999s", "1:30", "90 m", "1h1h", "m", "1.5.5h", "+5", "1w2", "\u0663s"],
)
async def test_a_time_outside_the_grammar_is_refused_wherever_it_stands(visitor: Visitor, text: str) -> None:
    for field in ("time_limit", "estimate", "grace", "protected"):
        assert 400 <= await said(visitor, f'{{"command": ["true"], "{field}": "{text}"}}') < 500, field


@pytest.mark.parametrize("zone", ["America/Santiago", "Africa/Cairo", "Asia/Tehran", "Pacific/Chatham", "UTC"])
@pytest.mark.parametrize(("begins", "ends"), [(150, 210), (0, 1440), (1380, 120)])
def test_a_season_begins_once_on_every_local_day_of_any_zone(zone: str, begins: int, ends: int) -> None:
    season = Season(name="x", start_minute=begins, end_minute=ends, zone=zone)
    at = int(datetime(2026, 1, 1, 12, tzinfo=ZoneInfo(zone)).timestamp() * 1000)
    on = [is_on(season, at + step * 900_000) for step in range(365 * 96)]
    starts = sum(after and not before for before, after in pairwise(on))
    assert starts == 0 if ends - begins == 1440 else abs(starts - 365) <= 1
    assert len(on) == 365 * 24 * HOUR // 900_000


# --- the last line (Q) --------------------------------------------------------------------------------------

PROGRAMS = {
    "ends inside of a letter": ("import os; os.write(1, 'schön'.encode()[:-2])", "schön".encode()[:-2]),
    # What a program leaves running is told to end, so the child does not listen until it has written.
    "a child writes on": (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(1, b'a'); me = os.getpid()\n"
        "if os.fork() == 0:\n while os.getppid() == me: time.sleep(0.001)\n os.write(1, b'b')\nos._exit(0)",
        b"ab",
    ),
    "many short lines and a failure": (
        "import sys; [print(k) for k in range(5000)]; sys.exit(3)",
        "".join(f"{k}\n" for k in range(5000)).encode(),
    ),
    "only carriage returns": ("import os; os.write(1, b'10%\\r20%\\r100%')", b"10%\r20%\r100%"),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_whatever_ends_the_output_its_last_byte_is_told(tmp_path: Path, name: str) -> None:
    program, wanted = PROGRAMS[name]
    async with rig(tmp_path) as made:
        order = an_order(sys.executable, "-c", program)
        await made.finish(order)
        assert sorted(made.told[order.task.id]) == sorted(wanted)


@pytest.mark.parametrize("last", [b"Killed", b"Killed\n", b"\xff\xfe\n", b"x" * 70_000 + b" the end\n"])
@pytest.mark.parametrize("tail", [1, 3])
async def test_a_limited_view_ends_with_whatever_came_last(visitor: Visitor, last: bytes, tail: int) -> None:
    job = ended(visitor, tasks=1, silent=False, code=137)
    lines = b"".join(b"%d %s\n" % (k, b"y" * 500) for k in range(700)) + last
    subject = subjects.output(job, f"{job}-1-worker-0")
    for first in range(0, len(lines), 60_000):
        is_last = first + 60_000 >= len(lines)
        headers = output.headers(first, end="1" if is_last else "")
        visitor.setting.bus.put("GANGLINE_OUTPUT", subject, lines[first : first + 60_000], headers)
    answer = await visitor.call("admin", "GET", f"/v1/jobs/{job}/logs?tail={tail}")
    assert (await answer.read()).endswith(last)
    assert visitor.setting.world.job(job).state == JobState.FAILED


@pytest.mark.parametrize("query", ["dry_run", "dry_run=", "dry_run=&dry_run=true", "dry_run=yes"])
async def test_a_dry_run_that_is_asked_for_in_other_words_is_never_done_in_earnest(
    visitor: Visitor, query: str
) -> None:
    before = len(visitor.setting.world.state.kept.jobs)
    response = await visitor.call("una", "POST", f"/v1/jobs?{query}", json={"command": ["true"]})
    assert (response.status, (await response.json())["errors"][0]["path"]) == (400, "?dry_run")
    assert len(visitor.setting.world.state.kept.jobs) == before


@pytest.mark.parametrize("name", ["user", "group", "pool", "name", "label", "state", "array", "order", "limit"])
async def test_a_filter_that_is_empty_is_not_no_filter(visitor: Visitor, name: str) -> None:
    problem = await visitor.ask("una", "GET", f"/v1/jobs?{name}=", status=400)
    assert problem["errors"] == [{"path": f"?{name}", "message": "is empty; give it a value or leave it out"}]
