"""The SDK: asks what the API expects, retries only what is safe, resumes what it follows."""

from inspect import Parameter, signature

import msgspec
import pytest
from tests.client.command_line import no_wait
from tests.client.fake_platform import TOKEN, FakePlatform, Reply, problem

from gangline_client import Client, ProblemError, SettingsError, SyncClient, UnreachableError
from gangline_client.paths import JobQuery
from gangline_client.retry import Retry
from gangline_core.groups import Group
from gangline_wire import views as v
from gangline_wire.requests import EventLine

JOB = v.JobView(id=7, name="train", state="waiting", slurm="PD", group="g", user="ada", pool="default")
BUSY = problem(503, "unavailable", "Nobody can answer this now", headers={"Retry-After": "1"})


def client_of(platform: FakePlatform, **changes: object) -> Client:
    return Client(platform.url, TOKEN, sleep=no_wait, **changes)  # type: ignore[arg-type]  # test options


async def test_a_submit_is_repeated_with_the_same_key_until_it_is_answered(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/jobs", Reply(breaks=True), BUSY, Reply(view=JOB, status=202))
    async with client_of(platform) as client:
        assert await client.submit({"command": ["true"]}) == JOB
    keys = [asked.headers["Idempotency-Key"] for asked in platform.requests("POST", "/v1/jobs")]
    assert len(keys) == 3
    assert len(set(keys)) == 1


async def test_two_submits_have_different_keys(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/jobs", JOB)
    async with client_of(platform) as client:
        await client.submit({})
        await client.submit({})
    first, second = platform.requests("POST", "/v1/jobs")
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]


async def test_a_token_is_not_issued_twice_when_the_answer_is_lost(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/tokens", Reply(breaks=True))
    async with client_of(platform) as client:
        with pytest.raises(UnreachableError):
            await client.issue_token(name="x", role="user", user="ada", groups=["g"])
    assert len(platform.requests("POST", "/v1/tokens")) == 1


async def test_a_refusal_by_a_limit_is_told_at_once(platform: FakePlatform) -> None:
    reason = v.ReasonView(code="QueueFull", sentence="g has 5 unfinished jobs; the limit is 5.")
    refusal = v.RefusalView(index=0, reason=reason)
    platform.answer("POST", "/v1/jobs", problem(429, "too_many", "Too many at once", refusals=(refusal,)))
    async with client_of(platform) as client:
        with pytest.raises(ProblemError) as caught:
            await client.submit({})
    assert caught.value.problem.refusals == (refusal,)
    assert len(platform.asked) == 1


async def test_a_server_that_stays_busy_is_given_up_after_the_stated_tries(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/cluster", BUSY)
    async with client_of(platform, retry=Retry(attempts=3)) as client:
        with pytest.raises(ProblemError, match="Nobody can answer"):
            await client.cluster()
    assert len(platform.asked) == 3


async def test_the_server_says_how_long_to_wait(platform: FakePlatform) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    unsaid = problem(503, "unavailable", "Nobody can answer this now")
    platform.answer("GET", "/v1/jobs/7", BUSY, unsaid, unsaid, JOB)
    async with Client(platform.url, TOKEN, sleep=note) as client:
        await client.job(7)
    assert pauses == [1.0, 0.4, 0.8]


async def test_nobody_at_the_address_is_an_error_with_the_next_step() -> None:
    async with Client("http://127.0.0.1:1", sleep=no_wait, retry=Retry(attempts=2)) as client:
        with pytest.raises(UnreachableError, match="connection refused") as caught:
            await client.cluster()
    assert "gangline up" in caught.value.next_step


async def test_an_answer_that_is_no_json_still_is_a_problem(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs/7", Reply(status=502, chunks=(b"<h1>Bad gateway</h1>",)))
    async with client_of(platform, retry=Retry(attempts=1)) as client:
        with pytest.raises(ProblemError, match="Bad gateway"):
            await client.job(7)


@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://x", "http://", "http://[bad"])
async def test_a_wrong_address_is_told_before_anything_is_sent(url: str) -> None:
    with pytest.raises(SettingsError):
        Client(url)


async def test_the_token_does_not_follow_a_redirect_elsewhere(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs/7", Reply(status=302, headers={"Location": "http://example.invalid/"}))
    async with client_of(platform) as client:
        with pytest.raises(ProblemError):
            await client.job(7)


async def test_lists_go_on_to_the_last_page(platform: FakePlatform) -> None:
    pages = [v.JobPage(jobs=(JOB,), next="c1"), v.JobPage(jobs=(), next="c2"), v.JobPage(jobs=(JOB,))]
    platform.answer("GET", "/v1/jobs", *pages)
    query = JobQuery(states=("running", "waiting"), labels={"a": "b"}, newest_first=True)
    async with client_of(platform) as client:
        assert [job.id async for job in client.jobs(query)] == [7, 7]
    first, second, _ = platform.asked
    assert first.query == {"state": "running,waiting", "label": "a=b", "order": "desc", "limit": "500"}
    assert second.query["cursor"] == "c1"


async def test_settings_are_changed_only_at_the_version_that_was_read(platform: FakePlatform) -> None:
    group = Group(path="research/vision", limit={"gpu_milli": 8000})
    platform.answer("PUT", "/v1/groups/research/vision", v.DoneView(version=4))
    platform.answer("PUT", "/v1/groups/~", v.DoneView(version=1))
    async with client_of(platform) as client:
        done = await client.set_group(group, version=3, dry_run=True, why="more work")
        await client.set_group(Group(path=""))
    assert done.version == 4
    asked, unversioned = platform.asked
    assert asked.headers["If-Match"] == '"3"'
    assert asked.query == {"dry_run": "true", "why": "more work"}
    assert msgspec.convert(asked.body, Group) == group
    assert "If-Match" not in unversioned.headers


def sent(*lines: EventLine) -> bytes:
    return b"".join(b"id: %b\nevent: x\ndata: %b\n\n" % (x.id.encode(), msgspec.json.encode(x)) for x in lines)


def event(event_id: str) -> EventLine:
    return EventLine(id=event_id, at=1, event="Running", job=7, group="g", user="ada", name="train", message="runs")


async def test_events_come_once_and_in_order_over_a_broken_connection(platform: FakePlatform) -> None:
    first, second, third = event("10-0"), event("10-1"), event("11-0")
    half = sent(third)[:20]
    platform.answer(
        "GET",
        "/v1/events",
        Reply(chunks=(b"retry: 1\n\n: hello\n\n", sent(first, second), half), breaks=True),
        BUSY,
        Reply(chunks=(sent(second, third),)),
    )
    async with client_of(platform) as client:
        events = client.events(job=7, group="g")
        assert [await anext(events) for _ in range(3)] == [first, second, third]
        await events.aclose()
    start, _, resumed = platform.asked
    assert "Last-Event-ID" not in start.headers
    assert resumed.headers["Last-Event-ID"] == "10-1"
    assert start.query == {"job": "7", "group": "g"}


async def test_a_broken_stream_is_taken_up_no_sooner_than_the_server_asked_for(platform: FakePlatform) -> None:
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    first, second = event("10-0"), event("10-1")
    platform.answer(
        "GET",
        "/v1/events",
        Reply(chunks=(b"retry: 7000\n\n", sent(first)), breaks=True),
        Reply(chunks=(b"retry: 999999999\n\n",), breaks=True),
        Reply(chunks=(sent(second),)),
    )
    async with Client(platform.url, TOKEN, sleep=note) as client:
        events = client.events()
        assert [await anext(events) for _ in range(2)] == [first, second]
        await events.aclose()
    assert waited == [7.0, 30.0]


async def test_events_end_with_the_error_that_will_not_pass(platform: FakePlatform) -> None:
    async with client_of(platform) as client:
        with pytest.raises(ProblemError, match="no such thing"):
            await anext(client.events(job=9))


async def test_logs_are_taken_up_at_the_byte_where_they_broke(platform: FakePlatform) -> None:
    whole = b"one\ntwo\nthree\n"
    platform.answer(
        "GET",
        "/v1/jobs/7/logs",
        Reply(chunks=(whole[:6],), breaks=True),
        Reply(chunks=(whole[:3], whole[3:10])),
        Reply(chunks=(whole,)),
    )
    ended = msgspec.structs.replace(JOB, state="succeeded")
    platform.answer("GET", "/v1/jobs/7", JOB, ended)
    async with client_of(platform) as client:
        chunks = [chunk async for chunk in client.logs(7, task="7-1-worker-0", follow=True)]
    assert b"".join(chunks) == whole
    assert platform.requests("GET", "/v1/jobs/7/logs")[0].query == {"task": "7-1-worker-0", "follow": "true"}


async def test_waiting_outlives_a_restart_of_the_platform(platform: FakePlatform) -> None:
    ended = msgspec.structs.replace(JOB, state="failed", exit_code=3)
    platform.answer("GET", "/v1/jobs/7", *[Reply(breaks=True)] * 20, JOB, ended)
    async with client_of(platform) as client:
        assert await client.wait(7) == ended


@pytest.mark.parametrize("kind", [Client, SyncClient])
def test_nobody_forgets_to_say_for_whom_a_token_is(kind: type[Client] | type[SyncClient]) -> None:
    """Without a user the platform refuses it, always."""
    assert signature(kind.issue_token).parameters["user"].default is Parameter.empty
