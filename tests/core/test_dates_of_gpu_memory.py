"""A limit of GPU memory keeps its dates: whole cards count with all their memory, which is known only when they are."""

from typing import Any

import pytest
from tests.make import T0, World, gpu_amount, group, node, role, spec

from gangline_core.facts import GroupSet
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.room.cards import with_cards

CARD = 81_920
H100 = {"model": "H100", "gpu_memory_mib": CARD}


def start_of_large(world: World, *, seconds: int = 900) -> float:
    """When a job of eight GPUs that comes after a minute starts, in s, below an endless stream of small ones."""
    large, ends = 0, dict[int, int]()
    for second in range(0, seconds, 5):
        if second == 60:
            large = world.submit(group="lab", gpus=8, time_limit_s=60)
        ends[world.submit(group="lab", gpus=1, time_limit_s=60)] = 0
        world.round()
        begun = world.in_state(JobState.STARTING)
        if large in begun:
            return second
        world.start(*begun)
        ends |= {job: second + 60 for job in begun}
        world.wait(5)
        world.finish(*(job for job, end in ends.items() if 0 < end <= second + 5))
        ends = {job: end for job, end in ends.items() if not 0 < end <= second + 5}
    return float("inf")


@pytest.mark.parametrize("limit", [{"gpu_milli": 8000}, {"gpu_memory_mib": 8 * CARD}])
def test_no_stream_of_small_jobs_keeps_a_large_one_from_what_its_group_may_have(limit: dict[str, int]):
    world = World(*(node(f"n{k}", **H100) for k in range(3)), groups=[group("lab", limit=limit)])
    assert start_of_large(world) <= 60 + 60 + 60 + 60, "those before it, the longest time limit, and the rounds between"


def test_a_job_that_a_lowered_limit_shuts_out_for_good_keeps_nothing_from_others():
    world = World(*(node(f"n{k}", **H100) for k in range(4)), groups=[group("lab", limit={"gpu_memory_mib": 3 << 20})])
    running = world.submit_running(spec(group="lab", gpus=2, time_limit_s=3600), "n1")
    blocked = world.submit(group="lab", gpus=8, tasks=3)
    lowered = group("lab", limit={"gpu_milli": 24_000, "gpu_memory_mib": 1 << 20}, version=2)
    world.tell("admission", GroupSet(group=lowered, by="admin"))
    world.round()
    assert world.reason(blocked) == ReasonCode.GROUP_LIMIT
    other = world.submit(group="lab", gpus=8, time_limit_s=2 * 3600)
    world.round()
    assert world.job(other).state == JobState.STARTING
    assert world.job(running).state == JobState.RUNNING


def test_others_may_use_the_memory_that_the_dated_job_leaves():
    limit = {"gpu_memory_mib": 10 * CARD}
    world = World(*(node(f"n{k}", **H100) for k in range(3)), groups=[group("lab", limit=limit)])
    world.submit_running(spec(group="lab", gpus=3, time_limit_s=100), "n1")
    large = world.submit(group="lab", gpus=8, time_limit_s=3600)
    world.round()
    assert world.reason(large) == ReasonCode.GROUP_LIMIT
    two, more = (world.submit(group="lab", gpus=2, time_limit_s=3600) for _ in range(2))
    short = world.submit(group="lab", gpus=2, time_limit_s=100)
    world.round()
    assert [world.job(job).state for job in (two, more, short)] == [
        JobState.STARTING,
        JobState.WAITING,
        JobState.STARTING,
    ]
    assert world.reason(more) == ReasonCode.LIMIT_KEPT


def test_of_whole_cards_and_parts_of_others_all_memory_counts_for_the_date():
    world = World(node("n1", **H100), groups=[group("lab", limit={"gpu_memory_mib": 16 * CARD})])
    asked = spec(group="lab", roles=[role("train", gpus=4), role("eval", tasks=2, gpus=0.5, gpu_memory_mib=20_000)])
    told = with_cards(world.state.inventory("default"), asked, {})["gpu_memory_mib"]
    world.submit(asked)
    world.round()
    assert world.state.usage["lab"]["gpu_memory_mib"] == told == 4 * CARD + 2 * 20_000


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ({"gpu_memory_mib": CARD}, {"tasks": 2, "gpus": 0.5}),
        (gpu_amount(1), {"tasks": 2, "gpus": 0, "gpu_memory_mib": CARD // 2}),
    ],
)
def test_a_gang_of_shares_is_kept_all_that_they_will_count_with_below_a_limit(
    limit: dict[str, int], asked: dict[str, Any]
):
    """Half of the limit comes back at 10 s and the other at 50 s: others may use the first half till then."""
    world = World(node("n1", **H100), groups=[group("lab", limit=limit)])
    early, late = (world.submit(spec(group="lab", gpus=0.5, time_limit_s=seconds)) for seconds in (10, 50))
    world.settle()
    gang = world.submit(spec(group="lab", time_limit_s=100, **asked))
    world.settle()
    (date,) = world.state.kept.pools["default"].limit_dates
    assert (date.job, date.start_ms - T0) == (gang, 50_000)
    long, short = (world.submit(spec(group="lab", gpus=0.5, time_limit_s=seconds)) for seconds in (60, 30))
    world.wait(10).finish(early).settle()
    assert (world.reason(long), world.job(short).state) == (ReasonCode.LIMIT_KEPT, JobState.RUNNING)
    world.wait(30).finish(short).settle()
    world.wait(10).finish(late).settle()
    assert world.job(gang).state == JobState.RUNNING
