"""Arrays as users of Slurm know them: one record, a cap, per-index ends, and quota given back index by index."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.door.arrays import array_of, by_state, counts, element_number, lookup, ranges_by_state
from gangline_core.door.edits import JobEdit
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ArraySpec, Dependency, DependencyKind
from gangline_core.state import decode_snapshot, encode_snapshot


def array(*ranges: tuple[int, int, int], at_most: int = 0) -> ArraySpec:
    return ArraySpec(ranges=ranges, at_most=at_most)


def ended(drive: Drive, number: JobId) -> dict[JobState, int]:
    return counts(drive.state, drive.state.kept.arrays[number])


def test_an_array_of_a_thousand_is_one_record_and_all_of_it_runs() -> None:
    drive = Drive(node(gpus=8))
    whole = drive.ask(0, gpus=1, run=10, array=array((0, 999, 1)))
    drive.until(0)
    assert len(drive.state.kept.jobs) < 200, "only what may start next is a job"
    drive.finish_all()
    assert ended(drive, whole.id) == {JobState.SUCCEEDED: 1000}
    assert drive.now >= 1250, "eight at a time, ten seconds each"
    assert lookup(drive.state, whole.id).state == JobState.SUCCEEDED
    assert drive.state.unfinished == {}


def test_never_more_than_the_cap_run_at_once_although_there_is_room() -> None:
    drive = Drive(node(gpus=8))
    whole = drive.ask(0, gpus=1, run=10, array=array((1, 9, 1), at_most=3))
    for second in range(0, 30, 5):
        drive.until(second)
        assert drive.used() == 3
    drive.finish_all()
    assert drive.asks[JobId(whole.id + 9)].starts == [20]


def test_failed_and_succeeded_indexes_give_their_quota_back_at_once() -> None:
    # kubernetes-sigs/kueue#13482
    drive = Drive(node(gpus=10), groups=[group("q", limit=gpu_amount(10))])
    whole = drive.ask(0, gpus=1, group="q", run=1000, array=array((0, 9, 1)))
    waiting = drive.ask(1, gpus=4, group="q", run=10)
    for index in range(4):
        drive.later(10, lambda index=index: drive.fail(drive.asks[JobId(whole.id + 1 + index)]))
    drive.until(10)
    assert drive.used("q") == 10
    assert waiting.starts == [10]
    drive.finish_all()
    assert ranges_by_state(drive.state, drive.state.kept.arrays[whole.id]) == {"succeeded": "4-9", "failed": "0-3"}
    assert lookup(drive.state, whole.id).state == JobState.FAILED
    assert recompute(drive.state) == {}


def test_a_failed_element_is_run_again_and_charged_for_both_runs() -> None:
    # actions/runner#2964
    drive = Drive(node(gpus=4))
    whole = drive.ask(0, gpus=1, run=600, array=array((0, 3, 1)))
    drive.later(100, lambda: drive.fail(drive.asks[JobId(whole.id + 1)]))
    drive.ask(700, gpus=1, run=50, array=array((0, 0, 1)))
    drive.finish_all()
    seconds = sum(usage.gpu_milli_ms for usage in drive.state.kept.uncharged.values()) // 1_000_000
    assert seconds == 100 + 600 * 3 + 50


def test_one_index_is_cancelled_before_it_is_a_job_and_one_while_it_runs() -> None:
    drive = Drive(node(gpus=1))
    whole = drive.ask(0, gpus=1, run=10, array=array((5, 9, 1), at_most=1))
    drive.until(1)
    for index in (8, 5):
        number = element_number(drive.state, whole.id, index)
        assert number is not None
        drive.cancel(number)
    drive.finish_all()
    assert ranges_by_state(drive.state, drive.state.kept.arrays[whole.id]) == {"succeeded": "6-7,9", "cancelled": "5,8"}


def test_a_cancelled_array_ends_whole() -> None:
    drive = Drive(node(gpus=2))
    whole = drive.ask(0, gpus=1, array=array((0, 99, 1)))
    drive.until(1)
    drive.cancel(whole.id)
    drive.finish_all()
    assert ended(drive, whole.id) == {JobState.CANCELLED: 100}
    assert recompute(drive.state) == {}


def test_a_held_array_starts_nothing_until_it_is_released() -> None:
    drive = Drive(node(gpus=2))
    whole = drive.ask(0, gpus=1, run=10, hold=True, array=array((0, 3, 1)))
    drive.until(5)
    assert (drive.used(), lookup(drive.state, whole.id).state) == (0, JobState.HELD)
    drive.tell("admission", f.HoldSet(job=whole.id, held=False, by="ada"))
    drive.finish_all()
    assert ended(drive, whole.id) == {JobState.SUCCEEDED: 4}


def test_holding_a_running_array_suspends_what_runs_and_keeps_the_rest_out() -> None:
    drive = Drive(node(gpus=2))
    whole = drive.ask(0, gpus=1, run=10, array=array((0, 5, 1)))
    drive.until(1)
    drive.tell("admission", f.HoldSet(job=whole.id, held=True, by="ada"))
    drive.until(100)
    assert drive.used() == 0
    drive.tell("admission", f.HoldSet(job=whole.id, held=False, by="ada"))
    drive.finish_all()
    assert ended(drive, whole.id) == {JobState.SUCCEEDED: 6}


def test_a_raised_cap_takes_effect_at_once() -> None:
    drive = Drive(node(gpus=8))
    whole = drive.ask(0, gpus=1, array=array((0, 9, 1), at_most=2))
    drive.until(1)
    assert drive.used() == 2
    drive.tell("admission", f.JobEdited(job=whole.id, edit=JobEdit(at_most=6), by="ada"))
    drive.until(2)
    assert drive.used() == 6


@pytest.mark.parametrize(
    ("kind", "code", "runs"),
    [
        (DependencyKind.OK, 0, True),
        (DependencyKind.OK, 1, False),
        (DependencyKind.ANY, 1, True),
        (DependencyKind.NOT_OK, 1, True),
        (DependencyKind.NOT_OK, 0, False),
    ],
)
def test_a_job_follows_a_whole_array_by_how_it_ends(kind: DependencyKind, code: int, runs: bool) -> None:
    drive = Drive(node(gpus=4))
    whole = drive.ask(0, gpus=1, run=10, code=code, array=array((0, 7, 1)))
    drive.until(1)
    follower = drive.ask(2, gpus=1, run=5, after=[Dependency(job=whole.id, kind=kind)])
    drive.until(3)
    assert drive.code(follower) == ReasonCode.DEPENDENCY
    drive.finish_all()
    assert (drive.job(follower.id).state == JobState.SUCCEEDED) == runs
    if not runs:
        assert drive.job(follower.id).reason.code == ReasonCode.DEPENDENCY_FAILED


def test_every_element_counts_towards_the_cap_of_unfinished_jobs_and_the_array_is_one_submission() -> None:
    drive = Drive(node(), groups=[group("q", queued_jobs_max=10, submits_per_minute=2)])
    first = drive.ask(0, group="q", array=array((0, 7, 1)))
    too_many = drive.ask(1, group="q", array=array((0, 2, 1)))
    fits = drive.ask(2, group="q", array=array((0, 1, 1)))
    drive.until(3)
    assert (first.refused, fits.refused) == (None, None)
    assert too_many.refused.code == ReasonCode.QUEUE_FULL
    assert drive.state.unfinished["q"] == 10


def test_the_numbers_of_elements_are_never_given_to_others() -> None:
    drive = Drive(node())
    whole = drive.ask(0, array=array((0, 9, 1)))
    after = drive.ask(0, gpus=1)
    drive.until(1)
    assert after.id == whole.id + 11
    assert array_of(drive.state, whole.id + 10).id == whole.id
    assert array_of(drive.state, after.id) is None


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_an_arrays_record_is_true_whatever_happens_to_its_elements(data: st.DataObject) -> None:
    world = World(node(gpus=4))
    size, cap = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 4))
    number = world.submit(spec(gpus=1, array=array((0, size - 1, 1), at_most=cap)))
    for _ in range(data.draw(st.integers(0, 25))):
        act = data.draw(st.sampled_from(["round", "start", "finish", "fail", "cancel", "hold", "release"]))
        jobs = [JobId(number + 1 + data.draw(st.integers(0, size - 1)))]
        live = [job.id for job in world.state.live_jobs() if job.state in (JobState.RUNNING, JobState.STARTING)]
        match act:
            case "round":
                world.round()
            case "start":
                world.start(*world.in_state(JobState.STARTING))
            case "finish" | "fail" if live:
                world.start(*live[:1]).finish(*live[:1], code=0 if act == "finish" else 1)
            case "cancel":
                world.cancel(jobs[0])
            case "hold" | "release":
                world.tell("admission", f.HoldSet(job=number, held=act == "hold", by="ada"))
            case _:
                pass
        world.stop_all()
        record = world.state.kept.arrays[number]
        states = by_state(world.state, record)
        assert sum(map(len, states.values())) == size
        assert not cap or record.open <= cap
        assert world.state.unfinished.get("", 0) == record.pending + record.open
        assert recompute(world.state) == {k: use for k, use in world.state.usage.items() if use}
        again = decode_snapshot(encode_snapshot(world.state))
        assert again.unfinished == world.state.unfinished
        assert again.arrays.open.get(number, {}) == world.state.arrays.open.get(number, {})
