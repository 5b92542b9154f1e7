"""Every public report that is claimed to be covered has tests, and these exist and are run."""

import ast
from pathlib import Path

import pytest
from tests.cases.coverage import CASES
from tests.cases.coverage_house import HOUSE
from tests.cases.coverage_machines import MACHINES
from tests.cases.coverage_places import PLACES

HERE = Path(__file__).parent


def functions_of(file: str) -> set[str]:
    """Names of the tests in a file of this folder, or of another one: "core/test_moves"."""
    tree = ast.parse((HERE.parent / f"{file if '/' in file else f'cases/{file}'}.py").read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_case_names_tests_that_exist(case: str) -> None:
    assert CASES[case]
    for named in CASES[case]:
        file, _, test = named.partition("::")
        assert test in functions_of(file), f"{case}: there is no {named}"


def test_no_case_is_left_out_of_the_groups_that_the_door_and_the_queue_answer_for() -> None:
    groups = {case[0] for case in CASES}
    assert groups == set("ABCDEMQR")
    assert len({case.split()[0] for case in CASES}) == len(CASES) == 47


@pytest.mark.parametrize("case", sorted(PLACES))
def test_a_case_about_places_names_tests_that_exist(case: str) -> None:
    for named in PLACES[case]:
        file, _, test = named.partition("::")
        assert test in functions_of(file), f"{case}: there is no {named}"


ABOUT_PLACES = {"F": "01 02 04 05", "G": "01 02 05 07 08", "H": "01 02 04 07 08", "I": "01 02"}


def test_no_case_about_places_is_left_out() -> None:
    numbered = {case.split()[0] for case in PLACES if case[1].isdigit()}
    assert numbered == {group + number for group, numbers in ABOUT_PLACES.items() for number in numbers.split()}


@pytest.mark.parametrize("case", sorted(HOUSE))
def test_a_case_about_what_breaks_names_tests_that_exist(case: str) -> None:
    for named in HOUSE[case]:
        file, _, test = named.partition("::")
        assert test in functions_of(file), f"{case}: there is no {named}"


def test_no_case_is_left_out_of_the_groups_that_the_dollhouse_answers_for() -> None:
    assert {case[0] for case in HOUSE} == set("KNOPS")
    assert len({case.split()[0] for case in HOUSE}) == len(HOUSE) == 28


@pytest.mark.parametrize("case", sorted(MACHINES))
def test_a_case_about_sizes_machines_or_sensors_names_tests_that_exist(case: str) -> None:
    assert MACHINES[case]
    for named in MACHINES[case]:
        file, _, test = named.partition("::")
        assert test in functions_of(file), f"{case}: there is no {named}"


def test_no_case_about_sizes_machines_or_sensors_is_left_out() -> None:
    assert {case[0] for case in MACHINES} == set("JKL")
    assert len({case.split()[0] for case in MACHINES}) == len(MACHINES) == 22
