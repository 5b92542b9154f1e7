"""What signs of GPUs, failing starts, idle GPUs and silent gangs come to; each loop closes with one sentence."""

import pytest
from msgspec import structs
from msgspec.structs import replace
from tests.make import World, node, role, spec

from gangline_core import facts as f
from gangline_core.cluster import Gpu, MigSlice
from gangline_core.groups import Group, User
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.room.mig import compute_milli
from gangline_core.sizes.progress import Progress
from gangline_core.spec import JobSpec, Pausing, Resources, ServiceClass
from gangline_telemetry.busy import Busy
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_telemetry.progress import Stories
from gangline_telemetry.rules import XIDS, Verdict, by_xids
from gangline_telemetry.starts import Starts
from gangline_wire.samples import GpuSample, JobReport, NodeSample, Samples, SliceSample, TaskSample


def sample(*gpus: GpuSample, name: str = "n1") -> NodeSample:
    return NodeSample(node=name, at=0, gpus=gpus)


# --- GPUs ----------------------------------------------------------------------------------------------------------


def test_a_gpu_that_fell_off_the_bus_is_left_out_and_its_gang_starts_elsewhere_whole_with_its_budget_untouched() -> (
    None
):
    world = World(node("n1", gpus=2), node("n2", gpus=2))
    job = world.submit_running(spec(gpus=1, tasks=2, retries=1), "n1")
    watch = Watch(Config(), 0.0)
    watch.hear(sample(GpuSample(index=1, xids=(13, 79))), 1.0)
    [failed] = watch.judge(world.state, 1.0)
    assert failed == f.GpuFailed(node="n1", gpu=1, problem="Xid 79: the card has fallen off the bus")
    world.tell("telemetry", failed)
    assert sentence(world.job(job).reason) == "GPU 1 of node n1 failed."
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert {task.node for task in world.tasks(job)} == {"n2"}
    assert (world.job(job).retries_used, world.job(job).attempt) == (0, 2)


@pytest.mark.parametrize("xid", [xid for xid, sign in XIDS.items() if sign.verdict == Verdict.HARMLESS])
def test_what_a_program_did_to_itself_is_not_held_against_the_card(xid: int) -> None:
    watch = Watch(Config(), 0.0)
    watch.hear(sample(GpuSample(index=0, xids=(xid,))), 1.0)
    assert watch.judge(World(node("n1")).state, 1.0) == ()


def test_the_worst_of_several_events_counts_and_unknown_ones_are_suspect() -> None:
    assert by_xids((63, 48)).verdict == Verdict.FAILED
    assert by_xids((31, 63)).verdict == Verdict.SUSPECT
    assert by_xids((9999,)).verdict == Verdict.SUSPECT
    assert by_xids((31, 43)) is None


def test_a_suspect_gpu_is_shown_used_on_and_cleared_after_a_while() -> None:
    world = World(node("n1", gpus=1))
    watch = Watch(Config(suspect_s=300), 0.0)
    watch.hear(sample(GpuSample(index=0, throttled=("hw_thermal",))), 1.0)
    facts = watch.judge(world.state, 1.0)
    world.tell("telemetry", *facts)
    gpu = world.state.kept.nodes["n1"].gpus[0]
    assert (gpu.healthy, gpu.suspect) == (True, "clocks are held down: hw_thermal")
    watch.hear(sample(GpuSample(index=0)), 200.0)
    assert watch.judge(world.state, 20.0) == ()
    watch.heard_s["n1"] = 302.0
    world.tell("telemetry", *watch.judge(world.state, 302.0))
    assert world.state.kept.nodes["n1"].gpus[0].suspect == ""


def test_a_gpu_that_failed_by_an_event_is_tested_again_later_each_time() -> None:
    world = World(node("n1", gpus=1))
    watch = Watch(Config(retest_s=600, healthy_samples=1), 0.0)

    def at(second: float, *xids: int) -> tuple[f.Fact, ...]:
        watch.hear(sample(GpuSample(index=0, xids=xids)), second)
        facts = tuple(fact for fact in watch.judge(world.state, second) if isinstance(fact, f.GpuFailed | f.GpuHealthy))
        if facts:
            world.tell("telemetry", *facts)
        return facts

    assert len(at(1, 48)) == 1
    assert at(500) == ()
    assert isinstance(at(602)[0], f.GpuHealthy)
    assert len(at(700, 48)) == 1
    assert at(1400) == ()
    assert isinstance(at(1901)[0], f.GpuHealthy)


