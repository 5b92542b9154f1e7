"""When what is used below a limit comes back is worked out again only for jobs of which something is another."""

import pytest
from tests.make import World, gpu_amount, group, node, spec

from gangline_core.job import Job, Task
from gangline_core.limits import ends
from gangline_core.limits.ends import Bound, Headroom, LimitEnds
from gangline_core.reasons import ReasonCode
from gangline_core.table import Table


def headroom(world: World) -> Headroom:
    table = Table(world.state, "default", world.at)
    rung = table.ledger.group_rungs("lab")[0]
    return LimitEnds(world.state, table.ledger, world.at).headroom(Bound(rung, "gpu_milli", 1))


def test_ends_are_remembered_until_a_job_or_a_task_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(node("n1", gpus=8), groups=[group("lab", limit=gpu_amount(8))])
    jobs = [world.submit_running(spec(gpus=2, group="lab", time_limit_s=s), "n1") for s in (600, 1200, 300)]
    asked: list[int] = []
    original = ends.expected_end_ms

    def counted(task: Task, job: Job) -> int:
        asked.append(job.id)
        return original(task, job)

    monkeypatch.setattr(ends, "expected_end_ms", counted)
    first = headroom(world)
    assert first.jobs[1:] == [jobs[2], jobs[0], jobs[1]]
    assert headroom(world.wait(5)).ends_ms[1:] == first.ends_ms[1:]
    assert sorted(asked) == sorted(jobs), "each is asked once, whatever time it is"
    asked.clear()
    world.cancel(jobs[1])
    told = headroom(world)
    assert (asked, told.jobs[1]) == ([jobs[1]], jobs[1]), "it was told to stop, and gives back within its grace"
    world.wait(301)
    overdue = headroom(world)
    assert overdue.ends_ms[1:3] == [world.at, world.at], "who is late ends now"
    world.stop_all()
    assert jobs[1] not in headroom(world).jobs
    assert jobs[1] not in world.state.live_index.lasting
    asked.clear()
    world.state.live_index.lasting.clear()
    anew = headroom(world)
    assert asked
    assert headroom(world) == anew


def test_what_was_dropped_again_does_not_come_back() -> None:
    world = World(node("n1", gpus=8), groups=[group("lab", limit=gpu_amount(8))])
    world.submit_running(spec(gpus=2, group="lab", time_limit_s=600), "n1")
    job = world.job(world.submit(group="lab", gpus=3))
    table = Table(world.state, "default", world.at)
    bound, found = (
        Bound(table.ledger.group_rungs("lab")[0], "gpu_milli", 1),
        LimitEnds(world.state, table.ledger, world.at),
    )
    before = found.headroom(bound)
    for end_ms in (world.at + 60_000, world.at + 90_000):
        found.add(job, gpu_amount(3), end_ms=end_ms)
    found.drop(job, gpu_amount(3))
    assert [end - world.at for end in found.headroom(bound).ends_ms] == [0, 60_000, 600_000], "what was told last"
    found.drop(job, gpu_amount(3))
    assert found.headroom(bound) == before


def test_what_is_kept_from_one_group_says_nothing_of_when_another_has_its_turn() -> None:
    """Both ask what is left below the root; the keeper is not kept from what it keeps itself."""
    keeper = group("x", guaranteed=gpu_amount(4), lend_limit=gpu_amount(0), limit={"jobs": 1})
    other = group("y", guaranteed=gpu_amount(4), lend_limit=gpu_amount(0))
    world = World(node("n1", gpus=8), node("n2", gpus=8), groups=[keeper, other, group("lab")])
    world.set_policy(ordering="priority", preemption=False)
    running = world.submit_running(spec(gpus=1, group="x", time_limit_s=100), "n1")
    world.submit_running(spec(gpus=8, group="lab", time_limit_s=1000), "n2")
    kept_out = world.submit(gpus=2, group="lab", priority=5)
    behind = world.submit(gpus=1, group="x")
    decided = world.round()
    assert decided is not None
    assert world.reason(kept_out) == ReasonCode.NOT_LENT
    starts_ms = {date.job: date.start_ms for date in decided.limit_dates}
    assert starts_ms[behind] == world.job(running).started_ms + 100_000
