"""Under any endless stream of smaller jobs, a job that fits starts no later than its date plus the longest time limit.

One test per thing that can keep a job waiting: room of the pool, each kind of limit, a strict level, a priority stream.
"""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.clockwork import Clockwork
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import cycle, elasticity
from gangline_core.cluster import LevelRule, Pool
from gangline_core.facts import HoldSet, LimitDate, PoolSet, RoundDecided, RoundOpened
from gangline_core.groups import User
from gangline_core.reasons import ReasonCode
from gangline_core.telling.explain import explain

SMALL_S, LIMIT_S = 45, 50
"""How long small jobs run, and their time limit."""
CAME_S, STARVES_S = 25, 120
"""When the large job comes, and from what age on the policy puts it before everything younger."""
END_S = 260
"""Until then the stream goes on."""


def stream(clock: Clockwork, *, since_s: float = 0, until_s: float = END_S, every_s: float = 10, **fields: Any) -> None:
    """Small jobs of two GPUs without end, each of which runs for most of its time limit."""
    asked = {"gpus": 2, "time_limit_s": LIMIT_S, **fields}
    runs_s = asked["time_limit_s"] * SMALL_S / LIMIT_S
    for k in range(int((until_s - since_s) / every_s)):
        clock.arrive(since_s + every_s * k, spec(f"small-{k}", **asked), runs_s=runs_s)


def large_starts(clock: Clockwork, **fields: Any) -> float | None:
    """When a large job starts that comes into the stream."""
    asked = {"gpus": 8, "time_limit_s": 100, **fields}
    clock.arrive(CAME_S, spec("large", **asked), runs_s=80)
    clock.run(END_S)
    large = next(job.id for job in clock.world.state.kept.jobs.values() if job.spec.name == "large")
    return clock.first_start(large)


def two_nodes() -> tuple[Any, Any]:
    return node("n1"), node("n2")


LIMITS: dict[str, dict[str, Any]] = {
    "pool room": {},
    "group limit": {"groups": (group("lab", limit=gpu_amount(8)),)},
    "limit of a group above": {"groups": (group("org", limit=gpu_amount(8)), group("lab"), group("org/lab"))},
    "user limit": {"groups": (group("lab", user_limit=gpu_amount(8)),)},
    "limit on running jobs": {"groups": (group("lab", limit={"jobs": 4, **gpu_amount(8)}),)},
    "borrow limit": {"groups": (group("lab", guaranteed=gpu_amount(2), borrow_limit=gpu_amount(6)),)},
    "lend limit": {
        "groups": (
            group(limit=gpu_amount(16)),
            group("lab"),
            group("owner", guaranteed=gpu_amount(8), lend_limit=gpu_amount(0)),
        )
    },
    "model limit": {"groups": (group("lab", limit=gpu_amount(8, "A100")),)},
}


@pytest.mark.parametrize("ordering", ["fifo", "fair_share", "shortest_predicted"])
@pytest.mark.parametrize("kept_by", LIMITS)
def test_whatever_keeps_it_waiting_a_large_job_starts_in_time(kept_by, ordering):
    groups = LIMITS[kept_by].get("groups", (group("lab"),))
    nodes = (node("n1"),) if kept_by == "pool room" else two_nodes()
    clock = Clockwork(*nodes, groups=groups, ordering=ordering, preemption=False, starvation_s=STARVES_S)
    lab = "org/lab" if kept_by == "limit of a group above" else "lab"
    models = {"gpu_models": ["A100"]} if kept_by == "model limit" else {}
    stream(clock, group=lab, **models)
    started = large_starts(clock, group=lab, **models)
    assert started is not None
    delay_s = 0 if ordering == "fifo" else STARVES_S
    assert started - CAME_S <= delay_s + LIMIT_S + 1


@pytest.mark.parametrize("owed", [1, 4, 8])
@pytest.mark.parametrize("kept_by", ["pool room", "group limit", "limit of a group above", "user limit", "model limit"])
def test_a_group_that_is_owed_something_starts_its_large_job_in_time_as_well(kept_by, owed):
    """Its own small jobs are within the guarantee and the large one is not, since they use it: they do not pass it."""
    promised = gpu_amount(owed, "A100") if kept_by == "model limit" else gpu_amount(owed)
    groups = tuple(
        replace(own, guaranteed=promised) if own.path in ("lab", "org/lab") else own
        for own in LIMITS[kept_by].get("groups", (group("lab"),))
    )
    nodes = (node("n1"),) if kept_by == "pool room" else two_nodes()
    clock = Clockwork(*nodes, groups=groups, starvation_s=STARVES_S)
    lab = "org/lab" if kept_by == "limit of a group above" else "lab"
    models = {"gpu_models": ["A100"]} if kept_by == "model limit" else {}
    stream(clock, group=lab, **models)
    started = large_starts(clock, group=lab, **models)
    assert started is not None
    assert started - CAME_S <= LIMIT_S + 1


