"""What users type and how their connections break: numbers, names, pages, hang-ups, commands; after public reports."""

import asyncio
import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tests.make import node
from tests.patience import LONG_S
from tests.services.agent.rig import an_order, rig
from tests.services.gateway.conftest import Visitor, visitor

from gangline_agent.runner import Phase
from gangline_client.completion import script
from gangline_core.job import JobState
from gangline_core.state import State

__all__ = ["visitor"]  # a fixture of the gateway's tests

JSON = {"Content-Type": "application/json"}


async def said(visitor: Visitor, body: str) -> int:
    """The status of the answer to a job file that is sent as it stands."""
    response = await visitor.call("una", "POST", "/v1/jobs?dry_run=true", data=body.encode(), headers=JSON)
    return response.status


# --- numbers and units (volcano-sh/volcano#822, Project-HAMi/HAMi#2718) -------------------------------------------


@pytest.mark.parametrize(
    ("field", "text", "holds"),
    [
        ("gpus", "2", True),
        ("gpus", '"2"', True),
        ("gpus", "2.0", True),
        ("gpus", '"500m"', True),
        ("gpus", "0", True),
        *(
            ("gpus", text, False)
            for text in (
                "-1", "1e30", "NaN", "Infinity", "-0.5", "true", "null", '""', '" 2"', '"2 "', '"0x2"', '"٢"',
                "[1]", "{}", "0.0001", "1e-4", '"1.0005"', "4294967297", "18446744073709551616",
            )
        ),
        ("memory", '"1.5Gi"', True),
        ("memory", '"1G"', True),
        *(
            ("memory", text, False)
            for text in ("16", "17179869184", '"16"', '"128m"', '"1Zi"', '"-1Gi"', '"1 Gi "', "true", '"0xGi"')
        ),
        *(("gpu_memory", text, False) for text in ("17179869184", "2147483648", "4294967296", "4294967297", '"1e3Gi"')),
        ("time_limit", "90", True),
        ("time_limit", '"1m30s"', True),
        *(
            ("time_limit", text, False)
            for text in ("-5", '"1:30"', '"14-0"', '"1-12:30:00"', '"P1D"', '"9999999999s"', "1e12", "null", '"1.5.5h"')
        ),
        ("priority", "1000000", True),
        *(
            ("priority", str(number), False)
            for number in (2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30)
        ),
        *(("tasks", text, False) for text in ("0", "-1", "1.5", "1e9", "4294967297", '"two"')),
    ],
)  # fmt: skip
async def test_a_number_is_read_as_written_or_refused_with_its_field(
    visitor: Visitor, field: str, text: str, holds: bool
) -> None:
    before = visitor.setting.world.state.kept.seq
    status = await said(visitor, f'{{"command": ["true"], "{field}": {text}}}')
    assert (status == 200) is holds, (status, field, text)
    assert holds or 400 <= status < 500
    assert visitor.setting.world.state.kept.seq == before


async def test_equal_amounts_are_equal_however_they_are_written(visitor: Visitor) -> None:
    async def stored(**fields: Any) -> Any:
        view = await visitor.submit("una", **fields)
        spec = visitor.setting.world.job(view["id"]).spec
        return spec.roles[0].resources, spec.time_limit_s

    same = [
        [{"memory": "1.5Gi"}, {"memory": "1536Mi"}],
        [{"gpus": 2}, {"gpus": "2"}, {"gpus": 2.0}],
        [{"gpus": 0.5}, {"gpus": "500m"}],
        [{"time_limit": 90}, {"time_limit": "90s"}, {"time_limit": "1m30s"}, {"time_limit": "1.5m"}],
    ]
    for spellings in same:
        found = [await stored(**fields) for fields in spellings]
        assert found == [found[0]] * len(found)
    assert await stored(memory="1G") != await stored(memory="1Gi")


