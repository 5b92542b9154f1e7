"""Nobody goes on or starts before those for whom it would be sent away at once: it stands back, and waits."""

import pytest
from msgspec.structs import replace
from tests.core.test_capacity import picture
from tests.core.test_pausing import gpu_spec, stand_still
from tests.make import SECOND, T0, World, gpu_amount, group, node, spec

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.groups import BudgetMode
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.making_room import standing_back
from gangline_core.making_room.claims import MARGIN_MS
from gangline_core.making_room.hanging import HANGS_MS_MAX, Hanging, hanging, waits_for_hanging
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.standing_back import Going, StandingBack
from gangline_core.pauses.resuming import honour_paused
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import ServiceClass
from gangline_core.table import Table
from gangline_core.wake import next_wake_ms


def paused_below_a_limit(service_class: ServiceClass, priority: int) -> tuple[World, JobId, JobId, list[JobId]]:
    """A job was paused for the first of three, more important ones, that a limit lets run one at a time."""
    world = World(node("n1"), groups=[group("lab", limit=gpu_amount(1))])
    world.set_policy(ordering="priority" if priority else "fifo", starvation_s=0)
    loose = world.submit_running(gpu_spec(group="lab", service_class=service_class), "n1")
    first, *others = [world.submit(gpus=1, group="lab", priority=priority) for _ in range(3)]
    at_rest(world)
    assert world.job(loose).state == JobState.PAUSED
    assert world.job(first).state == JobState.RUNNING
    return world, loose, first, others


def at_rest(world: World) -> None:
    """Rounds until none is due, and every task that was told to stand still does; time stays."""
    for _ in range(20):
        world.settle(stops=False)
        stand_still(world)
        if not cycle.round_due(world.state, "default"):
            return
    raise AssertionError("rounds never end")


def pause_of(world: World, job: JobId) -> int:
    """Since when the job stands still."""
    pause = world.job(job).pause
    assert pause is not None
    return pause.since_ms


@pytest.mark.parametrize(("service_class", "priority"), [(ServiceClass.OPPORTUNISTIC, 0), (ServiceClass.GUARANTEED, 3)])
def test_a_paused_job_does_not_go_on_before_whom_it_would_be_paused_for(
    service_class: ServiceClass, priority: int
) -> None:
    """The limit's room went to the paused one, and the others waited for something else, or paused it once more."""
    world, loose, first, others = paused_below_a_limit(service_class, priority)
    since = pause_of(world, loose)
    for ended, next_one in zip((first, *others), others, strict=False):
        world.wait(60)
        world.finish(ended)
        at_rest(world)
        assert world.job(next_one).state == JobState.RUNNING
        assert world.job(loose).state == JobState.PAUSED
    assert pause_of(world, loose) == since, "it was paused once, and not anew for each"
    world.finish(others[-1])
    at_rest(world)
    assert world.job(loose).state == JobState.RUNNING, "nobody waits any more"


def test_nobody_starts_before_whom_it_would_be_sent_away_for() -> None:
    """An opportunistic job came first by its priority and took what the other needs below their limit."""
    world = World(node("n1"), groups=[group("lab", limit=gpu_amount(2))])
    world.set_policy(ordering="priority", starvation_s=0)
    loose = world.submit(gpus=0.5, group="lab", priority=1, service_class=ServiceClass.OPPORTUNISTIC)
    firm = world.submit(gpus=2, group="lab", service_class=ServiceClass.GUARANTEED)
    world.settle()
    assert world.job(firm).state == JobState.RUNNING
    assert world.job(loose).state == JobState.WAITING
    assert world.reason(loose) == ReasonCode.GROUP_LIMIT
    assert world.job(loose).attempt == 0, "it never began"


def test_who_starves_does_not_start_on_what_is_taken_back_from_it_at_once() -> None:
    """Its age keeps it from being outranked, and from nothing else: it began, and went at the next look."""
    world = World(node("n1", gpus=1), groups=[group("lab", guaranteed=gpu_amount(1)), group("guests")])
    world.set_policy(ordering="priority", starvation_s=60)
    filler = world.submit_running(spec(group="lab", gpus=1, preemptible=False), "n1")
    old = world.submit(gpus=1, group="guests")
    world.wait(61)
    owed = world.submit(gpus=1, group="lab", priority=10)
    world.finish(filler)
    at_rest(world)
    assert (world.job(owed).state, world.job(old).state) == (JobState.RUNNING, JobState.WAITING)
    assert world.job(old).attempt == 0, "it never began"