def test_a_model_that_a_job_did_not_name_keeps_it_no_longer():
    """It would take any; one kind is limited and contended, of the other there is too little."""
    clock = Clockwork(node("n1"), node("n2", model="V100", gpus=4), groups=(group("lab", limit=gpu_amount(8, "A100")),))
    stream(clock, group="lab", gpu_models=["A100"])
    started = large_starts(clock, group="lab")
    assert started is not None
    assert started - CAME_S <= LIMIT_S + 1


def test_a_user_below_a_group_that_others_fill_starts_in_time():
    """Two limits at once: the user's own and the group's, each under a stream of its own."""
    clock = Clockwork(
        *two_nodes(), groups=(group("lab", limit=gpu_amount(12), user_limit=gpu_amount(8)),), preemption=False
    )
    stream(clock, group="lab", user="ada")
    stream(clock, group="lab", user="eve", every_s=9.5)
    started = large_starts(clock, group="lab", user="ada")
    assert started is not None
    assert started - CAME_S <= LIMIT_S + LIMIT_S + 1


def test_the_limit_has_room_but_the_pool_has_not_and_still_it_starts_in_time():
    """Others fill the pool, its own group's small jobs would fill the limit again while it waits for room."""
    clock = Clockwork(node("n1"), groups=(group("lab", limit=gpu_amount(8)), group("others")), preemption=False)
    stream(clock, group="lab", gpus=1, every_s=7)
    stream(clock, group="others", gpus=1, every_s=7.5)
    started = large_starts(clock, group="lab")
    assert started is not None
    assert started - CAME_S <= 2 * LIMIT_S + 1


def test_who_waits_for_room_alone_holds_up_none_of_its_group_and_starts_in_time_though_they_fill_its_limit():
    """It waits for room first; small jobs of its group run elsewhere and fill the limit, where it then has a date."""
    groups = (group("lab", limit=gpu_amount(8)), group("others"))
    clock = Clockwork(node("n1"), node("small", gpus=4), groups=groups, preemption=False)
    stream(clock, group="others", gpus=1, every_s=5)
    stream(clock, group="lab", gpus=1, every_s=7, since_s=CAME_S + 1)
    started = large_starts(clock, group="lab")
    assert started is not None
    assert started - CAME_S <= 3 * LIMIT_S + 1


@pytest.mark.parametrize(("percent", "older"), [(100, 0), (25, 5)])
def test_a_strict_level_lets_nobody_wait_for_ever(percent, older):
    """The part of the pool on which age counts is two GPUs: the five small ones that are older have it in turn."""
    levels = {"strict": LevelRule(strict=True, head_wait_s=60)}
    policy = {"starvation_s": STARVES_S, "starvation_percent": percent, "levels": levels}
    for level in ("strict", "normal"):
        clock = Clockwork(node("n1"), ordering="priority", preemption=False, **policy)
        clock.world.tell("admission", PoolSet(pool=Pool(name="default", levels={"strict": 10, "normal": 0}), by="a"))
        stream(clock, level="strict")
        stream(clock, level="normal", every_s=11)
        started = large_starts(clock, level=level)
        assert started is not None, level
        assert started - CAME_S <= STARVES_S + older * SMALL_S + LIMIT_S + 1


@pytest.mark.parametrize("limit", [None, 8])
@pytest.mark.parametrize("preemption", [False, True])
def test_a_stream_of_higher_priority_is_passed_by_who_has_waited_long_enough(limit, preemption):
    groups = (group("lab", limit=gpu_amount(limit) if limit else {}),)
    nodes = two_nodes() if limit else (node("n1"),)
    clock = Clockwork(*nodes, groups=groups, ordering="priority", starvation_s=STARVES_S, preemption=preemption)
    stream(clock, group="lab", priority=100, protected_s=-1)
    stream(clock, group="lab", priority=0, since_s=CAME_S + 1, every_s=5.5)
    started = large_starts(clock, group="lab", protected_s=-1)
    assert started is not None
    assert started - CAME_S <= STARVES_S + LIMIT_S + 1


def test_without_ageing_a_priority_stream_goes_on_for_ever():
    clock = Clockwork(node("n1"), ordering="priority", starvation_s=0, preemption=False)
    stream(clock, priority=100, every_s=5)
    assert large_starts(clock) is None