def test_absent_counters_are_no_sign_of_anything() -> None:
    watch = Watch(Config(), 0.0)
    world = World(node("n1", gpus=1))
    watch.hear(sample(GpuSample(index=0, ecc_uncorrected=5)), 1.0)
    watch.hear(sample(GpuSample(index=0)), 2.0)
    assert watch.judge(world.state, 2.0) == ()
    watch.hear(sample(GpuSample(index=0, ecc_uncorrected=6)), 3.0)
    assert watch.judge(world.state, 3.0) == ()
    watch.hear(sample(GpuSample(index=0, ecc_uncorrected=7)), 4.0)
    [suspect] = watch.judge(world.state, 4.0)
    assert "7" in suspect.problem


# --- black holes -----------------------------------------------------------------------------------------------------


def fail(world: World, starts: Starts, where: str, *, code: int = 1, after_s: float = 1, user: str = "ann") -> int:
    job = world.submit(gpus=1, user=user)
    world.place(job, where)
    [task] = world.tasks(job)
    for fact in (f.TaskStarted(task=task.id), f.TaskExited(task=task.id, cause=f.ExitCause.EXITED, exit_code=code)):
        starts.note(world.state, (fact,), world.at)
        world.tell("agent.sim", fact)
        world.wait(after_s)
    starts.note(world.state, (), world.at)
    world.empty(task.id)
    return job


def test_a_node_that_fails_every_start_at_once_takes_no_more_and_is_tried_again_later() -> None:
    world = World(node("n1"), node("n2"))
    starts = Starts(Config(black_hole_jobs=3, retest_s=600))
    for _ in range(3):
        assert starts.judge(world.state, world.at) == ()
        fail(world, starts, "n1")
    closed = starts.judge(world.state, world.at)
    world.tell("telemetry", *closed)
    since_ms = world.at
    assert "3 different jobs" in world.state.kept.nodes["n1"].quarantine
    job = world.submit(gpus=1)
    world.settle()
    assert {task.node for task in world.tasks(job)} == {"n2"}
    assert starts.judge(world.state, since_ms + 599_000) == ()
    # Whoever leads next has seen nothing of it, and opens the node at the same time.
    starts = Starts(Config(black_hole_jobs=3, retest_s=600))
    assert starts.judge(world.state, since_ms + 599_000) == ()
    world.tell("telemetry", *starts.judge(world.state, since_ms + 601_000))
    assert world.state.kept.nodes["n1"].takes_work


def test_broken_programs_of_one_user_close_no_node_for_the_others() -> None:
    users = [User(name=name, group="lab") for name in ("ann", "bob")]
    world = World(node("n1"), node("n2"), groups=[Group(path="lab")], users=users)
    starts = Starts(Config(black_hole_jobs=3))
    for _ in range(5):
        fail(world, starts, "n1", user="ann")
    assert starts.judge(world.state, world.at) == ()
    fail(world, starts, "n1", user="bob")
    [closed] = starts.judge(world.state, world.at)
    assert closed == f.NodeQuarantined(node="n1", problem="the starts of 6 different jobs in a row failed at once here")


def test_a_job_that_fails_everywhere_closes_no_node() -> None:
    world = World(node("n1"), node("n2"))
    starts = Starts(Config(black_hole_jobs=1))
    fail(world, starts, "n1")
    assert starts.judge(world.state, world.at)
    starts.nodes["n2"] = starts.nodes["n1"]
    assert starts.judge(world.state, world.at) == ()


def test_a_program_that_ran_well_clears_its_node() -> None:
    world = World(node("n1"))
    starts = Starts(Config(black_hole_jobs=3))
    fail(world, starts, "n1")
    fail(world, starts, "n1")
    fail(world, starts, "n1", code=0, after_s=60)
    fail(world, starts, "n1")
    assert starts.judge(world.state, world.at) == ()


# --- idle GPUs -------------------------------------------------------------------------------------------------------


