"""Every public report that is claimed to be covered has tests, and these exist and are run."""

import pytest
from tests.cases.coverage import CASES
from tests.cases.coverage_house import HOUSE
from tests.cases.coverage_machines import MACHINES
from tests.cases.coverage_places import PLACES
from tests.named import missing

ABOUT_PLACES = {"F": "01 02 04 05", "G": "01 02 05 07 08", "H": "01 02 04 07 08", "I": "01 02"}


@pytest.mark.parametrize(
    ("case", "named"), [entry for table in (CASES, PLACES, HOUSE, MACHINES) for entry in sorted(table.items())]
)
def test_a_case_names_tests_that_exist(case: str, named: tuple[str, ...]) -> None:
    assert named, case
    assert missing(named, "cases") == []


def test_no_case_is_left_out_of_the_groups_that_the_door_and_the_queue_answer_for() -> None:
    assert {case[0] for case in CASES} == set("ABCDEMQR")
    assert len({case.split()[0] for case in CASES}) == len(CASES) == 47


def test_no_case_about_places_is_left_out() -> None:
    numbered = {case.split()[0] for case in PLACES if case[1].isdigit()}
    assert numbered == {group + number for group, numbers in ABOUT_PLACES.items() for number in numbers.split()}


def test_no_case_is_left_out_of_the_groups_that_the_dollhouse_answers_for() -> None:
    assert {case[0] for case in HOUSE} == set("KNOPS")
    assert len({case.split()[0] for case in HOUSE}) == len(HOUSE) == 28


def test_no_case_about_sizes_machines_or_sensors_is_left_out() -> None:
    assert {case[0] for case in MACHINES} == set("JKL")
    assert len({case.split()[0] for case in MACHINES}) == len(MACHINES) == 22