def blocked_by_limit(**policy: Any) -> tuple[World, int]:
    """Of a limit of eight GPUs four are used for 1,000 s; a job of eight waits; the pool has 16."""
    world = World(*two_nodes(), groups=[group("lab", limit=gpu_amount(8)), group("others")])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False, **policy)
    world.submit_running(spec(gpus=4, group="lab", time_limit_s=1_000), "n1")
    return world, world.submit(gpus=8, group="lab")


def test_below_its_limit_only_those_pass_who_end_in_time_or_leave_it_enough():
    world, large = blocked_by_limit()
    late = world.submit(gpus=2, group="lab", time_limit_s=1_001)
    brief = world.submit(gpus=2, group="lab", time_limit_s=1_000)
    other = world.submit(gpus=2, group="others")
    decided = world.round()
    assert decided is not None
    assert decided.limit_dates == (LimitDate(job=large, start_ms=world.at + 1_000_000),)
    assert not world.job(late).tasks
    assert world.reason(late) == ReasonCode.LIMIT_KEPT
    assert world.job(brief).tasks
    assert world.job(other).tasks, "the room of other groups stays open"


def test_what_the_dated_job_leaves_of_the_limit_others_may_have():
    world = World(*two_nodes(), groups=[group("lab", limit=gpu_amount(8))])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="lab", time_limit_s=1_000), "n1")
    world.submit(gpus=6, group="lab")
    first, second = world.submit(gpus=2, group="lab"), world.submit(gpus=2, group="lab")
    world.round()
    assert world.job(first).tasks
    assert not world.job(second).tasks


def test_a_dated_job_is_told_its_date_and_those_behind_it_for_whom_they_wait():
    world, large = blocked_by_limit()
    late = world.submit(gpus=2, group="lab")
    world.round()
    told = explain(world.state, large, world.at)
    assert told.reason is not None
    assert told.reason.code == ReasonCode.GROUP_LIMIT
    assert told.start_to_ms == world.at + 1_000_000
    assert "kept for it" in told.start_note
    behind = explain(world.state, late, world.at)
    assert f"job {large}" in behind.sentence


def test_a_date_on_a_limit_stays_with_its_job_and_does_not_run_away():
    world = World(*two_nodes(), groups=[group("lab", limit=gpu_amount(8))])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="lab"), "n1")
    large = world.submit(gpus=8, group="lab")
    world.round()
    [first] = world.state.kept.pools["default"].limit_dates
    assert first.job == large
    world.wait(3_600).submit(gpus=8, group="lab")
    world.submit(gpus=1, group="lab", time_limit_s=60)
    world.round()
    assert world.state.kept.pools["default"].limit_dates == (first,)


def test_a_limit_over_two_pools_is_kept_in_both():
    world = World(node("n1"), node("p1", pool="other"), groups=[group("lab", limit=gpu_amount(8))])
    for pool in ("default", "other"):
        world.set_policy(pool, ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="lab", time_limit_s=1_000), "n1")
    world.submit(gpus=8, group="lab")
    world.round()
    late = world.submit(gpus=2, group="lab", pool="other")
    brief = world.submit(gpus=2, group="lab", pool="other", time_limit_s=100)
    world.round("other")
    assert not world.job(late).tasks
    assert world.job(brief).tasks


def test_what_one_pool_no_longer_keeps_below_a_limit_the_others_look_at_again():
    world = World(node("n1"), node("p1", pool="other"), groups=[group("lab", limit=gpu_amount(8))])
    for pool in ("default", "other"):
        world.set_policy(pool, ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="lab", time_limit_s=1_000), "n1")
    dated = world.submit(gpus=8, group="lab")
    world.round()
    late = world.submit(gpus=2, group="lab", pool="other")
    world.round("other")
    assert not world.job(late).tasks
    assert not cycle.round_due(world.state, "other")
    pool = world.state.kept.pools["default"]
    world.tell("queue.default", RoundOpened(pool="default", round=pool.rounds + 1, candidates=(), terms=(), waiting=1))
    world.tell("placement.default", RoundDecided(pool="default", round=pool.rounds, refusals=(), unplaced=1, digest=""))
    assert dated not in {date.job for date in pool.limit_dates}
    assert cycle.round_due(world.state, "other")
    world.round("other")
    assert world.job(late).tasks


def test_who_is_owed_its_guarantee_need_not_wait_for_a_dated_job():
    groups = [group("org", limit=gpu_amount(8)), group("org/lab"), group("org/owner", guaranteed=gpu_amount(2))]
    world = World(*two_nodes(), groups=groups).set_policy(ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="org/lab", time_limit_s=1_000), "n1")
    world.submit(gpus=8, group="org/lab")
    owed = world.submit(gpus=2, group="org/owner")
    world.round()
    assert world.job(owed).tasks


