"""Pairs in the lab: how fast two go that use the same resources side by side, and that every log of it holds."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.lab.simulated import jcts_s, prove_archive, run, trace
from tests.lab.test_sharing import staged

from gangline_core.cluster import Policy
from gangline_core.sharing.stages import Stages
from gangline_lab.policyfile import read_policy
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Colocation, Conditions, Failures
from gangline_lab.sim.contention import together_permille
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import read_fleet

PAGES = Path(__file__).parents[2] / "policies" / "papers"
HALF, OTHER, LIGHT = (100, 600, 300), (600, 100, 300), (100, 200, 700)
SHARING = {"colocation": Colocation(contended=True), "memory_most_mib": 8_192, "estimates": "true"}


def lucid() -> Policy:
    return read_policy(PAGES / "lucid.yaml").policies["default"]


def test_two_that_ask_for_more_than_all_of_a_resource_slow_down_in_proportion() -> None:
    # Both compute for 60 % of the time: 120 % together, so that 1,000 s of work take 1,200.
    jobs = staged(trace((0, 4, 1000), (0, 4, 1000)), HALF, HALF)
    assert jcts_s(run(jobs, policy=lucid(), **SHARING)) == pytest.approx([1200, 1200], abs=2)


def test_two_that_use_other_resources_leave_each_other_their_speed() -> None:
    jobs = staged(trace((0, 4, 1000), (0, 4, 1000)), HALF, OTHER)
    assert jcts_s(run(jobs, policy=lucid(), **SHARING)) == pytest.approx([1000, 1000], abs=2)


def test_whoever_is_left_goes_on_at_full_speed() -> None:
    # Until 1,200 s both have done 1,000 s of work; then 500 s of the longer one are left.
    jobs = staged(trace((0, 4, 1500), (0, 4, 1000)), HALF, HALF)
    assert jcts_s(run(jobs, policy=lucid(), **SHARING)) == pytest.approx([1700, 1200], abs=3)


def test_without_the_rule_the_second_waits() -> None:
    jobs = staged(trace((0, 4, 1000), (0, 4, 1000)), HALF, HALF)
    alone = replace(lucid(), sharing="")
    assert jcts_s(run(jobs, policy=alone, **SHARING)) == [1000, 2000]


stages = st.builds(
    Stages,
    loading_us=st.integers(0, 10**7),
    compute_us=st.integers(0, 10**7),
    network_us=st.integers(0, 10**7),
    iteration_us=st.integers(1, 10**7),
)


@given(st.lists(stages, min_size=1, max_size=4))
def test_nobody_gets_more_of_a_resource_than_it_has_and_no_speed_is_given_away(company) -> None:
    permille = together_permille(company)
    parts = [
        sum(min(Fraction(1), Fraction(part, one.iteration_us)) for one, part in zip(company, column, strict=True))
        for column in zip(*((one.loading_us, one.compute_us, one.network_us) for one in company), strict=True)
    ]
    assert 1 <= permille <= 1000
    assert permille == pytest.approx(1000 / max(1, *parts), abs=1.01)


def test_a_single_job_keeps_its_speed() -> None:
    assert together_permille([Stages(900_000, 900_000, 900_000, 1_000_000)]) == 1000


def test_pairs_that_came_and_went_keep_every_promise_and_replay_to_the_byte(tmp_path: Path) -> None:
    sizes = [1, 2, 4, 8, 1, 2, 16, 4]
    jobs = trace(*((40 * k, sizes[k % len(sizes)], 900 + 210 * (k % 7)) for k in range(40)))
    scenario = Scenario(
        trace=staged(jobs, HALF, LIGHT, OTHER, (950, 20, 30), (100, 300, 200)),
        fleet=read_fleet("2x8xV100"),
        policies={"default": lucid()},
        conditions=Conditions(**SHARING, start_s=5),
    )
    result = simulate(scenario, archive=tmp_path / "a")
    assert all(job.ended_ms > 0 for job in result.jobs)
    prove_archive(tmp_path / "a")
    report = replay(tmp_path / "a")
    assert report.equal
    assert report.decisions > 50


def test_machines_that_fail_leave_no_half_of_a_gpu_behind(tmp_path: Path) -> None:
    jobs = trace(*((30 * k, (4, 8, 2)[k % 3], 900) for k in range(16)))
    scenario = Scenario(
        trace=staged(jobs, HALF, LIGHT, OTHER),
        fleet=read_fleet("4x4xV100"),
        policies={"default": lucid()},
        conditions=Conditions(**SHARING, checkpoint_s=60, failures=Failures(node_mtbf_hours=1.0, repair_s=600)),
    )
    simulate(scenario, archive=tmp_path / "a")
    prove_archive(tmp_path / "a")
    assert replay(tmp_path / "a").equal