def test_who_stands_back_starts_in_what_the_other_leaves() -> None:
    world = World(node("n1", gpus=4))
    world.set_policy(ordering="priority", starvation_s=0)
    two, one = [world.submit(gpus=gpus, priority=1, service_class=ServiceClass.OPPORTUNISTIC) for gpus in (2, 1)]
    firm = world.submit(gpus=3, service_class=ServiceClass.GUARANTEED)
    decided = world.round()
    assert decided is not None
    assert {placement.job for placement in decided.placements} == {firm, one}
    assert world.reason(two) == ReasonCode.INSUFFICIENT_GPUS


def test_nobody_stands_back_for_whom_that_does_not_help() -> None:
    world = World(node("n1", gpus=4))
    world.set_policy(ordering="priority", starvation_s=0)
    loose = world.submit(gpus=2, priority=1, service_class=ServiceClass.OPPORTUNISTIC)
    world.submit(gpus=4, tasks=2, service_class=ServiceClass.GUARANTEED)
    world.settle()
    assert world.job(loose).state == JobState.RUNNING


@pytest.mark.parametrize("between", [{"preempts": False}, {"service_class": "opportunistic", "preemptible": False}])
@pytest.mark.parametrize("lab", [{}, {"limit": gpu_amount(4)}])
def test_what_one_leaves_for_a_stronger_one_is_whose_who_comes_before_that(
    between: dict[str, object], lab: dict[str, object]
) -> None:
    """It started again, as that was in vain, and was sent away at the next event for the last, which passed them."""
    world = World(node("n1", gpus=8 if lab else 4), groups=[group("lab", **lab)])
    world.set_policy(ordering="fifo", starvation_s=0)
    asks = {"gpus": 4, "group": "lab"}
    loose = world.submit(**asks, service_class=ServiceClass.OPPORTUNISTIC)
    kind = ServiceClass(between.get("service_class", "burstable"))
    first = world.submit(**{**asks, **between, "service_class": kind})
    last = world.submit(**asks)
    world.settle()
    assert [world.job(job).state for job in (first, loose, last)] == [
        JobState.RUNNING,
        JobState.WAITING,
        JobState.WAITING,
    ]
    assert world.job(loose).attempt == 0
    assert world.round() is None or not world.state.kept.claims
    world.finish(first)
    world.settle()
    assert [world.job(job).state for job in (loose, last)] == [JobState.WAITING, JobState.RUNNING]


def test_what_one_who_steps_back_leaves_is_offered_to_others_at_once() -> None:
    """A paused job of two GPUs steps back for one of one; who was refused before may have the other."""
    world = World(node("n1", gpus=2))
    world.set_policy(ordering="fifo", starvation_s=0)
    loose = world.submit_running(gpu_spec(gpus=2, service_class=ServiceClass.OPPORTUNISTIC), "n1")
    first = world.submit(gpus=2)
    at_rest(world)
    assert (world.job(loose).state, world.job(first).state) == (JobState.PAUSED, JobState.RUNNING)
    small = world.submit(gpus=1, service_class=ServiceClass.OPPORTUNISTIC)
    firm = world.submit(gpus=1)
    at_rest(world)
    world.finish(first)
    at_rest(world)
    assert [world.job(job).state for job in (loose, small, firm)] == [
        JobState.PAUSED,
        JobState.RUNNING,
        JobState.RUNNING,
    ]


GROUPS = [group("owner", guaranteed=gpu_amount(8)), group("lender", guaranteed=gpu_amount(4)), group("x")]


def guarded(**policy) -> World:
    """Eight GPUs, all of them promised to one group, and some of these to another."""
    return World(node("n1"), groups=GROUPS).set_policy(**{"ordering": "fifo", "starvation_s": 0, **policy})


@pytest.mark.parametrize("ordering", ["fifo", "dominant_resource", "weighted"])
def test_who_is_owed_its_guarantee_stands_back_for_nobody(ordering: str) -> None:
    """It stood back for a more important job, and had that one evicted in the next round."""
    world = guarded(ordering=ordering, formula="-age_hours")
    owed = world.submit(gpus=8, group="owner")
    world.wait(1).submit(gpus=8, group="x", priority=5)
    assert [one.job for one in world.round().placements] == [owed]


