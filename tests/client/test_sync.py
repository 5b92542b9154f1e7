"""The blocking SDK: the same calls, from a plain thread."""

import asyncio

import pytest
from tests.client.fake_platform import TOKEN, FakePlatform, Reply

from gangline_client import ProblemError, SyncClient
from gangline_wire import views as v

JOB = v.JobView(id=7, name="train", state="running", slurm="R", group="g", user="ada", pool="default")


async def test_a_plain_thread_can_submit_wait_and_read(platform: FakePlatform) -> None:
    platform.answer("POST", "/v1/jobs", JOB)
    platform.answer("GET", "/v1/jobs", v.JobPage(jobs=(JOB, JOB)))
    platform.answer("GET", "/v1/jobs/7/logs", Reply(chunks=(b"a", b"b")))

    def work() -> tuple[int, list[int], bytes]:
        with SyncClient(platform.url, TOKEN) as client:
            job = client.submit({"command": ["true"]})
            return job.id, [each.id for each in client.jobs()], b"".join(client.logs(7))

    assert await asyncio.to_thread(work) == (7, [7, 7], b"ab")


async def test_errors_cross_the_thread_and_closing_twice_is_fine(platform: FakePlatform) -> None:
    def work() -> None:
        client = SyncClient(platform.url, TOKEN)
        with pytest.raises(ProblemError):
            client.job(1)
        client.close()
        client.close()

    await asyncio.to_thread(work)


async def test_an_iteration_can_be_left_early(platform: FakePlatform) -> None:
    platform.answer("GET", "/v1/jobs/7/logs", Reply(chunks=(b"a", b"b", b"c")))

    def work() -> bytes:
        with SyncClient(platform.url, TOKEN) as client:
            for chunk in client.logs(7):
                return chunk
        return b""

    assert (await asyncio.to_thread(work)).startswith(b"a")
