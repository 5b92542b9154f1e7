"""What is promised at the door and in the queue, said by hand to a real platform: by command and over HTTP.

One platform with simulated nodes; each step is what an administrator, a head or a user would type.
"""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.patience import LONG_S

from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform

pytestmark = pytest.mark.end_to_end

PAGE: dict[str, Any] = {
    "classes": {"student": {"limit": {"gpus": 1}, "queued_jobs": 20, "priority_max": 0}},
    "groups": {
        "lab": {
            "guaranteed": {"gpus": 8, "gpus:H100": 8},
            "limit": {"gpus": 12, "gpus:H100": 12, "memory": "2Ti", "cpus": 400, "gpu_memory": "2Ti", "jobs": 50},
            "borrow_limit": {"gpus": 4},
            "lend_limit": {"gpus": 4},
            "user_limit": {"gpus": 10},
            "job_limit": {"gpus": 10},
            "weight": 3,
            "heads": ["ann"],
            "queued_jobs": 200,
            "submits_per_minute": 200,
            "time_limit": "2d",
            "seasons": {"night": {"time": "20:00-07:00", "zone": "Europe/Berlin", "limit": {"gpus": 16}}},
            "users": {"ann": {}, "bob": {"limit": {"gpus": 2}}, "eve": {"class": "student"}},
            "groups": {"vision": {"guaranteed": {"gpus": 4}, "weight": 2, "users": {"ann": {}}}},
        },
        "safe": {"budget": 20, "budget_mode": "safe", "users": {"ann": {}}},
        "until": {"budget": 20, "budget_mode": "start", "budget_period": "month", "users": {"ann": {}}},
    },
    "pools": {
        "default": {
            "levels": {"high": 1000, "normal": 0, "low": -1000},
            "policy": {"ordering": "fifo", "starvation": "2h"},
        }
    },
    "prices": {"H100": 2.5, "*": 0.5},
}


