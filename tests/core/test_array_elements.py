"""One element of an array is held, released, edited and cancelled by itself, whether it is in the queue yet or not."""

from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.door.arrays import by_state, counts, element_number, lookup, standing_of
from gangline_core.door.draft import Draft
from gangline_core.door.edits import JobEdit
from gangline_core.door.job_rights import Standing, check_edit
from gangline_core.fold import apply
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ArraySpec, Dependency, DependencyKind
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.wake import next_wake_ms


def world(last: int = 5, at_most: int = 2) -> tuple[World, JobId]:
    made = World(node("n1", gpus=8)).set_policy(ordering="fifo")
    array = made.submit(spec(gpus=1, array=ArraySpec(ranges=((0, last, 1),), at_most=at_most)))
    made.settle()
    return made, array


def element(made: World, array: JobId, index: int) -> JobId:
    number = element_number(made.state, array, index)
    assert number is not None
    return number


def hold(made: World, job: int, held: bool = True) -> None:
    made.tell("admission", f.HoldSet(job=JobId(job), held=held, by="ada"))


def finish_one(made: World) -> JobId:
    job = made.in_state(JobState.RUNNING)[0]
    made.finish(job)
    made.settle()
    return job


def test_a_held_element_is_passed_over_until_it_is_released():
    made, array = world()
    third = element(made, array, 2)
    hold(made, third)
    known = lookup(made.state, third)
    assert known is not None
    assert (known.state, known.reason.code, known.reason.numbers) == (JobState.HELD, ReasonCode.HELD, {"by": "ada"})
    for _ in range(5):
        finish_one(made)
    assert by_state(made.state, made.state.kept.arrays[array]) == {
        JobState.HELD: [2],
        JobState.SUCCEEDED: [0, 1, 3, 4, 5],
    }
    assert standing_of(made.state, made.state.kept.arrays[array]) == JobState.HELD
    assert made.state.unfinished[""] == 1
    hold(made, third, held=False)
    made.settle()
    assert made.job(third).state == JobState.RUNNING
    made.finish(third)
    assert standing_of(made.state, made.state.kept.arrays[array]) == JobState.SUCCEEDED
    assert made.state.unfinished.get("", 0) == 0


def test_releasing_the_array_releases_its_elements_and_cancelling_it_cancels_them():
    made, array = world()
    hold(made, element(made, array, 3))
    hold(made, array)
    hold(made, array, held=False)
    assert JobState.HELD not in counts(made.state, made.state.kept.arrays[array])
    hold(made, element(made, array, 4))
    made.tell("admission", f.CancelRequested(job=array, by="ada"))
    made.stop_all()
    assert counts(made.state, made.state.kept.arrays[array]) == {JobState.CANCELLED: 6}


def test_a_held_element_can_be_cancelled_alone():
    made, array = world()
    fourth = element(made, array, 3)
    hold(made, fourth)
    made.tell("admission", f.CancelRequested(job=fourth, by="ada"))
    assert by_state(made.state, made.state.kept.arrays[array])[JobState.CANCELLED] == [3]


def test_an_edit_of_one_element_holds_when_it_enters_the_queue_and_for_no_other():
    made, array = world()
    last = element(made, array, 5)
    edit = JobEdit(priority=7, time_limit_s=60)
    assert check_edit(made.state, Draft(), job=last, edit=edit, standing=Standing.ADMIN, by="root", at=made.at) is None
    made.tell("admission", f.JobEdited(job=last, edit=edit, by="root"))
    assert lookup(made.state, last).spec.priority == 7
    assert lookup(made.state, element(made, array, 4)).spec.priority == 0
    made.state = decode_snapshot(encode_snapshot(made.state))
    for _ in range(4):
        finish_one(made)
    assert made.job(last).spec.priority == 7
    assert made.job(last).spec.time_limit_s == 60
    assert made.job(element(made, array, 4)).spec.time_limit_s == 0
    assert made.state.kept.arrays[array].edits == {}


def test_a_later_edit_of_the_whole_array_has_the_last_word():
    made, array = world()
    last = element(made, array, 5)
    made.tell("admission", f.JobEdited(job=last, edit=JobEdit(priority=7, retries=2), by="root"))
    made.tell("admission", f.JobEdited(job=array, edit=JobEdit(priority=1), by="root"))
    known = lookup(made.state, last)
    assert (known.spec.priority, known.spec.retries) == (1, 2)
    for _ in range(4):
        finish_one(made)
    assert (made.job(last).spec.priority, made.job(last).spec.retries) == (1, 2)


def test_an_element_that_is_in_the_queue_is_edited_as_a_job():
    made, array = world()
    first = element(made, array, 0)
    made.tell("admission", f.JobEdited(job=first, edit=JobEdit(labels={"a": "b"}), by="ada"))
    assert made.job(first).spec.labels == {"a": "b"}
    assert made.state.kept.arrays[array].edits == {}


