"""A paused job stands still where it is, others use what it gives up, and it goes on in its place."""

import pytest
from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node, resources, spec

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.foresight.run_times import RunTimes
from gangline_core.job import JobState
from gangline_core.limits.accounting import charge
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.spec import JobSpec, Pausing, Role
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms

MOVES_OUT = Pausing()


def gpu_spec(gpus: float = 1, *, stays_mib: int = 0, **fields):
    return spec(gpus=gpus, pausing=Pausing(gpu_memory_mib=stays_mib), **fields)


def whole_spec(*, most_mib: int, stays_mib: int, **fields):
    """A whole GPU of which only so much memory is used."""
    needs = resources(gpus=1)
    worker = Role(
        name="worker", count=1, min_count=1, max_count=1, command=("true",),
        resources=type(needs)(gpu_milli=1000, gpu_memory_most_mib=most_mib, cpu_milli=1000, memory_mib=1024),
    )  # fmt: skip
    return spec(roles=[worker], pausing=Pausing(gpu_memory_mib=stays_mib), **fields)


def suspend(world: World, job: int, *, stands_still: bool = True) -> None:
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada", pause=True))
    if stands_still:
        stand_still(world)


def stand_still(world: World) -> None:
    """Every task that was told to stand still does."""
    told = [task for task in world.state.kept.tasks.values() if task.pause and task.working is None]
    for task in told:
        world.tell("agent.sim", f.TaskPaused(task=task.id))


def resume(world: World, job: int, *, urgent: bool = False) -> None:
    world.tell("admission", f.HoldSet(job=job, held=False, by="ada", urgent=urgent))


def test_room_comes_back_only_when_the_agent_saw_it_stand_still_and_its_memory_stays() -> None:
    world = World(node(gpus=1))
    job = world.submit_running(gpu_spec(0.5, stays_mib=5_000, gpu_memory_mib=20_000), "n1")
    suspend(world, job, stands_still=False)
    use = world.state.use["n1"]
    assert (world.job(job).state, use.gpu_milli[0], use.gpu_memory_mib[0]) == (JobState.PAUSED, 500, 20_000)
    stand_still(world)
    assert (use.gpu_milli[0], use.gpu_memory_mib[0], use.cpu_milli, use.memory_mib) == (0, 5_000, 0, 1024)
    assert world.reason(job) == ReasonCode.PAUSED
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}


def test_a_job_without_gpus_may_always_be_paused_and_one_with_gpus_only_if_it_says_so() -> None:
    world = World(node())
    cpu = world.submit_running(spec(gpus=0), "n1")
    gpu = world.submit_running(spec(gpus=1), "n1")
    suspend(world, cpu)
    suspend(world, gpu)
    assert (world.job(cpu).state, world.job(gpu).state) == (JobState.PAUSED, JobState.STOPPING)


def test_it_goes_on_in_its_place_when_asked_and_its_time_paused_is_not_charged() -> None:
    world = World(node(gpus=1), groups=[group()])
    job = world.submit_running(gpu_spec(), "n1")
    world.wait(100)
    suspend(world, job)
    world.wait(1000)
    resume(world, job)
    decided = world.round()
    assert decided.resumes == (job,)
    task = world.tasks(job)[0]
    assert (world.job(job).state, task.pause, task.gpu_milli, task.paused_ms) == (JobState.RUNNING, False, 1000, 10**6)
    world.wait(50).finish(job)
    [charged] = charge(world.state, world.at)
    assert charged.gpu_milli_ms == 150 * 1000 * 1000


def test_others_use_the_gpu_meanwhile_and_it_waits_for_them_with_a_reason() -> None:
    world = World(node(gpus=1))
    paused = world.submit_running(gpu_spec(), "n1")
    suspend(world, paused)
    other = world.submit(gpus=1)
    world.settle()
    assert world.job(other).state == JobState.RUNNING
    resume(world, paused)
    world.settle()
    assert (world.job(paused).state, world.reason(paused)) == (JobState.PAUSED, ReasonCode.PLACE_TAKEN)
    world.finish(other)
    world.settle()
    assert world.job(paused).state == JobState.RUNNING


