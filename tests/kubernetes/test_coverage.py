"""Every public report that is claimed to be covered on a cluster has tests, and these exist."""

import pytest
from tests.cases import coverage
from tests.kubernetes.coverage import CASES, ELSEWHERE
from tests.named import missing

OF_CLUSTERS = {"E14", "G07", "K04", "L08", "M05", "P01", "P02", "P04", "P05"}
"""Reports that come from clusters."""


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_case_names_tests_that_exist(case: str) -> None:
    assert CASES[case]
    assert missing(CASES[case], "kubernetes") == []


def test_no_report_about_clusters_gangs_quota_or_nodes_is_left_out() -> None:
    numbers = {case.split()[0] for case in CASES}
    assert numbers >= OF_CLUSTERS
    of_door = {case.split()[0] for case in coverage.CASES if case[0] in "AB"}
    assert of_door == {number for number in numbers | set(ELSEWHERE) if number[0] in "AB"}
    assert {number for number in numbers if number[0] == "K"} == {f"K{k:02}" for k in (1, 2, 4, 5, 7, 8, 10, 11)}
    assert not numbers & set(ELSEWHERE)