def minutes(world: World, busy: Busy, first: int, count: int, *percents: int | None) -> list[f.Fact]:
    facts: list[f.Fact] = []
    for minute in range(first, first + count):
        gpus = tuple(GpuSample(index=k, utilisation_percent=percent) for k, percent in enumerate(percents))
        busy.hear(sample(*gpus))
        facts += busy.summaries(world.state, 60.0 * (minute + 1))
    return [fact for fact in facts if isinstance(fact, f.JobUsed | f.JobReclaimed)]


def test_a_job_that_does_not_use_its_gpus_is_warned_then_gives_them_back() -> None:
    world = World(node("n1", gpus=2)).set_policy(min_utilisation_percent=10, min_utilisation_s=1800)
    job = world.submit_running(spec(gpus=2), "n1")
    busy = Busy(Config(), 0.0)
    facts = minutes(world, busy, 0, 30, 2, 4)
    assert [fact.is_low for fact in facts[:-1]] == [False] * 14 + [True] * 15
    assert facts[-1] == f.JobReclaimed(job=job, percent=3, window_s=1800, least=10)
    world.tell("telemetry", facts[-1])
    world.stop_all()
    assert (world.job(job).state, world.reason(job)) == (JobState.CANCELLED, ReasonCode.UNDER_USED)
    assert sentence(world.job(job).reason) == "Its GPUs were used 3 % for 1800 s; the pool asks for 10 %."


def test_protected_time_keeps_no_gpus_that_nobody_uses() -> None:
    world = World(node("n1", gpus=2)).set_policy(min_utilisation_percent=10, min_utilisation_s=1800)
    job = world.submit_running(spec(gpus=2, protected_s=-1), "n1")
    world.tell("telemetry", minutes(world, Busy(Config(), 0.0), 0, 30, 0, 0)[-1])
    world.stop_all()
    assert (world.job(job).state, world.reason(job)) == (JobState.CANCELLED, ReasonCode.UNDER_USED)


def test_a_job_is_not_asked_for_what_its_gpus_did_before_it_began() -> None:
    world = World(node("n1", gpus=2))
    busy = Busy(Config(), 0.0)
    idle = sample(*(GpuSample(index=k, utilisation_percent=0) for k in range(2)))
    at_work = sample(*(GpuSample(index=k, utilisation_percent=90) for k in range(2)))
    for _ in range(50):
        busy.hear(idle)
    job = world.submit_running(spec(gpus=2), "n1")
    (task,) = world.tasks(job)
    busy.note(world.state, (f.TaskStarted(task=task.id),), 50.0)
    for _ in range(10):
        busy.hear(at_work)
    [used] = [fact for fact in busy.summaries(world.state, 60.0) if isinstance(fact, f.JobUsed)]
    assert (used.gpu_percent, used.window_s) == (90, 10)


def test_a_job_that_goes_on_after_a_pause_is_not_asked_for_what_others_did_meanwhile() -> None:
    world = World(node("n1", gpus=1))
    job = world.submit_running(spec(gpus=1, pausing=Pausing()), "n1")
    busy = Busy(Config(), 0.0)
    [task] = world.tasks(job)
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada", pause=True))
    world.tell("agent.sim", f.TaskPaused(task=task.id))
    for _ in range(50):
        busy.hear(sample(GpuSample(index=0, utilisation_percent=2)))
    world.tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    decided = world.round()
    assert decided.resumes == (job,)
    busy.note(world.state, (decided,), 50.0)
    for _ in range(10):
        busy.hear(sample(GpuSample(index=0, utilisation_percent=90)))
    [used] = [fact for fact in busy.summaries(world.state, 60.0) if isinstance(fact, f.JobUsed)]
    assert (used.gpu_percent, used.window_s) == (90, 10)


def test_what_another_job_does_beside_the_owner_of_a_card_is_not_the_owners_use() -> None:
    needs = Resources(gpu_milli=1000, gpu_memory_most_mib=20_000, cpu_milli=1000)
    beside = Resources(beside=True, gpu_memory_mib=8_000, cpu_milli=1000)
    world = World(node("n1", gpus=1)).set_policy(min_utilisation_percent=10, min_utilisation_s=600)
    owner = world.submit(spec(roles=[replace(role(), resources=needs)]))
    world.settle()
    busy = Busy(Config(), 0.0)
    assert {fact.job for fact in minutes(world, busy, 0, 5, 80)} == {owner}
    guest = world.submit(spec(roles=[replace(role(), resources=beside)], service_class=ServiceClass.OPPORTUNISTIC))
    world.settle()
    assert world.job(guest).state == JobState.RUNNING
    assert minutes(world, busy, 5, 30, 80) == [], "nobody knows whose it is: neither is judged by it"