def test_its_place_is_its_own_before_waiting_jobs_are_looked_at() -> None:
    world = World(node(gpus=1))
    paused = world.submit_running(gpu_spec(), "n1")
    suspend(world, paused)
    first = world.submit(gpus=1)
    world.settle()
    second = world.submit(gpus=1)
    resume(world, paused)
    world.settle()
    world.finish(first)
    world.settle()
    assert (world.job(paused).state, world.job(second).state) == (JobState.RUNNING, JobState.WAITING)


def test_a_limit_that_was_used_up_meanwhile_keeps_it_paused() -> None:
    world = World(node(gpus=2), groups=[group(), group("a", limit=gpu_amount(1))])
    paused = world.submit_running(gpu_spec(group="a"), "n1")
    suspend(world, paused)
    other = world.submit(gpus=1, group="a")
    world.settle()
    resume(world, paused)
    world.settle()
    assert (world.job(other).state, world.job(paused).state) == (JobState.RUNNING, JobState.PAUSED)


def test_an_urgent_one_has_lower_jobs_on_its_gpu_paused_and_they_go_on_after_it() -> None:
    # Inference over training: the standby keeps its model in the memory of the GPU that training works on.
    world = World(node(gpus=1))
    training = world.submit(whole_spec(most_mib=30_000, stays_mib=30_000, name="training"))
    world.settle()
    suspend(world, training)
    standby = world.submit(gpu_spec(0.9, stays_mib=8_000, gpu_memory_mib=8_000, priority=10, name="inference"))
    world.settle()
    suspend(world, standby)
    resume(world, training)
    world.settle()
    assert (world.job(training).state, world.job(standby).state) == (JobState.RUNNING, JobState.PAUSED)

    resume(world, standby, urgent=True)
    decided = world.round()
    assert [(pause.job, pause.beneficiary, pause.rule) for pause in decided.pauses] == [(training, standby, "switch")]
    assert not decided.resumes, "the training does not stand still yet"
    stand_still(world)
    world.settle()
    assert (world.job(training).state, world.job(standby).state) == (JobState.PAUSED, JobState.RUNNING)
    assert world.reason(training) == ReasonCode.PAUSED_FOR
    suspend(world, standby)
    world.settle()
    assert world.job(training).state == JobState.RUNNING


def test_without_urgency_or_rank_nobody_makes_way() -> None:
    world = World(node(gpus=1))
    first = world.submit_running(gpu_spec(), "n1")
    suspend(world, first)
    second = world.submit(gpu_spec(priority=5))
    world.settle()
    resume(world, first, urgent=True)
    world.settle()
    assert (world.job(first).state, world.job(second).state) == (JobState.PAUSED, JobState.RUNNING)


def test_nor_does_one_that_nobody_may_preempt() -> None:
    world = World(node(gpus=1))
    standby = world.submit_running(gpu_spec(priority=5), "n1")
    suspend(world, standby)
    sealed = world.submit(gpu_spec(preemptible=False))
    world.settle()
    resume(world, standby, urgent=True)
    world.settle()
    assert (world.job(standby).state, world.job(sealed).state) == (JobState.PAUSED, JobState.RUNNING)


def test_whoever_had_its_slice_makes_way_and_gets_the_next_one() -> None:
    # Gandiva: more jobs than GPUs take turns; what is paused keeps its place.
    world = World(node(gpus=1)).set_policy(time_slice_s=60)
    jobs = [world.submit(gpu_spec(name=f"j{k}")) for k in range(3)]
    world.settle()
    ran = {job: 0 for job in jobs}
    for _ in range(12):
        for job in world.in_state(JobState.RUNNING):
            ran[job] += 1
        due = next_wake_ms(world.state, "default", world.state.kept.pools["default"].decided_at)
        assert due is not None
        world.at = due
        for _ in range(4):
            world.round()
            stand_still(world)
            world.start(*world.in_state(JobState.STARTING))
    assert set(ran.values()) == {4}, "every job had as many slices as the others"
    assert all(world.job(job).preemptions == 0 for job in jobs), "nobody lost work"


