"""Verbs that change jobs after their submission, dated capacity and prices: what they ask and what they print."""

import pytest
from tests.client.command_line import NOW_MS, gangline
from tests.client.fake_platform import TOKEN, FakePlatform, Reply

from gangline_client.client import Client
from gangline_client.errors import InputError
from gangline_client.job_names import find_job, find_task
from gangline_core.ids import NodeId
from gangline_core.reserving.windows import Window
from gangline_wire import views as v

HOUR_MS = 3_600_000
JOB = v.JobView(id=42, name="train", state="waiting", slurm="PD", group="g", user="ada", pool="default")
ELEMENT = v.JobView(
    id=50, name="train", state="running", slurm="R", group="g", user="ada", pool="default", array_job=42, array_index=7
)
ARRAY = v.JobView(
    id=42, name="train", state="running", slurm="R", group="g", user="ada", pool="default",
    array=v.ArrayView(
        indexes="0-9%2", size=10, at_most=2, counts={"running": 2, "waiting": 8},
        elements={"running": "0-1", "waiting": "2-9"},
    ),
)  # fmt: skip
DONE = Reply(view=v.DoneView(seq=9), status=202)


async def test_an_edit_sends_what_is_named_with_times_from_now(platform: FakePlatform) -> None:
    platform.answer("PATCH", "/v1/jobs/42", JOB)
    words = ("priority=-5", "deadline=+2h", "not_before=", "labels=a=b,c=d", "preemptible=false", "time_limit=1h")
    words += ("checkpoints=true",)
    result = await gangline(platform.url, "edit", "42", *words, "--reason", "later")
    assert (result.code, result.out) == (0, f"Job 42 is changed: {', '.join(words)}.\n")
    (asked,) = platform.asked
    assert asked.query == {"why": "later"}
    assert asked.body == {
        "priority": -5,
        "deadline": NOW_MS + 2 * HOUR_MS,
        "not_before": 0,
        "labels": {"a": "b", "c": "d"},
        "preemptible": False,
        "time_limit": "1h",
        "checkpoints": True,
    }


@pytest.mark.parametrize("word", ["priority=high", "colour=red", "priority", "preemptible=1", "deadline=soon"])
async def test_an_edit_that_cannot_be_read_asks_nothing(platform: FakePlatform, word: str) -> None:
    result = await gangline(platform.url, "edit", "42", word)
    assert (result.code, platform.asked) == (2, [])


async def test_an_element_is_found_by_its_index(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs/42_7", ELEMENT)
    platform.answer("POST", "/v1/jobs/50/cancel", DONE)
    result = await gangline(platform.url, "cancel", "42_7")
    assert (result.code, result.out) == (0, "Job 42_7 will be cancelled.\n")


async def test_an_array_shows_its_elements_by_state(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs/42", ARRAY)
    platform.answer("GET", "/v1/jobs/42/history", v.HistoryView(job=42, events=()))
    lines = (await gangline(platform.url, "show", "42")).out.splitlines()
    assert lines[0] == "Array 42: train"
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:]}
    assert (told["Elements"], told["Running"], told["Waiting"]) == ("10 (0-9%2)", "2: 0-1", "8: 2-9")


async def test_a_list_shows_an_element_with_its_index_and_an_array_with_its_size(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=(ELEMENT, ARRAY)))
    rows = [line.split() for line in (await gangline(platform.url, "show")).out.splitlines()]
    assert [row[0] for row in rows[1:]] == ["42", "42_7"]