def test_absent_is_not_idle() -> None:
    world = World(node("n1", gpus=2)).set_policy(min_utilisation_percent=10, min_utilisation_s=600)
    world.submit_running(spec(gpus=2), "n1")
    assert minutes(world, Busy(Config(), 0.0), 0, 60, None, None) == []


def test_what_the_processes_of_a_job_take_is_told_with_its_gpus_and_without_any() -> None:
    world = World(node("n1", gpus=2))
    trained, fetched = world.submit_running(spec(gpus=2), "n1"), world.submit_running(spec(gpus=0, tasks=2), "n1")
    busy = Busy(Config(), 0.0)

    def a_minute(number: int, *tasks: TaskSample) -> dict[int, f.JobUsed]:
        gpus = tuple(GpuSample(index=k, utilisation_percent=80, tensor_active_percent=40) for k in range(2))
        busy.hear(NodeSample(node="n1", at=0, gpus=gpus, tasks=tasks))
        facts = busy.summaries(world.state, 60.0 * number)
        return {fact.job: fact for fact in facts if isinstance(fact, f.JobUsed)}

    (own,), both = world.tasks(trained), world.tasks(fetched)
    told = a_minute(
        1,
        TaskSample(task=own.id, cpu_milli=1500, memory_mib=900),
        *(TaskSample(task=task.id, cpu_milli=300, memory_mib=100) for task in both),
    )
    assert (told[trained].gpu_percent, told[trained].tensor_percent) == (80, 40)
    assert (told[trained].cpu_milli, told[trained].host_memory_mib) == (1500, 900)
    assert (told[fetched].gpu_percent, told[fetched].cpu_milli, told[fetched].host_memory_mib) == (-1, 600, 200)
    half = a_minute(2, TaskSample(task=both[0].id, cpu_milli=300, memory_mib=100))
    assert fetched not in half, "a sum that leaves a member out would look like thrift"
    assert half[trained].cpu_milli == -1


def test_a_job_on_a_slice_is_judged_by_its_slice_where_that_is_measured_and_not_at_all_elsewhere() -> None:
    cut = Gpu(
        index=0,
        model="H100",
        memory_mib=81_920,
        mig="h100-80gb",
        slices=(MigSlice(profile="3g.40gb", start=0, size=4, uuid="MIG-a"), MigSlice("3g.40gb", 4, 4, "MIG-b")),
    )
    world = World(structs.replace(node("n1", gpus=1), gpus=(cut,)))
    world.set_policy(min_utilisation_percent=10, min_utilisation_s=600)
    job = world.submit(jobs_slice("3g.40gb"))
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    [share] = world.tasks(job)[0].gpus
    mine = next(one.uuid for one in cut.slices if one.mask == share.slots)
    busy = Busy(Config(), 0.0)
    found: list[f.Fact] = []
    for number in range(1, 30):
        slices = tuple(
            SliceSample(uuid=one.uuid, sm_active_percent=3 if one.uuid == mine else 90, memory_used_mib=500)
            for one in cut.slices
        )
        busy.hear(sample(GpuSample(index=0, power_milliwatts=280_000, slices=slices)))
        found += busy.summaries(world.state, 60.0 * number)
    mine_only = [fact for fact in found if isinstance(fact, f.JobUsed | f.JobReclaimed)]
    assert (mine_only[0].gpu_percent, mine_only[0].memory_mib_max) == (3, 500)
    assert isinstance(mine_only[-1], f.JobReclaimed)
    busy = Busy(Config(), 0.0)
    for number in range(1, 30):
        busy.hear(sample(GpuSample(index=0, slices=tuple(SliceSample(uuid=one.uuid) for one in cut.slices))))
        facts = busy.summaries(world.state, 60.0 * number)
        assert not [fact for fact in facts if isinstance(fact, f.JobUsed | f.JobReclaimed)]