async def test_memory_of_a_gpu_is_never_wrapped_into_something_that_fits(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.see(node("n1", gpus=1), node("n2", gpus=1))
    for holder in ("n1", "n2"):
        world.run(world.submit(gpus=1), holder)
    waits = (await visitor.submit("una", gpu_memory="16Gi"))["id"]
    world.round()
    assert world.job(waits).state == JobState.WAITING
    for text in ("4Ti", "16Ti", "4096Gi", "17179869184Mi", "4294967297Ki"):
        response = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["x"], "gpu_memory": text})
        assert response.status in (400, 409, 422), text


# --- names (open-metadata/OpenMetadata#27004) ---------------------------------------------------------------------


async def test_names_that_differ_only_at_their_end_are_two_names(visitor: Visitor) -> None:
    names = [f"{'x' * 79}{end}" for end in "ab"]
    jobs = [(await visitor.submit("una", name=name))["name"] for name in names]
    assert jobs == names
    assert (await visitor.submit("una", status=409, name=names[0]))["code"] == "conflict"


@pytest.mark.parametrize(
    "name",
    ["训练", "a/b", "..", "A", "trailing.", "emoji 🚀", "'; touch /tmp/x; '", "$(touch /tmp/x)", "--flag", "a b"],
)
async def test_a_visible_name_is_kept_letter_for_letter(visitor: Visitor, name: str) -> None:
    job = await visitor.submit("una", name=name)
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}"))["name"] == name
    listed = await visitor.ask("una", "GET", "/v1/jobs", params={"name": name})
    assert [one["id"] for one in listed["jobs"]] == [job["id"]]


@pytest.mark.parametrize("name", ["new\nline", "tab\t", "left\u202eright", "zero\u200bwidth", "nul\u0000", "\x1b[31m"])
async def test_an_invisible_letter_in_a_name_is_refused(visitor: Visitor, name: str) -> None:
    assert (await visitor.submit("una", status=422, name=name))["code"] == "invalid_fields"


async def test_two_spellings_of_one_name_are_one_name(visitor: Visitor) -> None:
    composed, decomposed = (unicodedata.normalize(form, "Ünïcode") for form in ("NFC", "NFD"))
    await visitor.submit("una", name=composed)
    await visitor.submit("una", status=409, name=decomposed)


# --- pages while jobs come and go (airbytehq/airbyte#15908) --------------------------------------------------------


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_show_every_job_that_was_there_all_the_time_exactly_once(visitor: Visitor, order: str) -> None:
    world = visitor.setting.world
    mine = [world.submit(group="t1", user="una") for _ in range(130)]
    for job in mine[10:40]:
        # Some have been run several times, all at one instant.
        for _ in range(job % 3):
            world.run(job, "n1")
            world.exit(*[task.id for task in world.tasks(job)], code=1, cause="process_lost")  # type: ignore[arg-type]  # the cause by its word
            world.empty(*[task.id for task in world.tasks(job)])
    seen: list[int] = []
    cursor, gone = "", set[int]()
    while True:
        page = await visitor.ask("una", "GET", "/v1/jobs", params={"limit": "20", "order": order, "cursor": cursor})
        assert len(page["jobs"]) <= 20
        seen += [job["id"] for job in page["jobs"]]
        for _ in range(7):
            world.submit(group="t1", user="una")
            world.submit(group="t2", user="tom")
        for job in [one for one in mine if one not in gone and one % 17 == len(gone) % 17][:3]:
            world.cancel(job)
            gone.add(job)
        cursor = page.get("next", "")
        if not cursor or len(seen) > 400:
            break
    assert len(seen) == len(set(seen)) < 400
    assert set(mine) <= set(seen)
    assert all(world.job(job).spec.group == "t1" for job in seen)


@pytest.mark.parametrize("cursor", ["abc", "-1", "0", "MTIz", "%00", "é", "a" * 2000, "null", "../../etc"])
async def test_a_cursor_that_is_none_of_ours_is_refused_and_never_starts_anew(visitor: Visitor, cursor: str) -> None:
    visitor.setting.world.submit(group="t1", user="una")
    answer = await visitor.ask("una", "GET", "/v1/jobs", status=400, params={"cursor": cursor})
    assert answer["code"] == "invalid_cursor"