class Hand:
    """Types commands and sends requests to one platform."""

    def __init__(self, platform: Platform, client: aiohttp.ClientSession, folder: Path) -> None:
        """As the administrator, with the token that is printed at the start."""
        self.url, self._token = platform.url, platform.token
        self._client, self._folder = client, folder

    async def says(self, *words: str, code: int = 0, stdin: str = "") -> str:
        """What a command prints; it must end with this code."""
        env = {**os.environ, "GANGLINE_URL": self.url, "GANGLINE_TOKEN": self._token, "NO_COLOR": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gangline_client",
            *words,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(stdin.encode())
        text = out.decode() + err.decode()
        assert process.returncode == code, f"gangline {' '.join(words)} -> {process.returncode}\n{text}"
        return text

    async def asks(self, method: str, path: str, *, body: Any = None, status: int = 200, **headers: str) -> Any:
        """What a request answers; it must have this status."""
        own = {"Authorization": f"Bearer {self._token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with self._client.request(method, f"{self.url}{path}", json=body, headers=own) as answer:
            text = await answer.text()
            assert answer.status == status, f"{method} {path} -> {answer.status}\n{text}"
            return json.loads(text) if text.startswith(("{", "[")) else text

    async def submits(self, name: str, *, status: int = 202, **fields: Any) -> int:
        """A job of group lab is admitted; its number."""
        job = {"name": name, "group": "lab", "user": "ann", "gpus": 1, "cpus": 1, "command": ["train"], **fields}
        answer = await self.asks("POST", "/v1/jobs", body=job, status=status)
        return int(answer.get("id", 0)) if isinstance(answer, dict) else 0

    async def until(self, job: int, *states: str) -> dict[str, Any]:
        """Wait until a job is in one of these states."""
        async with asyncio.timeout(LONG_S):
            while True:
                view: dict[str, Any] = await self.asks("GET", f"/v1/jobs/{job}")
                if view["state"] in states:
                    return view
                await asyncio.sleep(0.05)

    async def why(self, job: int, code: str) -> dict[str, Any]:
        """Wait until a job is told this reason."""
        view: dict[str, Any] = {}
        try:
            async with asyncio.timeout(LONG_S):
                while view.get("code") != code:
                    view = await self.asks("GET", f"/v1/jobs/{job}/explain")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"job {job}: {view}") from None
        return view

    def file(self, name: str, content: Any) -> str:
        """A file of YAML."""
        path = self._folder / name
        path.write_text(yaml.safe_dump(content))
        return str(path)


@pytest.mark.timeout(1200)
async def test_every_clause_of_the_door_and_the_queue_holds_when_said_to_a_real_platform(tmp_path: Path) -> None:
    config = PlatformConfig(
        data_dir=tmp_path / "data", user="ann", local_node=False, simulate="2x8xH100", speed=20, sync_always=False
    )
    async with Platform(config) as platform, aiohttp.ClientSession() as client:
        hand = Hand(platform, client, tmp_path)
        await _settings(hand)
        await _verdicts(hand)
        await _budgets(hand)
        await _order(hand)
        await _arrays_and_times(hand)
        await _limits_and_dates(hand)
        await _windows(hand)


async def _settings(hand: Hand) -> None:
    """1, 4: the whole tree as one page; checked, compared, applied, shown; versions guard every change."""
    page = hand.file("policy.yaml", PAGE)
    await hand.says("policy", "lint", page)
    broken = {**PAGE, "groups": {"lab": {"limt": {"gpus": 1}}}}
    assert "limit" in await hand.says("policy", "lint", hand.file("broken.yaml", broken), code=1)
    assert "lab" in await hand.says("policy", "diff", page)
    await hand.says("policy", "apply", page, "--why", "a new quarter", "--yes")
    assert "nothing" in (await hand.says("policy", "diff", page)).lower()
    shown = yaml.safe_load(await hand.says("policy", "show", "--file"))
    assert shown["groups"]["lab"]["borrow_limit"] == {"gpus": 4}
    assert shown["groups"]["lab"]["seasons"]["night"]["limit"] == {"gpus": 16}
    # Two heads at once: the second is told that the first was faster.
    group = await hand.asks("GET", "/v1/groups/lab")
    version, settings = str(group["version"]), {**group["settings"], "weight": 4}
    tried = await hand.asks("PUT", "/v1/groups/lab?dry_run=true", body=settings, If_Match=f'"{version}"')
    assert tried["dry_run"]
    await hand.asks("PUT", "/v1/groups/lab", body=settings, If_Match=f'"{version}"')
    await hand.asks("PUT", "/v1/groups/lab", body=settings, If_Match=f'"{version}"', status=412)
    too_much = {"name": "bob", "group": "lab", "limit": {"gpu_milli": 99_000}}
    await hand.asks("PUT", "/v1/groups/lab/users/bob", body=too_much, status=422)
    await _history(hand)


async def _history(hand: Hand) -> None:
    """1: every edit with who and why, from what to what, for those whom it concerns; survives what it was made of."""
    await hand.says("quota", "set", "lab", "weight=5", "--create", "--why", "the grant came")
    told = await hand.says("quota", "history", "lab")
    assert "by ann: the grant came" in told
    assert "weight: 4 -> 5" in told
    assert "by ann: a new quarter" in told
    assert "limt" not in told, "what was refused is no edit"
    await hand.says("policy", "set", "default", "hang=11m", "--why", "slow starts")
    assert "by ann: slow starts" in (await hand.says("policy", "history", "default"))
    assert "made by system" in await hand.says("token", "history")
    edits = (await hand.asks("GET", "/v1/settings/history?kind=group&group=lab&limit=1"))["edits"]
    assert edits[0]["version"] == (await hand.asks("GET", "/v1/groups/lab"))["version"]
    body = {"name": "head of lab", "role": "head", "user": "una", "groups": ["lab"]}
    head = await hand.asks("POST", "/v1/tokens", body=body, status=201)
    mine = {"Authorization": f"Bearer {head['token']}"}
    own = await hand.asks("GET", "/v1/settings/history", **mine)
    assert {edit["kind"] for edit in own["edits"]} == {"group", "user", "token"}
    assert {group.partition("/")[0] for edit in own["edits"] for group in edit["groups"]} == {"lab"}
    await hand.asks("GET", "/v1/settings/history?group=safe", status=404, **mine)
    await hand.asks("GET", "/v1/settings/history?pool=default", status=403, **mine)


async def _verdicts(hand: Hand) -> None:
    """2, 10: refused at once with the number that is too large, or told where, when and at what cost it would start."""
    asked = {"name": "try", "group": "lab", "user": "ann", "gpus": 4, "time_limit": "1h", "command": ["train"]}
    found = await hand.says("submit", "--dry-run", "-o", "json", hand.file("try.yaml", asked))
    assert "nodes" in found
    assert "cost" in found
    for fields, code in (
        ({"gpus": 11}, "NeverFitsLimit"),
        ({"gpus": 1, "user": "bob", "tasks": 3}, "NeverFitsLimit"),
        ({"gpu_models": ["A100"]}, "NeverFitsModel"),
        ({"time_limit": "3d"}, "TimeLimitTooLong"),
        ({"group": "nobody"}, "UnknownGroup"),
        ({"user": "eve", "priority": 5}, "PriorityBound"),
    ):
        job = {"name": "no", "group": "lab", "user": "ann", "gpus": 1, "command": ["train"], **fields}
        answer = await hand.asks("POST", "/v1/jobs", body=job, status=422)
        assert code in json.dumps(answer), answer
    usage = await hand.asks("GET", "/v1/groups/lab")
    assert not usage.get("usage", {}).get("gpu_milli", 0), "a refused submit charges nothing"
    # A repeated submit is answered with the same job and takes nothing more.
    job = {"name": "once", "group": "lab", "user": "ann", "gpus": 1, "command": ["train"], "hold": True}
    first = await hand.asks("POST", "/v1/jobs", body=job, status=202, Idempotency_Key="k1")
    again = await hand.asks("POST", "/v1/jobs", body=job, status=202, Idempotency_Key="k1")
    assert first["id"] == again["id"]


async def _budgets(hand: Hand) -> None:
    """3: inside the budget or not at all, or until it runs out, by the group's choice and the price list."""
    endless = {"name": "endless", "group": "safe", "user": "ann", "gpus": 1, "command": ["train"]}
    assert "Budget" in json.dumps(await hand.asks("POST", "/v1/jobs", body=endless, status=422))
    # One H100 costs 2.5: four of them for an hour are 10 of the 20 GPU-hours, for three hours 30.
    await hand.submits("dear", group="safe", gpus=4, time_limit="1h", hold=True)
    await hand.asks("POST", "/v1/jobs", body={**endless, "gpus": 4, "time_limit": "3h", "name": "dearer"}, status=422)
    job = await hand.submits("fine", group="until", gpus=1, time_limit="1h", attributes={"run_time_s": 5})
    await hand.until(job, "running", "succeeded")
    assert "h100" in (await hand.says("prices")).lower()


async def _order(hand: Hand) -> None:
    """5, 9: hold, release, priority, level, top and all four kinds of dependencies."""
    held = await hand.submits("held", hold=True, time_limit="1h")
    await hand.says("release", str(held))
    await hand.until(held, "running", "starting", "succeeded")
    filler = [
        await hand.submits(f"fill-{k}", gpus=5, time_limit="1h", attributes={"run_time_s": 3_500}) for k in (1, 2)
    ]
    for job in filler:
        await hand.until(job, "running", "waiting", "starting")
    waiting = [await hand.submits(f"w-{k}", gpus=8, time_limit="1h") for k in (1, 2)]
    await hand.says("top", str(waiting[1]))
    await hand.says("edit", str(waiting[0]), "priority=5", "--why", "it is urgent")
    await hand.says("move", str(waiting[0]), "--level", "low")
    view = await hand.asks("GET", f"/v1/jobs/{waiting[0]}")
    assert (view["spec"]["priority"], view["spec"]["level"]) == (5, "low")
    await hand.says("hold", str(waiting[1]))
    assert (await hand.asks("GET", f"/v1/jobs/{waiting[1]}"))["state"] == "held"
    kinds = {
        "ok": await hand.submits("ok", after=[waiting[0]]),
        "any": await hand.submits("any", after=[f"afterany:{waiting[0]}"]),
        "notok": await hand.submits("notok", after=[f"afternotok:{waiting[0]}"]),
    }
    single = await hand.submits("alone", singleton=True, hold=True)
    second = await hand.submits("alone", singleton=True)
    for job in kinds.values():
        await hand.why(job, "Dependency")
    await hand.why(second, "Singleton")
    await hand.says("cancel", str(waiting[0]), str(single))
    assert (await hand.until(kinds["ok"], "cancelled", "failed"))["state"]
    for job in (kinds["any"], kinds["notok"], second):
        await hand.until(job, "running", "starting", "succeeded", "waiting")
    listed = await hand.says("queue")
    assert "alone" in listed or "any" in listed or "no" in listed.lower()
    await hand.says("cancel", *map(str, [*filler, waiting[1]]))
    for job in filler:
        await hand.until(job, "cancelled")


async def _arrays_and_times(hand: Hand) -> None:
    """9: an array as one record with a cap, a begin time, a deadline."""
    array = await hand.submits("sweep", array="0-5%2", attributes={"run_time_s": 3_500}, time_limit="1h")
    assert "0-5" in await hand.says("show", str(array)) or "sweep" in await hand.says("show", str(array))
    later = await hand.submits("later", not_before=_in_hours(2))
    await hand.why(later, "NotBefore")
    answer = await hand.asks(
        "POST",
        "/v1/jobs",
        body={
            "name": "late",
            "group": "lab",
            "user": "ann",
            "gpus": 1,
            "time_limit": "2h",
            "deadline": _in_hours(1),
            "command": ["train"],
        },
        status=422,
    )
    assert "Deadline" in json.dumps(answer)
    await hand.until(array, "running")
    await hand.says("cancel", str(array), str(later))


def _in_hours(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


async def _limits_and_dates(hand: Hand) -> None:
    """8, 10: who a limit keeps out has a date and says so; who comes behind waits for it, or ends in time."""
    long = [await hand.submits(f"long-{k}", gpus=3, time_limit="4h", attributes={"run_time_s": 10_000}) for k in (1, 2)]
    for job in long:
        await hand.until(job, "running")
    large = await hand.submits("large", gpus=8, time_limit="1h", attributes={"run_time_s": 3_000})
    told = await hand.why(large, "UserLimit")
    assert {also["code"] for also in told["also"]} & {"GroupLimit", "BorrowLimit"}
    assert told["start_to_ms"] > 0
    behind = await hand.submits("behind", gpus=3, time_limit="1d", attributes={"run_time_s": 10_000})
    brief = await hand.submits("brief", gpus=1, time_limit="10m", attributes={"run_time_s": 30})
    kept = await hand.why(behind, "LimitKeptForOlderJob")
    assert kept["numbers"]["job"] == large
    await hand.until(brief, "running", "succeeded")
    printed = await hand.says("why", str(behind))
    assert f"job {large}" in printed
    assert "position" in printed.lower()
    assert "kept for it" in await hand.says("why", str(large))
    await hand.says("cancel", *map(str, [*long, behind]))
    await hand.until(large, "running", "starting")
    await hand.says("cancel", str(large))


async def _windows(hand: Hand) -> None:
    """9: maintenance keeps nodes free, and tells who waits until when."""
    nodes = [node["id"] for node in (await hand.asks("GET", "/v1/nodes"))["nodes"]]
    await hand.says("window", "set", "bios", *nodes, "--from", "+30m", "--for", "1h", "--why", "new BIOS")
    assert "bios" in await hand.says("window")
    job = await hand.submits("into", gpus=1, time_limit="2h")
    assert (await hand.why(job, "RunsIntoWindow"))["numbers"]["window"]
    await hand.says("window", "remove", "bios")
    await hand.until(job, "running", "starting", "succeeded")
