"""The output of one task: of one that the job had, and nothing untrue about it or about others."""

import pytest
from tests.services.gateway.conftest import Visitor
from tests.services.gateway.test_streams import finish, running, text_of, write

from gangline_gateway import output as gateway_output


@pytest.fixture(autouse=True)
def what_is_late_is_soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_output, "LATE_S_MAX", 0.05)


@pytest.mark.parametrize("task", ["worker-2", "1-1-worker-2", "1-2-worker-0", "1-0-worker-0", "1-999999-worker-0"])
async def test_a_task_that_the_job_never_had_is_refused_and_not_waited_for(visitor: Visitor, task: str) -> None:
    job = running(visitor, tasks=2)
    for one in ("worker-0", "worker-1"):
        write(visitor, job, b"done\n", task=one, end="0")
    finish(visitor, job)
    problem = await visitor.ask("una", "GET", f"/v1/jobs/{job}/logs?task={task}", status=400)
    assert problem["errors"][0]["message"].startswith("job 1 had no task 1-")


async def test_who_asks_for_one_task_is_told_of_that_one_that_its_end_is_missing(visitor: Visitor) -> None:
    job = running(visitor, tasks=2)
    write(visitor, job, b"done\n", end="0")
    write(visitor, job, b"begun\n", task="worker-1")
    finish(visitor, job)
    told = await text_of(visitor, job, "?task=worker-1")
    assert told == b"begun\n\n[gangline: the end of the output of 1-1-worker-1 did not arrive]\n"
    assert await text_of(visitor, job, "?task=worker-0") == b"done\n"


async def test_a_member_that_may_still_come_can_be_followed(visitor: Visitor) -> None:
    job = running(visitor, tasks=2)
    write(visitor, job, b"here\n", task="worker-5", end="0")
    assert await text_of(visitor, job, "?task=worker-5&follow=true") == b"here\n"