def test_of_a_group_only_those_stand_back_who_are_beyond_its_guarantee() -> None:
    world = guarded()
    first, second = (world.submit(gpus=4, group="lender") for _ in range(2))
    large = world.submit(gpus=8, group="x", priority=5)
    assert [one.job for one in world.round().placements] == [first, second]
    small = guarded()
    first, second = (small.submit(gpus=4, group="lender") for _ in range(2))
    half = small.submit(gpus=4, group="x", priority=5)
    assert [one.job for one in small.round().placements] == [first, half]
    assert world.job(large).state == small.job(second).state == JobState.WAITING


def test_who_borrows_stands_back_for_whom_it_would_be_reclaimed() -> None:
    world = guarded(ordering="priority")
    borrower = world.submit(gpus=8, group="x", priority=5)
    owed = world.submit(gpus=8, group="owner")
    assert [one.job for one in world.round().placements] == [owed]
    assert world.job(borrower).state == JobState.WAITING


@pytest.mark.parametrize(("stays_mib", "stands_back"), [(1000, True), (0, False)])
def test_who_keeps_memory_while_it_stands_still_stands_back_as_it_would_be_evicted(
    stays_mib: int, stands_back: bool
) -> None:
    """Whole GPUs are not free while anything stays on them; who leaves all of them is paused, and loses nothing."""
    world = guarded(ordering="priority")
    borrower = world.submit(gpu_spec(8, stays_mib=stays_mib, group="x", priority=5))
    owed = world.submit(gpus=8, group="owner")
    decided = world.round()
    assert decided is not None
    assert [one.job for one in decided.placements] == [owed if stands_back else borrower]
    at_rest(world)
    world.wait(1).submit(gpus=8, group="x")
    at_rest(world)
    assert world.job(owed).state == JobState.RUNNING
    assert world.job(borrower).state == (JobState.WAITING if stands_back else JobState.PAUSED)


@pytest.mark.parametrize("is_owed", [True, False])
def test_a_victim_that_hangs_does_not_begin_again_before_whom_it_went_for(is_owed: bool) -> None:
    """The claim was given up meanwhile; the victim came first again, was evicted again, and so on for ever."""
    if is_owed:
        world = guarded(ordering="priority")
        victim = world.submit_running(spec(gpus=8, group="x", priority=5), "n1")
        waits = world.submit(gpus=8, group="owner")
    else:
        world = World(node("n1"), groups=[group("lab", limit=gpu_amount(1))])
        world.set_policy(ordering="priority", starvation_s=0)
        loose = spec(gpus=0.5, group="lab", priority=1, service_class=ServiceClass.OPPORTUNISTIC)
        victim = world.submit_running(loose, "n1")
        waits = world.submit(gpus=1, group="lab", service_class=ServiceClass.GUARANTEED)
    assert [one.job for one in world.round().evictions] == [victim]
    for _ in range(7):
        world.wait(10).round()
    assert waits not in world.state.kept.claims
    world.stop_all()
    world.settle()
    assert (world.job(waits).state, world.job(victim).state) == (JobState.RUNNING, JobState.WAITING)


def test_what_was_cleared_is_the_heirs_and_not_of_whom_it_was_cleared_of() -> None:
    """A more important job took over a claim: those who were paused for it went on, and all was cleared once more."""
    world = World(node("n1", gpus=4))
    world.set_policy(ordering="priority", starvation_s=0)
    loose = world.submit_running(gpu_spec(gpus=2, service_class=ServiceClass.OPPORTUNISTIC), "n1")
    world.submit_running(gpu_spec(gpus=2, service_class=ServiceClass.OPPORTUNISTIC, grace_s=60), "n1")
    waits = world.submit(gpus=4)
    world.round()
    told = next(task for task in world.state.tasks_of(world.job(loose)) if task.pause)
    world.tell("agent.sim", f.TaskPaused(task=told.id))
    assert waits in world.state.kept.claims
    heir = world.submit(gpus=1, priority=5)
    decided = world.round()
    assert decided is not None
    assert ([one.job for one in decided.placements], decided.resumes) == ([heir], ())
    assert world.job(loose).state == JobState.PAUSED


