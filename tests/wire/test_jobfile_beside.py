"""Jobs of one call name those before them: who is meant is clear, or said not to be."""

import pytest

from gangline_core.spec import Dependency, DependencyKind, JobSpec
from gangline_wire.jobfile import JobFileError, parse_job
from gangline_wire.jobfile_beside import beside


def read(*documents: dict[str, object]) -> list[JobSpec]:
    """The jobs of one call, as they are read at the door."""
    whole = [{"command": ["true"], **document} for document in documents]
    others = beside(whole)
    for document in whole:
        others.before.append(parse_job(document, others))
    return [spec for spec in others.before if spec is not None]


def wrong(*documents: dict[str, object]) -> dict[str, str]:
    """Path and message of what is wrong with the last one."""
    with pytest.raises(JobFileError) as caught:
        read(*documents)
    return {error.path: error.message for error in caught.value.errors}


def test_a_name_stands_for_the_job_before_it_in_every_way_that_a_number_can_be_written():
    after: list[object] = ["prep", "afterok:prep", "afterany:prep", "afternotok:prep", {"job": "prep"}]
    after += [{"job": "prep", "outcome": "notok"}, {"job": "prep", "any_outcome": True}, 7, "8"]
    *_, spec = read({"name": "first"}, {"name": "prep"}, {"after": after})
    kinds = [DependencyKind.OK, DependencyKind.OK, DependencyKind.ANY, DependencyKind.NOT_OK, DependencyKind.OK]
    assert spec.after == (
        *(Dependency(0, kind=kind, entry=1) for kind in kinds),
        Dependency(0, kind=DependencyKind.NOT_OK, entry=1),
        Dependency(0, any_outcome=True, entry=1),
        Dependency(7),
        Dependency(8),
    )


def test_one_name_may_stand_alone_and_may_hold_what_kinds_are_written_with():
    specs = read({"name": "train:v2"}, {"name": "x", "after": "train:v2"}, {"after": "afterany:train:v2"})
    assert specs[1].after == (Dependency(0, entry=0),)
    assert specs[2].after == (Dependency(0, kind=DependencyKind.ANY, entry=0),)


def test_an_element_of_an_array_before_is_named_with_its_index():
    *_, spec = read({"name": "sweep", "array": "0-9"}, {"name": "sweep_3"}, {"after": ["sweep_7", "sweep_3", "sweep"]})
    assert spec.after == (Dependency(0, index=7, entry=0), Dependency(0, entry=1), Dependency(0, entry=0))
    assert wrong({"name": "sweep", "array": "0-9"}, {"after": "sweep_10"}) == {
        "after[0]": '"sweep_10" is no element of an array before it'
    }
    assert wrong({"name": "single"}, {"after": "single_0"}) == {
        "after[0]": '"single_0" is no element of an array before it'
    }


def test_digits_are_a_number_whatever_a_job_is_called():
    *_, spec = read({"name": "42"}, {"name": "42_7"}, {"after": ["42", "42_7"]})
    assert spec.after == (Dependency(42), Dependency(42, index=7))


def test_a_name_that_does_not_say_which_job_is_refused_with_the_reason():
    twice: list[dict[str, object]] = [{"name": "prep", "user": "una"}, {"name": "prep", "user": "ben"}]
    assert wrong(*twice, {"after": [1, "prep"]}) == {"after[1]": '"prep" is the name of 2 jobs before it'}
    assert wrong({"name": "a", "after": "b"}, {"name": "b"}) == {
        "after[0]": '"b" comes later in this call; put it before this job'
    }
    assert wrong({"name": "a", "after": ["afterok:a"]}) == {"after[0]": '"a" is the job itself'}
    told = {"after[0]": '"pre" is no job\'s number, nor the name of a job before it in this call'}
    assert wrong({"name": "prep"}, {"after": "pre"}) == told
    with pytest.raises(JobFileError, match="no job's number, nor"):
        parse_job({"command": ["true"], "after": "pre"})
    assert set(wrong({"name": "prep"}, {"after": "afterwards:12"})) == {"after[0]"}
    assert set(wrong({"name": "prep"}, {"after": ""})) == {"after[0]"}


def test_the_first_of_two_is_meant_by_whoever_stands_between_them():
    specs = read({"name": "a", "user": "una"}, {"after": "a"}, {"name": "a", "user": "ben"})
    assert specs[1].after == (Dependency(0, entry=0),)