def test_a_job_that_cannot_be_paused_gives_its_slice_back_by_its_checkpoint() -> None:
    world = World(node(gpus=1)).set_policy(time_slice_s=60)
    first = world.submit_running(spec(gpus=1, checkpoints=True), "n1")
    second = world.submit(gpus=1)
    world.wait(30)
    assert not world.round().evictions, "its slice is not over"
    world.wait(31)
    decided = world.round()
    assert [(one.job, one.beneficiary, one.rule) for one in decided.evictions] == [(first, second, "slice")]


@pytest.mark.parametrize("asked", [spec(gpus=1), gpu_spec(stays_mib=40_960)], ids=["cannot be paused", "no memory"])
def test_whoever_would_lose_its_work_is_not_stopped_when_its_slice_is_over(asked: JobSpec) -> None:
    world = World(node(gpus=1)).set_policy(time_slice_s=60)
    first, second = world.submit_running(asked, "n1"), world.submit(asked)
    world.wait(61)
    decided = world.round()
    assert not decided.evictions, "it would begin anew, and never end"
    assert world.reason(second) == ReasonCode.INSUFFICIENT_GPUS
    higher = world.submit(gpus=1, priority=1)
    decided = world.round()
    assert [(one.job, one.beneficiary, one.rule) for one in decided.evictions] == [(first, higher, "priority")]


def test_a_higher_job_pauses_lower_ones_rather_than_have_them_lose_their_work() -> None:
    world = World(node(gpus=2))
    low = [world.submit_running(gpu_spec(name=f"low{k}"), "n1") for k in range(2)]
    high = world.submit(gpus=2, priority=100)
    decided = world.round()
    assert (sorted(pause.job for pause in decided.pauses), decided.evictions) == (low, ())
    stand_still(world)
    world.settle()
    assert world.job(high).state == JobState.RUNNING
    world.finish(high)
    world.settle()
    assert [world.job(job).state for job in low] == [JobState.RUNNING] * 2


def test_one_whose_memory_would_be_in_the_way_is_evicted_instead() -> None:
    world = World(node(gpus=1))
    low = world.submit_running(gpu_spec(stays_mib=10_000), "n1")
    world.submit(gpus=1, priority=100)
    decided = world.round()
    assert (decided.pauses, [one.job for one in decided.evictions]) == ((), [low])


@pytest.mark.parametrize("how", ["cancel", "node", "gpu"])
def test_what_ends_a_running_job_ends_a_paused_one(how: str) -> None:
    world = World(node(gpus=1), node("n2", gpus=1))
    job = world.submit_running(gpu_spec(), "n1")
    suspend(world, job)
    if how == "cancel":
        world.cancel(job).stop_all()
        assert world.job(job).state == JobState.CANCELLED
    elif how == "node":
        world.tell("telemetry", f.NodeLost(node="n1", silent_ms=30_000))
        assert world.job(job).state == JobState.SUSPENDED, "nobody asked for it to go on"
    else:
        world.tell("telemetry", f.GpuFailed(node="n1", gpu=0, problem="Xid 79"))
        world.stop_all()
        assert world.job(job).state == JobState.SUSPENDED
    assert not any(world.state.use["n1"].gpu_milli) or how == "node"
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}


def test_a_paused_job_can_be_made_to_give_everything_back() -> None:
    world = World(node(gpus=1))
    job = world.submit_running(gpu_spec(), "n1")
    suspend(world, job)
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    world.stop_all()
    assert world.job(job).state == JobState.SUSPENDED