@pytest.mark.parametrize("lab", [{}, {"limit": gpu_amount(4)}])
def test_a_paused_job_does_not_go_on_before_one_that_needs_others_gone_besides(lab: dict[str, object]) -> None:
    """Seed 1700141: it went on, and both were sent away at the next event, it for good and not to a pause."""
    world = World(node("n1", gpus=2), node("n2", gpus=8 if lab else 2), groups=[group("lab", **lab), group("else")])
    world.set_policy(ordering="fifo", starvation_s=0)
    loose = world.submit_running(gpu_spec(gpus=1, group="lab", service_class=ServiceClass.OPPORTUNISTIC), "n1")
    other = world.submit_running(spec(gpus=2, group="lab", service_class=ServiceClass.OPPORTUNISTIC), "n2")
    first = world.submit(gpus=2, group="lab")
    at_rest(world)
    assert world.job(loose).state == JobState.PAUSED
    large = world.submit(gpus=2, tasks=2, group="lab")
    at_rest(world)
    world.finish(first)
    decided = world.round()
    assert decided is not None
    assert (decided.resumes, [one.job for one in decided.evictions]) == ((), [other])
    world.settle()
    assert world.job(large).state == JobState.RUNNING
    assert world.job(loose).state == JobState.PAUSED, "it lost nothing"
    world.finish(large)
    at_rest(world)
    assert world.job(loose).state == JobState.RUNNING


def test_a_look_in_vain_leaves_all_as_it_was() -> None:
    """What reservations leave was a little less after each."""
    world = World(node("n1", gpus=2))
    loose = world.submit_running(gpu_spec(gpus=2, service_class=ServiceClass.OPPORTUNISTIC), "n1")
    first = world.submit(gpus=2)
    at_rest(world)
    large = world.submit(gpus=4, priority=1)
    world.finish(first)
    table = Table(world.state, "default", world.at)
    honour_paused(table)
    assert table.resumes == [loose]
    table.guarded = table.room.copy()
    before = picture(table.room), picture(table.guarded), list(table.taken)
    assert not Going(table, Preemptor(table), StandingBack()).make_way(
        world.job(large), Reason(code=ReasonCode.INSUFFICIENT_GPUS)
    )
    assert (picture(table.room), picture(table.guarded), table.taken) == before
    assert table.resumes == [loose]


def test_a_look_in_vain_keeps_nobody_from_going_on() -> None:
    """What a limit keeps for others is kept from who starts, and it was asked of who had its place back already."""
    world = World(node("n1", gpus=2), groups=[group("lab", limit=gpu_amount(4))])
    loose = world.submit_running(gpu_spec(gpus=2, group="lab", service_class=ServiceClass.OPPORTUNISTIC), "n1")
    first = world.submit(gpus=2, group="lab")
    at_rest(world)
    large = world.submit(gpus=4, group="lab", priority=1)
    world.finish(first)
    table = Table(world.state, "default", world.at)
    honour_paused(table)
    table.ledger.doubt = lambda _job, _amounts: Reason(code=ReasonCode.LIMIT_KEPT)
    table.refuse(world.job(large), Reason(code=ReasonCode.INSUFFICIENT_GPUS))
    taken, before = list(table.taken), table.refused_before
    assert not Going(table, Preemptor(table), StandingBack()).make_way(
        world.job(large), Reason(code=ReasonCode.INSUFFICIENT_GPUS)
    )
    assert (table.resumes, table.kept_for, table.taken) == ([loose], {loose}, taken)
    assert table.refused_before == before, "nobody took room, so nobody who was refused has to be looked at again"


def test_nobody_steps_back_in_thought_where_what_it_takes_is_less_than_the_limit_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(node("n1", gpus=8), groups=[group("lab", limit=gpu_amount(4))])
    loose = world.submit_running(gpu_spec(gpus=1, group="lab", service_class=ServiceClass.OPPORTUNISTIC), "n1")
    world.submit_running(spec(gpus=2, group="lab", priority=9), "n1")
    first = world.submit(gpus=2, group="lab")
    at_rest(world)
    assert world.job(loose).state == JobState.PAUSED
    world.finish(first)
    large, small = (world.job(world.submit(gpus=gpus, group="lab", priority=1)) for gpus in (3, 2))
    table = Table(world.state, "default", world.at)
    honour_paused(table)
    assert table.resumes == [loose]
    reason = Reason(code=ReasonCode.GROUP_LIMIT)
    with monkeypatch.context() as patch:
        patch.setattr(standing_back, "_stay", lambda *_: pytest.fail("somebody stepped back"))
        assert not Going(table, Preemptor(table), StandingBack()).make_way(large, reason)
    assert Going(table, Preemptor(table), StandingBack()).make_way(small, reason)
    assert table.resumes == []


