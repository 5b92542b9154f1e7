"""The blocking SDK: the same calls, from a plain thread."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from tests.client.fake_platform import TOKEN, FakePlatform, Reply, problem

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


async def test_what_the_page_shows_runs_as_it_stands(
    platform: FakePlatform, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs/python.md").read_text(encoding="utf-8")
    shown = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    monkeypatch.setenv("GANGLINE_URL", platform.url)
    monkeypatch.setenv("GANGLINE_TOKEN", TOKEN)
    platform.answer("POST", "/v1/jobs", JOB, problem(422, "refused", "The job was refused", detail="too large"))
    told = v.ExplanationView(job=7, state="waiting", slurm="PD", sentence="Needs 4 GPUs.")
    platform.answer("GET", "/v1/jobs/7/explain", told)
    platform.answer("GET", "/v1/jobs/7", msgspec.structs.replace(JOB, state="succeeded"))
    platform.answer("GET", "/v1/jobs/7/logs", Reply(chunks=(b"epoch 1",)))
    await asyncio.to_thread(exec, shown[1], {})
    assert capsys.readouterr().out.splitlines() == ["Needs 4 GPUs.", "succeeded", "epoch 1", "too large"]
