"""Every public report that is claimed to be covered has tests, and these exist and are run."""

import ast
from pathlib import Path

import pytest
from tests.cases.coverage import CASES

HERE = Path(__file__).parent


def functions_of(file: str) -> set[str]:
    """Names of the tests in a file of this folder."""
    tree = ast.parse((HERE / f"{file}.py").read_text())
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