def test_who_waits_on_for_one_leaves_room_below_the_limit_for_equal_ones_too() -> None:
    """Seed 1600239: they were refused with what was used before, and could have started until the next event."""
    world = World(node("n1"), groups=[group("lab", limit=gpu_amount(2))])
    loose = world.submit_running(gpu_spec(gpus=2, group="lab", service_class=ServiceClass.OPPORTUNISTIC), "n1")
    first = world.submit(gpus=2, group="lab")
    at_rest(world)
    assert world.job(loose).state == JobState.PAUSED
    world.finish(first)
    small = [world.submit(gpus=1, group="lab", priority=1) for _ in range(3)]
    decided = world.round()
    assert decided is not None
    assert ([one.job for one in decided.placements], decided.resumes) == (small[:2], ())


def test_equal_jobs_are_each_looked_at_beside_those_who_started_before_them() -> None:
    """For the second it was taken for tried: one stood back for the first, and one was before it again."""
    world = World(node("n1", gpus=2))
    world.set_policy(ordering="fifo", starvation_s=0, backfill_depth=0)
    large = world.submit(gpus=2, service_class=ServiceClass.OPPORTUNISTIC)
    first = world.submit(gpus=1)
    small = world.submit(gpus=1, service_class=ServiceClass.OPPORTUNISTIC)
    second = world.submit(gpus=1)
    decided = world.round()
    assert decided is not None
    assert [one.job for one in decided.placements] == [first, second]
    assert world.job(large).state == world.job(small).state == JobState.WAITING


def test_nobody_starts_on_a_budget_for_whose_sake_it_would_be_sent_away() -> None:
    """What its run may cost came back when it was evicted at the next look, and paid for the other's run."""
    safe = group("lab", budget_gpu_hours=1, budget_mode=BudgetMode.SAFE)
    world = World(node("n1"), groups=[safe]).set_policy(ordering="fifo", starvation_s=0)
    weak, strong = (world.submit(gpus=1, time_limit_s=3_000, group="lab", priority=own) for own in (0, 9))
    world.settle()
    assert [world.job(job).state for job in (weak, strong)] == [JobState.WAITING, JobState.RUNNING]
    assert (world.job(weak).attempt, world.reason(weak)) == (0, ReasonCode.BUDGET_SHORT)


def one_hangs(dates: int = 1, **lab) -> tuple[World, JobId, JobId, JobId]:
    """Two loose jobs go for a firm one; one of them hangs until the claim is given up."""
    world = World(node("n1"), groups=[group("lab", **lab)])
    world.set_policy(ordering="fifo", starvation_s=0, backfill_depth=dates)
    loose = spec(gpus=4, group="lab", service_class=ServiceClass.OPPORTUNISTIC, grace_s=1)
    hangs, gone = (world.submit_running(loose, "n1") for _ in range(2))
    firm = world.submit(gpus=8, group="lab", service_class=ServiceClass.GUARANTEED)
    world.round()
    assert firm in world.state.kept.claims
    world.exit(*world.job(gone).tasks, code=143, cause=f.ExitCause.STOPPED).empty(*world.job(gone).tasks)
    for _ in range(4):
        world.wait(10).round()
    assert firm not in world.state.kept.claims
    return world, hangs, gone, firm


@pytest.mark.parametrize("lab", [{}, {"limit": gpu_amount(8)}])
def test_who_went_for_a_job_that_still_waits_does_not_begin_again_before_it(lab: dict[str, object]) -> None:
    """Seed 1600486: it did, and went for it again as soon as the other was gone, and hung; in turn, without end."""
    world, hangs, gone, firm = one_hangs(**lab)
    assert world.job(gone).state == JobState.WAITING, "it would go at once when the other is gone"
    world.stop_all()
    world.settle()
    assert [world.job(job).state for job in (firm, hangs, gone)] == [
        JobState.RUNNING,
        JobState.WAITING,
        JobState.WAITING,
    ]


def one_hangs_on_a_closed_node(**policy) -> tuple[World, JobId, JobId, JobId]:
    """The same on two machines; that on which one of them hangs takes no work, so that the firm one has no date."""
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    world.set_policy(ordering="fifo", starvation_s=0, **policy)
    hangs, gone = (
        world.submit_running(spec(gpus=4, service_class=ServiceClass.OPPORTUNISTIC, grace_s=1), name)
        for name in ("n1", "n2")
    )
    firm = world.submit(gpus=4, tasks=2, service_class=ServiceClass.GUARANTEED)
    world.round()
    assert firm in world.state.kept.claims
    for _ in range(4):
        world.wait(10).round()
    assert firm not in world.state.kept.claims
    world.see(node("n1", gpus=4, problem="a task does not end"))
    world.exit(*world.job(gone).tasks, code=143, cause=f.ExitCause.STOPPED).empty(*world.job(gone).tasks)
    world.wait(1).settle(stops=False)
    return world, hangs, gone, firm


