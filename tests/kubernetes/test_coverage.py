"""Every public report that is claimed to be covered on a cluster has tests, and these exist."""

import ast
from pathlib import Path

import pytest
from tests.cases import coverage
from tests.kubernetes.coverage import CASES, ELSEWHERE

HERE = Path(__file__).parent
OF_CLUSTERS = {"E14", "G07", "K04", "L08", "M05", "P01", "P02", "P04", "P05"}
"""Reports that come from clusters."""


def functions_of(file: str) -> set[str]:
    """Names of the tests in a file of this folder."""
    tree = ast.parse((HERE / f"{file}.py").read_text())
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")}


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_case_names_tests_that_exist(case: str) -> None:
    assert CASES[case]
    for named in CASES[case]:
        file, _, test = named.partition("::")
        assert test in functions_of(file), f"{case}: there is no {named}"


def test_no_report_about_clusters_gangs_quota_or_nodes_is_left_out() -> None:
    numbers = {case.split()[0] for case in CASES}
    assert numbers >= OF_CLUSTERS
    of_door = {case.split()[0] for case in coverage.CASES if case[0] in "AB"}
    assert of_door == {number for number in numbers | set(ELSEWHERE) if number[0] in "AB"}
    assert {number for number in numbers if number[0] == "K"} == {f"K{k:02}" for k in (1, 2, 4, 5, 7, 8, 10, 11)}
    assert not numbers & set(ELSEWHERE)