def test_a_state_restored_while_paused_decides_the_same() -> None:
    world = World(node(gpus=1)).set_policy(time_slice_s=60)
    jobs = [world.submit(gpu_spec(name=f"j{k}")) for k in range(2)]
    world.settle()
    world.wait(61)
    world.round()
    stand_still(world)
    world.settle()
    world.wait(61)
    twin = decode_snapshot(encode_snapshot(world.state))
    assert twin is not None
    one, two = (cycle.open_round(state, "default", world.at) for state in (world.state, twin))
    assert one == two
    assert world.round().pauses
    assert {world.job(job).state for job in jobs} == {JobState.PAUSED}


def test_a_member_that_leaves_nothing_free_is_not_booked_twice() -> None:
    world = World(node(gpus=1))
    paused = world.submit_running(gpu_spec(), "n1")
    suspend(world, paused)
    resume(world, paused)
    other = world.submit_running(spec(gpus=1), "n1")
    decided = f.RoundDecided(pool="default", round=world.state.kept.pools["default"].rounds, resumes=(paused,))
    step = world.tell("placement.default", decided)
    assert (step.voided, world.job(other).state) == ([paused], JobState.RUNNING)
    assert world.state.use["n1"].gpu_milli[0] == 1000


def test_a_paused_job_that_is_evicted_gives_up_its_whole_place_to_whom_it_went_for() -> None:
    world = World(node(gpus=2, memory_mib=2048))
    low = world.submit_running(gpu_spec(1), "n1")
    other = world.submit_running(spec(gpus=1), "n1")
    suspend(world, low)
    world.cancel(other)
    world.stop_all()
    high = world.submit(spec(gpus=1, memory_mib=2048, priority=9))
    decided = world.round()
    assert [(eviction.job, eviction.beneficiary) for eviction in decided.evictions] == [(low, high)]
    assert world.reason(high) == ReasonCode.WAITING_FOR_VICTIMS, "its claim is kept: what stayed goes, too"
    world.settle()
    assert world.job(high).state == JobState.RUNNING


def test_training_that_says_how_much_memory_it_uses_starts_on_gpus_where_standby_workers_keep_theirs() -> None:
    world = World(node("n1", gpus=2), node("n2", gpus=2))
    standby = [world.submit(gpu_spec(0.9, stays_mib=8_000, gpu_memory_mib=8_000, priority=10)) for _ in range(4)]
    world.settle()
    for one in standby:
        suspend(world, one)
    training = [world.submit(whole_spec(most_mib=30_000, stays_mib=30_000)) for _ in range(4)]
    world.settle()
    assert {world.job(one).state for one in training} == {JobState.RUNNING}
    assert {world.job(one).state for one in standby} == {JobState.PAUSED}

    resume(world, standby[0], urgent=True)
    [paused] = world.round().pauses
    assert world.tasks(paused.job)[0].gpus[0].index == world.tasks(standby[0])[0].gpus[0].index


def test_a_gpu_whose_tenants_leave_too_little_memory_is_not_taken_and_the_reason_counts_the_others() -> None:
    world = World(node("n1", gpus=2))
    standby = world.submit(gpu_spec(0.9, stays_mib=20_000, gpu_memory_mib=20_000))
    world.settle()
    suspend(world, standby)
    role = replace(whole_spec(most_mib=30_000, stays_mib=30_000).roles[0], count=2, min_count=2, max_count=2)
    training = world.submit(spec(roles=[role]))
    world.settle()
    assert world.reason(training) == ReasonCode.INSUFFICIENT_GPUS
    assert world.job(training).reason.numbers["free"] == 1
    everything = world.submit(spec(gpus=2))
    world.settle()
    assert world.reason(everything) == ReasonCode.INSUFFICIENT_GPUS