# --- clients that hang up (aio-libs/aiohttp#2098) ------------------------------------------------------------------


async def hang_up(visitor: Visitor, who: str, request: bytes, *, after: int, turns: int) -> None:
    """Send so many bytes, let the gateway work for so many turns of the loop, and go."""
    server = visitor.client.server
    _, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(request[:after])
    await writer.drain()
    for _ in range(turns):
        await asyncio.sleep(0)
    writer.transport.abort()


def raw(visitor: Visitor, who: str, method: str, path: str, body: bytes = b"") -> bytes:
    token = visitor.setting.tokens[who]
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def settled(visitor: Visitor) -> None:
    async with asyncio.timeout(LONG_S):
        while visitor.setting.in_flight():  # noqa: ASYNC110 - the gateway tells nobody
            await asyncio.sleep(0.001)


def sound(state: State) -> bool:
    """Every admitted job is counted once in every place, and nothing else is."""
    waiting = [job.id for job in state.kept.jobs.values() if job.state == JobState.WAITING]
    return sorted(waiting) == sorted(state.waiting.get("default", {})) and state.unfinished.get("t1", 0) == len(waiting)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 30])
async def test_a_submit_that_is_hung_up_on_leaves_a_whole_job_or_none(visitor: Visitor, turns: int) -> None:
    body = b'{"command": ["true"], "group": "t1"}'
    request = raw(visitor, "una", "POST", "/v1/jobs", body)
    sizes = [*range(0, len(request), 37), len(request)]
    for after in sizes:
        await hang_up(visitor, "una", request, after=after, turns=turns)
    await settled(visitor)
    assert sound(visitor.setting.world.state)
    assert len(visitor.setting.world.state.kept.jobs) <= 1
    await visitor.submit("una", group="t1")


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 30])
async def test_a_cancel_that_is_hung_up_on_ends_the_job_or_leaves_it_alone(visitor: Visitor, turns: int) -> None:
    world = visitor.setting.world
    jobs = [world.submit(group="t1", user="una") for _ in range(8)]
    for job in jobs:
        for method, path in (("DELETE", f"/v1/jobs/{job}"), ("POST", f"/v1/jobs/{job}/cancel")):
            request = raw(visitor, "una", method, path)
            for after in (len(request) // 2, len(request)):
                await hang_up(visitor, "una", request, after=after, turns=turns)
    await settled(visitor)
    assert sound(world.state)
    assert {world.job(job).state for job in jobs} <= {JobState.WAITING, JobState.CANCELLED}
    for job in jobs:
        await visitor.ask("una", "DELETE", f"/v1/jobs/{job}", status=202)


# --- words that would be commands (eth-cscs/firecrest-v2#212) ------------------------------------------------------


async def test_no_word_of_a_job_becomes_a_command(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    words = [
        f"'; touch {trap}; '",
        f"$(touch {trap})",
        f"`touch {trap}`",
        f"a\ntouch {trap}",
        "--flag",
        f"| touch {trap}",
    ]
    async with rig(tmp_path / "agent") as made:
        order = an_order(
            sys.executable, "-c", "import sys; print(sys.argv[1:])", *words,
            env={"WORD": words[1]}, labels={"say": words[0]}, attributes={"WORD": words[1]},
        )  # fmt: skip
        local = await made.finish(order)
        assert (local.phase, local.exit_code) == (Phase.EMPTY, 0)
        assert made.output(order).strip() == str(words)
    assert not trap.exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_no_name_that_is_completed_becomes_a_command(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    names = [f"$(touch${{IFS}}{trap})", f"`touch {trap}`", f"n;touch {trap}", "plain"]
    fake = tmp_path / "gangline"
    fake.write_text("#!/bin/sh\n" + "".join(f"printf '%s\\n' '{name}'\n" for name in names))
    fake.chmod(0o700)
    program = script("bash") + '\nCOMP_WORDS=(gangline drain ""); COMP_CWORD=2; _gangline\n'
    program += 'for word in "${COMPREPLY[@]}"; do eval "set -- $word"; printf "%s\\n" "$1"; done\n'
    found = subprocess.run(
        ["bash", "--norc", "-c", program],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == names
    assert not trap.exists()


# --- misspelt fields (kai-scheduler/KAI-Scheduler#257) --------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "document", "field"),
    [
        ("POST", "/v1/jobs", {"command": ["true"], "gpu": 1}, "gpu"),
        ("POST", "/v1/jobs", {"command": ["true"], "time_limt": "1h"}, "time_limt"),
        ("POST", "/v1/jobs", {"roles": [{"name": "a", "command": ["true"], "gpus_": 1}]}, "gpus_"),
        ("POST", "/v1/jobs", {"command": ["true"], "topology": {"require": "rack"}}, "require"),
        ("POST", "/v1/jobs:batch", {"jobs": [{"command": ["true"], "GPUS": 1}]}, "GPUS"),
        ("PUT", "/v1/groups/t1", {"path": "t1", "limits": {"gpu_milli": 1000}}, "limits"),
        ("PUT", "/v1/groups/t1", {"path": "t1", "limit": {"gpu": 1000}}, "limit.gpu"),
        ("PUT", "/v1/groups/t1", {"path": "t1", "limit": {"gpu_milli:": 1000}}, "limit.gpu_milli:"),
        ("PUT", "/v1/groups/t1", {"path": "t1", "budget": 5}, "budget"),
        ("PUT", "/v1/groups/t1/users/una", {"limit": {"nvidia.com/gpu": 1}}, "limit.nvidia.com/gpu"),
        ("PUT", "/v1/policies/default", {"order": "fifo"}, "order"),
        ("PUT", "/v1/policies/default", {"ordering": "fiffo"}, "ordering"),
        ("PUT", "/v1/pools/default", {"level": {"high": 1}}, "level"),
        ("PUT", "/v1/settings", {"groups": {"t1": {"limit": {"gpu": 1}}}}, "groups.t1.limit.gpu"),
        ("PUT", "/v1/settings", {"group": {}}, "group"),
        ("PUT", "/v1/prices", {"milli": {"h100": "2500"}}, "milli"),
        ("PUT", "/v1/windows/w", {"start": 1, "end_ms": 2}, "start"),
    ],
)
async def test_a_misspelt_or_unknown_field_is_refused_everywhere_and_never_means_no_limit(
    visitor: Visitor, method: str, path: str, document: dict[str, Any], field: str
) -> None:
    before = visitor.setting.world.state.kept.seq
    problem = await visitor.ask("admin", method, path, status=422, json=document)
    assert field in problem["detail"] or any(field in error["path"] for error in problem["errors"]), problem
    assert all(error["message"] for error in problem["errors"])
    assert visitor.setting.world.state.kept.seq == before


# --- durations (stanford-crfm/helm#1573) ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("90s", 90), ("90m", 5400), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172_800), ("14d", 1_209_600),
        ("14-0", None), ("1-12:30:00", None), ("P1D", None), ("PT90M", None), ("-1", None), ("0", None), ("0s", None),
        ("9999999999s", None), ("1:30", None), ("90 s", None), ("1h 30m", None), ("30m1h", None), ("1.5", None),
        ("+90", None), ("९०", None), ("90S", None), ("1w", None), ("", None), ("inf", None), ("1e3s", None),
    ],
)  # fmt: skip
async def test_a_time_is_read_by_one_grammar_shown_back_in_one_and_never_cut(
    visitor: Visitor, text: str, seconds: int | None
) -> None:
    held = await visitor.submit("una", hold=True, gpus=1)
    path = f"/v1/jobs/{held['id']}"
    if seconds is None:
        await visitor.submit("una", time_limit=text, status=422)
        await visitor.ask("una", "PATCH", path, json={"time_limit": text}, status=422)
        assert "time_limit_s" not in await visitor.ask("una", "GET", path)
        return
    job = await visitor.submit("una", time_limit=text)
    assert (await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}"))["time_limit_s"] == seconds
    assert (await visitor.ask("una", "PATCH", path, json={"time_limit": text}))["time_limit_s"] == seconds
