"""What people see: every table and detail, compared with the text kept beside this file.

Set UPDATE_SNAPSHOTS=1 to write the texts anew, then read what changed.
"""

import os
from pathlib import Path

import msgspec
import pytest
from tests.client import samples as s
from tests.client.command_line import gangline
from tests.client.fake_platform import FakePlatform

KEPT = Path(__file__).parent / "snapshots"

CASES = {
    "show-list": ["show"],
    "show-list-wide": ["show", "-o", "wide"],
    "show-list-yaml": ["show", "-o", "yaml"],
    "show-waiting": ["show", "41"],
    "show-running": ["show", "7"],
    "show-history-json": ["show", "41", "--history", "-o", "json"],
    "why": ["why", "41"],
    "queue": ["queue"],
    "queue-wide": ["queue", "--pool", "default", "-o", "wide"],
    "queue-json": ["queue", "--pool", "default", "-o", "json"],
    "queue-of-one-user": ["queue", "--user", "ada"],
    "status": ["status"],
    "nodes": ["nodes"],
    "node": ["nodes", "n1", "node-0002"],
    "quota": ["quota"],
    "quota-group": ["quota", "show", "research"],
    "quota-user": ["quota", "user", "research", "ada"],
    "usage": ["usage"],
    "usage-of-a-group": ["usage", "--group", "research", "--users"],
    "policy": ["policy", "show", "default"],
    "tokens": ["token", "list"],
    "quota-history": ["quota", "history", "research"],
    "whoami": ["whoami"],
}


@pytest.fixture
def laid_out(platform: FakePlatform) -> FakePlatform:
    answers = {
        "/v1/jobs": s.PAGE,
        "/v1/jobs/41": s.WAITING,
        "/v1/jobs/41/explain": s.EXPLANATION,
        "/v1/jobs/41/history": s.HISTORY,
        "/v1/jobs/7": s.RUNNING,
        "/v1/jobs/7/history": s.v.HistoryView(job=7, events=()),
        "/v1/queue": s.QUEUE,
        "/v1/cluster": s.CLUSTER,
        "/v1/nodes": s.NODES,
        "/v1/nodes/n1": s.NODE,
        "/v1/nodes/node-0002": s.DRAINED,
        "/v1/groups": s.GROUPS,
        "/v1/groups/research": s.RESEARCH,
        "/v1/groups/research/users/ada": s.MEMBER,
        "/v1/usage": s.USAGE,
        "/v1/policies": s.POLICIES,
        "/v1/tokens": s.TOKENS,
        "/v1/settings/history": s.EDITS,
        "/v1/whoami": s.WHOAMI,
    }
    for path, view in answers.items():
        platform.answer("GET", path, view)
    platform.answer("GET", "/v1/queue", s.QUEUE, s.EMPTY_QUEUE)
    return platform


@pytest.mark.parametrize("name", CASES)
async def test_the_answer_looks_as_it_did(laid_out: FakePlatform, name: str) -> None:
    result = await gangline(laid_out.url, *CASES[name])
    shown = f"{result.out}{result.err}".replace(laid_out.url, "http://platform")
    file = KEPT / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        KEPT.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert result.code == 0
    assert shown == file.read_text(encoding="utf-8")


async def test_names_alone_are_for_other_programs(laid_out: FakePlatform) -> None:
    assert (await gangline(laid_out.url, "show", "-o", "name")).out == "3\n7\n41\n"
    assert (await gangline(laid_out.url, "nodes", "-o", "name")).out == "n1\nnode-0002\n"


async def test_lines_fit_a_narrow_terminal_by_cutting_the_reason(laid_out: FakePlatform) -> None:
    lines = (await gangline(laid_out.url, "show", width=110)).out.splitlines()
    assert max(map(len, lines)) <= 110
    assert any(line.endswith("…") for line in lines)


async def test_colour_is_only_for_terminals(laid_out: FakePlatform) -> None:
    assert "\x1b[" in (await gangline(laid_out.url, "show", colour=True, width=200)).out
    assert "\x1b[" not in (await gangline(laid_out.url, "show")).out


async def test_a_name_cannot_steer_the_terminal(platform: FakePlatform) -> None:
    import msgspec

    evil = msgspec.structs.replace(s.RUNNING, name="x\x1b[2Jy\nz")
    platform.answer("GET", "/v1/jobs", s.v.JobPage(jobs=(evil,)))
    assert "x?[2Jy z" in (await gangline(platform.url, "show")).out


async def test_numbers_of_a_reason_are_in_the_units_of_its_sentence(platform: FakePlatform) -> None:
    cpus = {"needed": 4000, "free": 500, "held": 1, "tasks": 2}
    for code, numbers, shown in (
        ("InsufficientCpu", cpus, "free=0.5, held=1, needed=4, tasks=2"),
        ("ReservedForOlderJob", {"job": 7, "from_ms": 86_400_000}, "from=1970-01-02 00:00:00 UTC, job=7"),
        ("OfANewerPlatform", {"cpus": 4000}, "cpus=4000"),
    ):
        view = msgspec.structs.replace(s.EXPLANATION, code=code, numbers=numbers)
        platform.answer("GET", "/v1/jobs/41/explain", view)
        result = await gangline(platform.url, "why", "41")
        assert f"  Numbers         {shown}\n" in result.out


async def test_memory_of_gpus_is_shown_as_it_is_set(platform: FakePlatform) -> None:
    settings = msgspec.structs.replace(s.RESEARCH.settings, limit={"gpu_memory_mib": 640 << 10})
    used = {"gpu_memory_mib": 1536, "gpu_milli:H100": 500}
    platform.answer("GET", "/v1/groups/research", msgspec.structs.replace(s.RESEARCH, settings=settings, usage=used))
    lines = (await gangline(platform.url, "quota", "show", "research")).out.splitlines()
    assert [line.split()[:3] for line in lines if line.startswith("gpu")][0:1] == [["gpu_memory", "1.5Gi", "640Gi"]]
    assert any(line.split()[:2] == ["gpus:H100", "0.5"] for line in lines)


async def test_what_a_group_lends_borrows_and_lets_each_have_is_shown_beside_its_table(platform: FakePlatform) -> None:
    settings = msgspec.structs.replace(
        s.RESEARCH.settings,
        limit={"gpu_milli": 8_000},
        lend_limit={"gpu_milli": 2_000},
        borrow_limit={"gpu_milli": 4_000},
        user_limit={"gpu_milli": 3_000},
        job_limit={"gpu_milli:H100": 1_000},
    )
    platform.answer("GET", "/v1/groups/research", msgspec.structs.replace(s.RESEARCH, settings=settings))
    out = (await gangline(platform.url, "quota", "show", "research")).out
    assert "user.gpus=3 job.gpus:H100=1 borrow.gpus=4 lend.gpus=2 weight=2" in out
    assert " gpus=8" not in out