def test_an_urgent_one_is_looked_at_again_when_the_protected_time_of_who_is_in_its_way_is_over() -> None:
    world = World(node(gpus=1))
    standby = world.submit(gpu_spec(0.9, stays_mib=8_000, gpu_memory_mib=8_000, priority=10))
    world.settle()
    suspend(world, standby)
    training = world.submit(whole_spec(most_mib=30_000, stays_mib=30_000, protected_s=600))
    world.settle()
    resume(world, standby, urgent=True)
    assert not world.round().pauses
    wake_ms = next_wake_ms(world.state, "default", world.at)
    assert wake_ms == world.job(training).started_ms + 600_000
    world.at = wake_ms
    assert [paused.job for paused in world.round().pauses] == [training]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"protected_s": 600}, "is in its protected time"),
        ({"priority": 20}, "does not rank below it"),
        ({"pausing": None}, "may not be paused"),
    ],
)
def test_the_owner_of_an_urgent_one_reads_who_is_in_its_way_and_why_it_stays(fields, why: str) -> None:
    world = World(node(gpus=1))
    standby = world.submit(gpu_spec(0.9, stays_mib=8_000, gpu_memory_mib=8_000, priority=10))
    world.settle()
    suspend(world, standby)
    training = world.submit(replace(whole_spec(most_mib=30_000, stays_mib=30_000), **fields))
    world.settle()
    assert explain(world.state, standby, world.at).notes == ()
    resume(world, standby, urgent=True)
    world.settle()
    assert explain(world.state, standby, world.at).notes == (f"GPU 0 of n1 is taken: job {training} ({why}).",)


def test_the_owner_of_a_paused_job_reads_of_the_limit_that_keeps_it_so() -> None:
    world = World(node(gpus=2), groups=[group(), group("a", limit=gpu_amount(1))])
    paused = world.submit_running(gpu_spec(group="a"), ("n1", [0]))
    suspend(world, paused)
    world.submit_running(spec(gpus=1, group="a"), ("n1", [1]))
    resume(world, paused)
    world.settle()
    [note] = explain(world.state, paused, world.at).notes
    assert note == "Group a uses 1 of 1 GPUs; the job needs 1 more."


def test_who_was_paused_may_work_on_for_as_long_as_it_stood_still_and_its_end_is_foretold_so() -> None:
    world = World(node(gpus=1))
    job = world.submit_running(gpu_spec(time_limit_s=1000), "n1")
    world.wait(100)
    suspend(world, job)
    world.wait(2000)
    assert RunTimes(world.state, "default").remaining(world.job(job), world.at).latest_ms == 900_000
    resume(world, job)
    world.round()
    world.wait(50)
    assert RunTimes(world.state, "default").remaining(world.job(job), world.at).latest_ms == 850_000


def test_a_job_that_ends_at_its_deadline_after_a_pause_is_told_so() -> None:
    world = World(node(gpus=1))
    job = world.submit_running(gpu_spec(time_limit_s=1000, deadline_ms=world.at + 2_000_000), "n1")
    suspend(world, job)
    world.wait(2000)
    [task] = world.tasks(job)
    world.exit(task.id, code=143, cause=f.ExitCause.TIME_LIMIT).empty(task.id)
    assert (world.job(job).state, world.reason(job)) == (JobState.TIMED_OUT, ReasonCode.DEADLINE)


def test_one_that_a_round_had_go_on_stays_paused_when_a_limit_was_lowered_since_the_round_began() -> None:
    world = World(node(gpus=1), groups=[group(), group("a")])
    job = world.submit_running(gpu_spec(group="a"), "n1")
    suspend(world, job)
    resume(world, job)
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened is not None
    world.tell("queue.default", opened)
    decided = cycle.decide_round(world.state, "default", world.at)
    assert decided.resumes == (job,)
    world.tell("admission", f.GroupSet(group=group("a", limit={"gpu_milli": 500}), by="ada"))
    step = world.tell("placement.default", decided)
    assert step.voided == [job]
    assert world.job(job).state == JobState.PAUSED