def test_who_made_way_waits_for_others_that_hang_though_the_job_it_was_for_has_no_date() -> None:
    """Seed 1700162: it began again each time, and hung in its turn as soon as the other was gone, without end."""
    world, hangs, gone, firm = one_hangs_on_a_closed_node()
    assert world.job(gone).state == JobState.WAITING
    assert world.reason(gone) == ReasonCode.OTHERS_HANG
    world.stop_all().see(node("n1", gpus=4))
    world.settle()
    assert [world.job(job).state for job in (firm, hangs, gone)] == [
        JobState.RUNNING,
        JobState.WAITING,
        JobState.WAITING,
    ]


def test_nobody_waits_for_one_that_hangs_for_ever() -> None:
    world, _, gone, firm = one_hangs_on_a_closed_node()
    wake_ms = next_wake_ms(world.state, "default", world.at)
    assert wake_ms == T0 + SECOND + MARGIN_MS + HANGS_MS_MAX
    world.wait((wake_ms - world.at) / SECOND).round()
    world.settle(stops=False)
    assert (world.job(gone).state, world.job(firm).state) == (JobState.RUNNING, JobState.WAITING)


def test_nobody_waits_for_one_that_hangs_while_a_claim_waits_for_it_whoever_takes_that_over() -> None:
    """Seed 1500034: the round of a take-over kept others out for it, so that the first came to a claim once more."""
    world = World(node("n1", gpus=4))
    victim = spec(gpus=4, service_class=ServiceClass.OPPORTUNISTIC, grace_s=1)
    world.submit_running(victim, "n1")
    firm = world.submit(gpus=4)
    world.round()
    assert not hanging(Table(world.state, "default", world.at)), "as where a claim is overtaken"
    world.wait(31)
    assert list(hanging(Table(world.state, "default", world.at))) == [firm]


def test_who_made_way_for_one_that_does_not_wait_any_more_begins_again_at_once() -> None:
    world, _, gone, firm = one_hangs_on_a_closed_node()
    world.cancel(firm).settle(stops=False)
    assert world.job(gone).state == JobState.RUNNING


def test_who_went_for_a_job_that_lost_its_claim_to_another_runs_beside_that_one() -> None:
    """Nobody hangs: four GPUs idled while the one that took the claim over ran."""
    world = World(node("n1"))
    world.set_policy(ordering="fifo", starvation_s=0)
    loose = spec(gpus=4, service_class=ServiceClass.OPPORTUNISTIC, grace_s=1)
    went = [world.submit_running(loose, "n1") for _ in range(2)]
    first = world.submit(gpus=8, priority=1)
    world.round()
    assert first in world.state.kept.claims
    over = world.submit(gpus=4, priority=2)
    world.round()
    assert over in world.state.kept.claims
    assert first not in world.state.kept.claims
    world.stop_all().settle()
    assert sorted(world.in_state(JobState.RUNNING)) == [went[0], over]
    world.finish(over).settle()
    assert world.in_state(JobState.RUNNING) == [first], "it is pushed away when its time comes"


def test_who_went_for_a_job_that_ran_since_is_as_others_are() -> None:
    world, hangs, gone, firm = one_hangs()
    world.stop_all()
    world.settle()
    world.exit(*world.job(firm).tasks, code=1).empty(*world.job(firm).tasks)
    world.settle()
    assert world.job(hangs).state == world.job(gone).state == JobState.RUNNING


def test_who_goes_to_start_elsewhere_keeps_its_place_in_the_order() -> None:
    """It goes for itself, and would have stood behind everybody."""
    world = World(node("n1", gpus=4))
    mover, other = (world.submit(gpus=4) for _ in range(2))
    moved = replace(world.job(mover), yielded_to=(mover,))
    table = Table(world.state, "default", world.at)
    world.state.kept.jobs[mover] = moved
    candidates = [f.Candidate(job=job, score=0.0) for job in (mover, other)]
    assert [one.job for one in StandingBack().in_order(candidates)] == [mover, other]
    assert waits_for_hanging(table, moved, {mover: Hanging(tasks=1, until_ms=world.at + 1)}) is None