def test_only_arrays_have_caps():
    made, array = world()
    problem = check_edit(
        made.state,
        Draft(),
        job=element(made, array, 5),
        edit=JobEdit(at_most=3),
        standing=Standing.ADMIN,
        by="root",
        at=made.at,
    )
    assert problem is not None
    assert problem.field == "at_most"
    assert replace(problem, reason=None).kind == "invalid"


def test_elements_are_cancelled_in_one_order_for_those_who_began_from_a_snapshot_as_well():
    """Who was held and released came last in the index of those who had seen it, and first in that of the others."""
    made = World(node("n1", gpus=1)).set_policy(ordering="fifo")
    array = made.submit(spec(gpus=8, array=ArraySpec(ranges=((0, 2, 1),))))
    first = element(made, array, 0)
    hold(made, first)
    hold(made, first, held=False)
    later = decode_snapshot(encode_snapshot(made.state))
    made.tell("admission", f.CancelRequested(job=array, by="ada"))
    apply(later, made.log[-1], strict=True)
    assert list(later.kept.ended) == list(made.state.kept.ended)
    assert len(later.kept.ended) == 3


# --- deadlines of what nobody lets run ----------------------------------------------------------------------


def dated(**fields: object) -> tuple[World, JobId]:
    made = World(node("n1", gpus=8)).set_policy(ordering="fifo")
    array = made.submit(spec(gpus=1, array=ArraySpec(ranges=((0, 3, 1),)), deadline_ms=made.at + 3600_000, **fields))
    made.settle()
    return made, array


def test_a_held_array_ends_at_its_deadline_and_says_why():
    made, array = dated(hold=True, estimate_s=600)
    follower = made.submit(gpus=1, after=(Dependency(job=array, kind=DependencyKind.NOT_OK),))
    made.settle()
    assert next_wake_ms(made.state, "default", made.at) == made.at + 3600_000 - 600_000 + 1
    made.wait(3001).round()
    made.settle()
    record = made.state.kept.arrays[array]
    assert (record.marks, record.ended_ms, record.pending) == ("ffff", made.at, 0)
    whole = lookup(made.state, array)
    assert whole is not None
    assert (whole.state, whole.reason.code) == (JobState.FAILED, ReasonCode.DEADLINE)
    one = lookup(made.state, element(made, array, 2))
    assert one is not None
    assert (one.state, one.reason.code) == (JobState.FAILED, ReasonCode.DEADLINE)
    assert made.job(follower).state == JobState.RUNNING
    assert not any(array in names for names in made.state.door.dated.values())
    assert made.state.unfinished[""] == 1


def test_a_held_element_ends_at_its_deadline_while_others_of_its_array_run():
    made = World(node("n1", gpus=1)).set_policy(ordering="fifo")
    array = made.submit(spec(gpus=1, array=ArraySpec(ranges=((0, 2, 1),), at_most=1), deadline_ms=made.at + 3600_000))
    made.settle()
    hold(made, element(made, array, 2))
    made.wait(3601).round()
    # The first one runs still, behind whose cap the second one waits.
    assert {one: list(found) for one, found in by_state(made.state, made.state.kept.arrays[array]).items()} == {
        JobState.RUNNING: [0],
        JobState.WAITING: [1],
        JobState.FAILED: [2],
    }


def test_an_element_whose_own_deadline_is_later_outlives_a_held_array_and_no_round_comes_for_nothing():
    made, array = dated(hold=True)
    third = element(made, array, 2)
    made.tell("admission", f.JobEdited(job=third, edit=JobEdit(deadline_ms=made.at + 7200_000), by="ada"))
    made.wait(3601).round()
    assert made.state.kept.arrays[array].marks == "ff.f"
    assert cycle.open_round(made.state, "default", made.at) is None
    assert next_wake_ms(made.state, "default", made.at) == made.at + 3599_000
    made.wait(3600).round()
    assert made.state.kept.arrays[array].marks == "ffff"
    assert made.state.kept.arrays[array].ended_ms == made.at


def test_a_held_array_that_was_taken_back_is_not_called_held_and_who_follows_it_goes_on():
    made, array = dated(hold=True)
    follower = made.submit(gpus=1, after=(Dependency(job=array, kind=DependencyKind.ANY),))
    made.settle()
    made.tell("admission", f.CancelRequested(job=array, by="ada"))
    whole = lookup(made.state, array)
    assert whole is not None
    assert (whole.state, whole.reason) == (JobState.CANCELLED, None)
    made.settle()
    assert made.job(follower).state == JobState.RUNNING