def test_members_that_join_take_nothing_that_is_kept_below_a_limit():
    world = World(*two_nodes(), groups=[group("lab", limit=gpu_amount(8))])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False, shrink=False)
    asked = spec(gpus=1, tasks=4, minimum=4, maximum=8, group="lab", time_limit_s=1_000)
    elastic = world.submit_running(asked, "n1")
    world.submit_running(spec(gpus=2, group="lab", time_limit_s=500), "n1")
    world.submit(gpus=4, group="lab")
    world.round()
    proposals = elasticity.propose(world.state, "default", world.at)
    if proposals:
        world.tell("elastic.default", *proposals)
        world.round()
    assert world.job(elastic).sizes == {"worker": 4}


def test_users_own_limits_are_dated_one_by_one():
    users = [User(name=name, group="lab", limit=gpu_amount(4)) for name in ("ada", "eve")]
    world = World(*two_nodes(), groups=[group("lab")], users=users)
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False)
    for name in ("ada", "eve"):
        world.submit_running(spec(gpus=2, group="lab", user=name, time_limit_s=100), "n1")
    large = [world.submit(gpus=4, group="lab", user=name) for name in ("ada", "eve")]
    decided = world.round()
    assert decided is not None
    assert [dated.job for dated in decided.limit_dates] == large


@pytest.mark.parametrize("times", [{}, {"time_limit_s": 1_000}])
def test_who_waits_below_its_own_limit_keeps_nothing_of_what_lies_above_for_when_its_own_work_ends(times):
    """Nobody knows when that is; but when it does, the same room is free below the group's limit as well."""
    users = [User(name="ada", group="lab", limit=gpu_amount(2)), User(name="eve", group="lab")]
    world = World(node("n1"), groups=[group("lab", limit=gpu_amount(4))], users=users)
    world.set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=2, group="lab", user="ada", **times), ("n1", [0, 1]))
    world.submit_running(spec(gpus=1, group="lab", user="eve", **times), ("n1", [2]))
    first = world.submit(gpus=1, group="lab", user="ada", **times)
    second = world.submit(gpus=1, group="lab", user="eve", **times)
    decided = world.round()
    assert decided is not None
    assert [dated.job for dated in decided.limit_dates] == [first]
    assert [placed.job for placed in decided.placements] == [second]


def test_who_has_waited_long_enough_loses_nothing_of_what_it_counts_on_to_higher_priority():
    """Short jobs that may pass are evicted by long ones of higher priority, which are not to stay beyond the date."""
    clock = Clockwork(node("n1"), ordering="priority", starvation_s=STARVES_S)
    long_s = 300
    stream(clock, priority=100, time_limit_s=long_s, every_s=25, until_s=900)
    stream(clock, priority=0, time_limit_s=40, since_s=CAME_S + 1, every_s=10, until_s=900)
    clock.arrive(CAME_S, spec("large", gpus=8, time_limit_s=100, protected_s=-1), runs_s=80)
    clock.run(900)
    large = next(job.id for job in clock.world.state.kept.jobs.values() if job.spec.name == "large")
    started = clock.first_start(large)
    assert started is not None
    assert started - CAME_S <= STARVES_S + long_s + 1


def test_what_is_kept_for_a_job_is_free_again_as_soon_as_that_is_held():
    for limited in (False, True):
        world = World(*two_nodes() if limited else (node("n1"),), groups=[group("lab", limit=gpu_amount(8))])
        world.set_policy(ordering="fifo", starvation_s=0)
        world.submit_running(spec(gpus=6, group="lab", time_limit_s=1_000), "n1")
        large = world.submit(gpus=8, group="lab")
        small = world.submit(gpus=2, group="lab")
        world.round()
        assert not world.job(small).tasks
        world.tell("admission", HoldSet(job=large, held=True, by="u"))
        assert cycle.round_due(world.state, "default")
        world.round()
        assert world.job(small).tasks


def test_who_asks_nothing_of_what_a_limit_keeps_need_not_wait_though_others_took_more_than_is_left():
    """Whoever is owed its guarantee took it; a job without GPUs was told that they are kept."""
    groups = [group("lab", limit=gpu_amount(4)), group("lab/a", guaranteed=gpu_amount(2))]
    world = World(node("n1"), groups=groups).set_policy(ordering="fifo")
    world.submit_running(spec(gpus=2, group="lab", preemptible=False), "n1")
    dated = world.submit(gpus=4, group="lab")
    owed, plain = world.submit(gpus=1, group="lab/a"), world.submit(gpus=0, cpus=1, group="lab")
    world.round()
    assert [bool(world.job(one).tasks) for one in (dated, owed, plain)] == [False, True, True]
