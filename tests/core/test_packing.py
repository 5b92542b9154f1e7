"""Two jobs that take turns on a GPU work on it at once where that pays by their own reports, and else never again."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_pausing import resume, stand_still, suspend, whole_spec
from tests.make import World, group, node

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.limits.accounting import charge
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.sizes.progress import Point, Progress
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain


def half_spec(**fields):
    return whole_spec(most_mib=20_000, stays_mib=20_000, **fields)


def report(world: World, job: int, step_us: int) -> None:
    point = Point(nodes=1, members=1, batch=32, gathered=0, step_us=step_us)
    world.wait(1).tell("telemetry", f.ProgressReported(job=job, progress=Progress(points=(point,))))


def used(world: World, job: int, percent: int) -> None:
    world.tell("telemetry", f.JobUsed(job=job, gpu_percent=percent, window_s=60))


def taking_turns(first_busy: int = 40, second_busy: int = 45, **policy) -> tuple[World, int, int]:
    """One GPU: the second job works, the first is paused for it; both told what a step takes them alone."""
    world = World(node(gpus=1))
    first = world.submit(half_spec())
    world.settle()
    return world, first, turns_with(world, first, first_busy, second_busy, **policy)


def turns_with(world: World, first: int, first_busy: int = 40, second_busy: int = 45, **policy) -> int:
    """The job for which the one that runs was paused after its slice."""
    world.set_policy(time_slice_s=60, **policy)
    report(world, first, 100_000)
    used(world, first, first_busy)
    second = world.wait(61).submit(half_spec())
    world.round()
    stand_still(world)
    world.settle(stops=False)
    assert (world.job(first).state, world.job(second).state) == (JobState.PAUSED, JobState.RUNNING)
    report(world, second, 200_000)
    used(world, second, second_busy)
    return second


def packed() -> tuple[World, int, int]:
    world, first, second = taking_turns(packing=True)
    decided = world.round()
    assert decided.packings == ((first, second),)
    return world, first, second


def shares(world: World, *jobs: int) -> list[int]:
    return [world.tasks(job)[0].gpu_milli for job in jobs]


def test_both_work_each_with_half_of_the_gpu_and_are_charged_so() -> None:
    world, first, second = packed()
    assert (world.job(first).state, world.job(second).state) == (JobState.RUNNING, JobState.RUNNING)
    assert shares(world, first, second) == [500, 500]
    assert world.state.use["n1"].gpu_milli[0] == 1000
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}
    before = world.tasks(first)[0].used_until(world.at)
    world.wait(100).finish(first)
    charged = next(fact for fact in charge(world.state, world.at) if fact.job == first)
    assert charged.gpu_milli_ms - before == 500 * 100_000
    assert shares(world, second) == [1000], "whoever is left has all of it"


def test_without_the_pools_word_they_take_turns() -> None:
    world, first, second = taking_turns()
    assert not world.round().packings
    assert (world.job(first).state, world.job(second).state) == (JobState.PAUSED, JobState.RUNNING)


def test_jobs_that_use_their_gpu_well_are_not_packed() -> None:
    world, *_ = taking_turns(60, 55, packing=True)
    assert not world.round().packings


def test_jobs_whose_memory_does_not_fit_together_are_not_packed() -> None:
    world = World(node(gpus=1, gpu_memory_mib=50_000)).set_policy(time_slice_s=60, packing=True)
    jobs = [world.submit(whole_spec(most_mib=30_000, stays_mib=20_000)) for _ in range(2)]
    world.settle()
    report(world, jobs[0], 100_000)
    used(world, jobs[0], 30)
    world.wait(61).round()
    stand_still(world)
    world.settle()
    assert world.job(jobs[1]).state == JobState.RUNNING
    report(world, jobs[1], 100_000)
    used(world, jobs[1], 30)
    assert not world.round().packings


def test_while_it_pays_they_stay_together_through_their_slices() -> None:
    world, first, second = packed()
    for _ in range(10):
        report(world, first, 130_000)
        report(world, second, 260_000)
        world.wait(60).round()
        stand_still(world)
    assert shares(world, first, second) == [500, 500]
    assert world.state.kept.alone[first][-1].step_us == 100_000, "what it took alone is not forgotten"


def test_when_it_does_not_pay_the_newcomer_makes_way_and_they_are_not_packed_again() -> None:
    world, first, second = packed()
    report(world, first, 210_000)
    assert not world.round(), "one of two reports says nothing yet"
    [note] = explain(world.state, first, world.at).notes
    assert note == (
        f"It works beside job {second} on the same GPUs, each with half of them: they have not told how they get on."
    )
    report(world, second, 420_000)
    [paused] = world.round().pauses
    assert (paused.job, paused.beneficiary, paused.rule) == (first, second, "packing")
    stand_still(world)
    assert (world.reason(first), shares(world, first, second)) == (ReasonCode.PAUSED_FOR, [0, 1000])
    states = []
    for _ in range(8):
        decided = world.wait(61).round()
        assert decided is None or not decided.packings
        stand_still(world)
        world.settle()
        states.append((world.job(first).state, world.job(second).state))
    assert (JobState.RUNNING, JobState.PAUSED) in states
    assert (JobState.PAUSED, JobState.RUNNING) in states
    assert shares(world, first, second) in ([1000, 0], [0, 1000])


def test_a_pack_ends_with_whoever_is_paused_cancelled_or_lost_and_the_other_has_it_all() -> None:
    for which in (0, 1):
        world, *jobs = packed()
        gone, left = jobs[which], jobs[1 - which]
        suspend(world, gone)
        assert shares(world, left) == [1000]
        resume(world, gone)
        world.round()
        assert world.state.use["n1"].gpu_milli[0] == 1000

        world, *jobs = packed()
        world.cancel(jobs[which])
        assert sum(shares(world, *jobs)) == 1000, "it is not gone yet"
        world.stop_all()
        assert shares(world, jobs[1 - which]) == [1000]
    world, first, second = packed()
    world.tell("telemetry", f.NodeLost(node="n1", silent_ms=30_000))
    world.stop_all()
    world.see(node(gpus=1))
    world.settle()
    assert not world.state.kept.packs
    assert sorted(world.job(job).state for job in (first, second)) == [JobState.RUNNING, JobState.WAITING]


def test_packs_survive_a_restart() -> None:
    world, first, _ = packed()
    twin = decode_snapshot(encode_snapshot(world.state))
    assert twin.kept.packs == world.state.kept.packs != {}
    world.finish(first)
    assert not world.state.kept.packs


def test_what_an_earlier_attempt_left_on_a_lost_node_ends_no_pack() -> None:
    world = World(node("n0", gpus=1))
    first = world.submit(half_spec())
    world.settle()
    world.tell("telemetry", f.NodeLost(node="n0", silent_ms=30_000))
    world.see(node(gpus=1)).settle(stops=False)
    assert [task.node for task in world.tasks(first)] == ["n1"]
    second = turns_with(world, first, packing=True)
    assert world.round().packings == ((first, second),)
    assert list(world.state.node_tasks["n0"]) == [f"{first}-1-worker-0"]
    world.see(node("n0", gpus=1))
    assert not world.state.node_tasks.get("n0"), "nothing is left there"
    assert shares(world, first, second) == [500, 500], "both still work beside each other"
    assert world.state.use["n1"].gpu_milli[0] == 1000
    assert world.state.kept.packs[first].host == second


def test_a_pack_on_a_lost_node_takes_no_more_than_the_gpu_that_it_had_while_it_may_still_run() -> None:
    world, first, second = packed()
    left = [task.id for job in (first, second) for task in world.tasks(job)]
    world.tell("telemetry", f.NodeLost(node="n1", silent_ms=30_000))
    assert not world.state.kept.packs
    world.tell("agent.sim", f.NodeSeen(node=node(gpus=1), alive=tuple(left)))
    assert world.state.use["n1"].gpu_milli[0] == 1000
    world.empty(left[0])
    assert world.state.use["n1"].gpu_milli[0] == 500
    world.empty(left[1]).settle()
    assert sorted(world.job(job).state for job in (first, second)) == [JobState.RUNNING, JobState.WAITING]
    assert world.state.use["n1"].gpu_milli[0] == 1000


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["wait", "slow", "fast", "suspend", "resume", "finish", "submit", "lose"]), max_size=24)
)
def test_whatever_happens_no_gpu_is_given_twice_and_nothing_is_left_behind(events: list[str]) -> None:
    world, first, second = packed()
    jobs = [first, second]
    for number, event in enumerate(events):
        job = jobs[number % len(jobs)]
        running = world.job(job).state == JobState.RUNNING
        if event == "wait":
            world.wait(61)
        elif event in ("slow", "fast") and running:
            report(world, job, 400_000 if event == "slow" else 110_000)
            used(world, job, 30)
        elif event == "suspend" and running:
            suspend(world, job, stands_still=number % 2 == 0)
        elif event == "resume":
            resume(world, job)
        elif event == "finish" and running:
            world.finish(job)
        elif event == "submit" and len(jobs) < 5:
            jobs.append(world.submit(half_spec()))
        elif event == "lose":
            world.tell("telemetry", f.NodeLost(node="n1", silent_ms=30_000))
            world.stop_all()
            world.see(node(gpus=1))
        world.round()
        stand_still(world)
        world.settle()
        assert world.state.use["n1"].gpu_milli[0] in (0, 1000)
        assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}
    for job in jobs:
        if not world.job(job).ended_ms:
            world.cancel(job)
    stand_still(world)
    world.stop_all()
    assert world.state.use["n1"].gpu_milli[0] == 0
    assert not world.state.kept.packs


def test_half_of_a_packed_gpu_is_nobody_elses_whoever_of_the_two_would_go() -> None:
    world, first, second = packed()
    asked = world.wait(600).submit(gpus=0.5, priority=10)
    decided = world.round()
    assert {one.job for one in (*decided.evictions, *decided.pauses)} in (set(), {first, second})
    assert all(set(claim.victims) == {task.id for job in (first, second) for task in world.tasks(job)}
               for claim in decided.claims)  # fmt: skip
    stand_still(world)
    world.settle()
    assert world.job(asked).state == JobState.RUNNING
    assert not {world.job(job).state for job in (first, second)} & {JobState.RUNNING, JobState.STARTING}


def test_who_is_packed_with_a_victim_goes_with_it_as_it_goes_itself() -> None:
    world = World(node(gpus=1)).set_policy(time_slice_s=60, packing=True)
    first = world.submit(half_spec())
    world.settle()
    report(world, first, 100_000)
    used(world, first, 40)
    second = world.wait(61).submit(replace(half_spec(), pausing=None))
    world.round()
    stand_still(world)
    world.settle()
    report(world, second, 200_000)
    used(world, second, 45)
    assert world.round().packings == ((first, second),)
    urgent = world.wait(1).submit(gpus=1, priority=50)
    decided = world.round()
    assert sorted(one.job for one in decided.evictions) == [first, second]
    world.settle()
    assert world.job(urgent).state == JobState.RUNNING


def test_a_guest_that_a_user_cancels_leaves_its_half_to_its_host_and_to_nobody_else() -> None:
    world, first, second = packed()
    world.cancel(first)
    other = world.submit(gpus=0.5)
    assert not world.round().claims
    world.stop_all()
    world.settle()
    assert shares(world, second) == [1000]
    assert world.job(other).state == JobState.WAITING


def test_nobody_goes_on_beside_another_when_a_limit_was_lowered_since_the_round_began() -> None:
    world, first, second = taking_turns(packing=True)
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened is not None
    world.tell("queue.default", opened)
    decided = cycle.decide_round(world.state, "default", world.at)
    assert decided.packings == ((first, second),)
    world.tell("admission", f.GroupSet(group=group(limit={"gpu_milli": 500}), by="ada"))
    assert world.tell("placement.default", decided).voided == [first]
    assert shares(world, first, second) == [0, 1000]