def jobs_slice(profile: str) -> JobSpec:
    """A job that asks for a slice."""
    asked = spec(gpus=0)
    role = structs.replace(asked.roles[0], resources=Resources(gpu_milli=compute_milli(profile), mig=profile))
    return structs.replace(asked, roles=(role,))


def test_nobody_is_judged_where_the_pool_asks_for_nothing_and_a_new_attempt_begins_anew() -> None:
    world = World(node("n1", gpus=2))
    world.submit_running(spec(gpus=2), "n1")
    facts = minutes(world, Busy(Config(), 0.0), 0, 100, 0, 0)
    assert {type(fact) for fact in facts} == {f.JobUsed}
    assert not any(fact.is_low for fact in facts)


def test_memory_of_windows_is_bounded_and_load_has_mean_and_deviation() -> None:
    world = World(node("n1", gpus=2))
    job = world.submit_running(spec(gpus=2), "n1")
    busy = Busy(Config(), 0.0)
    minutes(world, busy, 0, 2000, 50, 50)
    assert len(busy.jobs[job]) == 1440
    for percent in (20, 80):
        busy.hear(sample(GpuSample(index=0, utilisation_percent=percent)))
    summary = busy.summaries(world.state, 200_000.0)[0]
    world.tell("telemetry", summary)
    load = world.state.kept.loads["n1"]
    assert (load.gpu_mean, load.gpu_deviation, load.cpu_mean) == (50, 30, -1)


# --- gangs that hang ----------------------------------------------------------------------------------------------


def test_a_gang_whose_member_stops_making_progress_starts_again_whole() -> None:
    world = World(node("n1")).set_policy(hang_s=300)
    job = world.submit_running(spec(gpus=1, tasks=2), "n1")
    first, second = (task.id for task in world.tasks(job))
    stories = Stories()

    def step(at_s: float, number: int, *tasks: str) -> None:
        said = tuple(JobReport(job=job, attempt=1, task=task, progress=Progress(step=number)) for task in tasks)
        stories.hear(Samples(agent="sim", nodes=(), reports=said), world.state, at_s)

    for k in range(5):
        step(10.0 * k, 2 * k, first)
        step(10.0 * k, 2 * k + 1, second)
    for k in range(5, 40):
        step(10.0 * k, 2 * k, first)
    assert not any(isinstance(fact, f.GangHung) for fact in stories.judge(world.state, 339.0))
    [hung] = [fact for fact in stories.judge(world.state, 341.0) if isinstance(fact, f.GangHung)]
    assert hung.task == second
    world.tell("telemetry", hung)
    assert world.reason(job) == ReasonCode.HUNG
    world.settle()
    assert (world.job(job).state, world.job(job).retries_used) == (JobState.RUNNING, 0)


def test_a_job_that_never_reported_is_never_taken_for_hung() -> None:
    world = World(node("n1")).set_policy(hang_s=300)
    world.submit_running(spec(gpus=1), "n1")
    assert Stories().judge(world.state, 1e6) == ()


def test_reports_reach_the_log_gathered_and_new_shapes_at_once() -> None:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1), "n1")
    stories = Stories()
    told = 0
    for second in range(100):
        said = JobReport(job=job, attempt=1, task=world.tasks(job)[0].id, progress=Progress(step=second))
        stories.hear(Samples(agent="sim", nodes=(), reports=(said,)), world.state, float(second))
        told += len(stories.judge(world.state, float(second)))
    assert told == 4


def test_a_job_that_is_paused_is_never_taken_for_hung_and_its_time_begins_anew() -> None:
    world = World(node("n1")).set_policy(hang_s=300)
    job = world.submit_running(spec(gpus=0), "n1")
    task = world.tasks(job)[0].id
    stories = Stories()

    def step(at_s: float, number: int) -> None:
        said = JobReport(job=job, attempt=1, task=task, progress=Progress(step=number))
        stories.hear(Samples(agent="sim", nodes=(), reports=(said,)), world.state, at_s)

    def hangs(at_s: float) -> bool:
        return any(isinstance(fact, f.GangHung) for fact in stories.judge(world.state, at_s))

    step(0.0, 1)
    step(10.0, 2)
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada", pause=True))
    world.tell("agent.sim", f.TaskPaused(task=task))
    assert not hangs(5000.0)
    world.tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert not hangs(5001.0)
    step(5002.0, 3)
    assert hangs(5400.0), "it hangs after all"