async def test_the_first_named_job_goes_first(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/jobs/1/top", DONE)
    platform.answer("POST", "/v1/jobs/2/top", DONE)
    await gangline(platform.url, "top", "1", "2", "--among", "group")
    assert [(asked.path, asked.body) for asked in platform.asked] == [
        ("/v1/jobs/2/top", {"among": "group"}),
        ("/v1/jobs/1/top", {"among": "group"}),
    ]


async def test_a_size_is_a_number_or_left_to_the_policy(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/jobs/42/resize", DONE)
    assert (await gangline(platform.url, "resize", "42", "4")).out == "Job 42 shall have 4 tasks.\n"
    await gangline(platform.url, "resize", "42", "auto", "--role", "actor")
    assert [asked.body for asked in platform.asked] == [{"size": 4}, {"size": 0, "role": "actor"}]
    assert (await gangline(platform.url, "resize", "42", "many")).code == 2
    nothing = await gangline(platform.url, "resize", "42", "0")
    assert (nothing.code, "`gangline hold`" in nothing.err) == (2, True), "who says 0 does not mean: as many as can be"
    assert len(platform.asked) == 2


async def test_jobs_move_to_a_pool_and_a_level(platform: FakePlatform) -> None:
    platform.answer("PATCH", "/v1/jobs/42", JOB)
    result = await gangline(platform.url, "move", "42", "--level", "low", "--pool", "b")
    assert result.out == "Job 42 is in pool b and level low.\n"
    assert platform.asked[0].body == {"pool": "b", "level": "low"}
    assert (await gangline(platform.url, "move", "42")).code == 2


async def test_a_job_runs_once_more_under_one_key(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/jobs/42/rerun", Reply(view=ELEMENT, status=202))
    result = await gangline(platform.url, "rerun", "42")
    assert result.out == "Job 42 runs once more as job 50; it is running.\n"
    assert platform.asked[0].headers["Idempotency-Key"] == "key-1"


async def test_capacity_is_kept_from_then_for_so_long(platform: FakePlatform) -> None:
    platform.answer("PUT", "/v1/windows/bios", v.DoneView(version=1))
    words = ("window", "set", "bios", "n1", "n2", "--from", "+1h", "--for", "30m", "--user", "eve", "--why", "update")
    result = await gangline(platform.url, *words)
    assert result.out == "Keeps n1, n2 of pool default from 2023-11-14T23:13:20Z to 2023-11-14T23:43:20Z.\n"
    body = platform.asked[0].body
    assert isinstance(body, dict)
    assert (body["start_ms"], body["nodes"], body["users"]) == (NOW_MS + HOUR_MS, ["n1", "n2"], ["eve"])
    assert (await gangline(platform.url, "window", "set", "bios", "--from", "+1h")).code == 2


async def test_kept_capacity_is_listed_with_what_still_runs_there(platform: FakePlatform) -> None:
    window = Window("bios", "default", NOW_MS, NOW_MS + HOUR_MS, nodes=(NodeId("n1"),), why="update")
    platform.answer("GET", "/v1/windows", v.WindowsView(windows=(v.WindowView(window=window, running_jobs=(7,)),)))
    row = (await gangline(platform.url, "window")).out.splitlines()[1].split()
    assert row == [
        "bios",
        "default",
        "2023-11-14T22:13:20Z",
        "2023-11-14T23:13:20Z",
        "n1",
        "maintenance",
        "1",
        "update",
    ]


async def test_prices_are_changed_one_by_one_and_sent_whole(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/prices", v.PricesView(milli={"v100": 500, "a100": 1000}, version=3))
    platform.answer("PUT", "/v1/prices", v.DoneView(version=4))
    await gangline(platform.url, "prices", "H100=2.5", "v100=")
    assert platform.asked[-1].body == {"milli": {"a100": 1000, "h100": 2500}}
    assert platform.asked[-1].headers["If-Match"] == '"3"'
    assert (await gangline(platform.url, "prices", "H100")).code == 2


@pytest.mark.parametrize("flag", ["--tasks", "--min-tasks", "--max-tasks"])
async def test_a_number_of_tasks_is_sent_as_it_is_said_for_the_platform_to_judge(
    platform: FakePlatform, flag: str
) -> None:
    platform.answer("POST", "/v1/jobs", Reply(view=JOB, status=202))
    await gangline(platform.url, "run", "--detach", flag, "0", "--", "true")
    body = platform.asked[0].body
    assert isinstance(body, dict)
    assert body[{"--tasks": "tasks", "--min-tasks": "min", "--max-tasks": "max"}[flag]] == 0


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("7", (7, "")),
        ("7-2-worker-0", (7, "7-2-worker-0")),
        ("7-2-param-server-13", (7, "7-2-param-server-13")),
        ("2026-07-01-train", (42, "")),
        ("2026-11-30-1", (42, "")),
        ("2026-11-30-run-3", (42, "")),
        ("007", (42, "")),
        ("2026_07", (42, "")),
        ("\u0663", (42, "")),
        ("9" * 5000, (42, "")),
    ],
)
async def test_a_name_that_begins_like_a_number_is_a_name(
    platform: FakePlatform, text: str, asked: tuple[int, str]
) -> None:
    platform.answer("GET", "/v1/jobs", Reply(view=v.JobPage(jobs=(JOB,))))
    async with Client(platform.url, TOKEN) as client:
        assert await find_task(client, text) == asked
    assert [one.query["name"] for one in platform.asked] == ([] if asked[0] == 7 else [text])


async def test_a_role_may_be_called_by_a_number_where_no_job_is(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs", Reply(view=v.JobPage(jobs=())))
    async with Client(platform.url, TOKEN) as client:
        assert await find_task(client, "7-1-30-2") == (7, "7-1-30-2")


async def test_what_is_no_text_is_told_by_where_it_stands_and_never_left_out(platform: FakePlatform) -> None:
    async with Client(platform.url, TOKEN) as client:
        with pytest.raises(InputError, match=r"^name is not UTF-8 text$"):
            await find_job(client, "caf\udce9")
        with pytest.raises(InputError, match=r"^env\.TOKEN is not UTF-8 text$"):
            await client.submit({"command": ["true"], "env": {"TOKEN": "s3cr3t\udce9"}})
    assert platform.asked == []


async def test_an_empty_name_is_no_job_and_never_the_newest_of_all(platform: FakePlatform) -> None:
    async with Client(platform.url, TOKEN) as client:
        with pytest.raises(InputError, match="empty"):
            await find_job(client, "")
    assert platform.asked == []


async def test_run_says_array_moments_and_what_it_follows(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/jobs", Reply(view=ARRAY, status=202))
    words = ("--array", "0-9%2", "--after", "afterany:3", "--after", "4", "--singleton", "--begin", "+1h")
    words = (*words, "--checkpoints")
    result = await gangline(platform.url, "run", *words, "--", "true")
    assert (result.code, result.out) == (0, "Submitted job 42 (train); it is running.\n")
    body = platform.asked[0].body
    assert isinstance(body, dict)
    assert (body["array"], body["after"], body["singleton"]) == ("0-9%2", ["afterany:3", 4], True)
    assert body["checkpoints"] is True
    assert body["not_before"] == NOW_MS + HOUR_MS
