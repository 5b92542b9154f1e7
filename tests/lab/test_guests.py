"""Guests in the lab: the owner keeps its speed, a guest has what that leaves, and every log of it holds and replays."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.lab.simulated import jcts_s, prove_archive, run, trace
from tests.lab.test_pairs import stages
from tests.lab.test_sharing import staged

from gangline_core.cluster import Policy
from gangline_core.sharing.stages import Stages
from gangline_lab.policyfile import read_policy
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Colocation, Conditions, Failures
from gangline_lab.sim.contention import left_permille
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Workload

PAGES = Path(__file__).parents[2] / "policies" / "papers"
HALF, OTHER, LIGHT = (100, 600, 300), (600, 100, 300), (100, 200, 700)
SHARING = {
    "colocation": Colocation(contended=True),
    "memory_most_mib": 8_192,
    "estimates": "true",
    "opportunistic": True,
}


def antman() -> Policy:
    return read_policy(PAGES / "antman.yaml").policies["default"]


def with_low(jobs: Workload, *numbers: int) -> Workload:
    """The same jobs; those of these numbers are opportunistic."""
    arrivals = (
        replace(one, spec=replace(one.spec, attributes={**one.spec.attributes, "opportunistic": True}))
        if number in numbers
        else one
        for number, one in enumerate(jobs.arrivals)
    )
    return replace(jobs, arrivals=tuple(arrivals))


def test_a_guest_has_what_the_owner_leaves_and_all_of_it_later() -> None:
    # The owner leaves 40 % of the time in which the guest needs 60 %: two thirds of its speed, until 900 s. Then 600 of
    # its 1,200 s are done.
    jobs = with_low(staged(trace((0, 4, 900), (0, 4, 1200)), HALF, HALF), 1)
    assert jcts_s(run(jobs, policy=antman(), **SHARING)) == pytest.approx([900, 1500], abs=3)


def test_who_comes_later_and_is_not_opportunistic_goes_at_full_speed_at_once_and_nothing_is_lost() -> None:
    # 300 s alone, then 600 s at two thirds of the speed: 700 of 1,000 s are done when the owner ends.
    jobs = with_low(staged(trace((0, 4, 1000), (300, 4, 600)), HALF, HALF), 0)
    result = run(jobs, policy=antman(), **SHARING)
    assert jcts_s(result) == pytest.approx([1200, 600], abs=3)
    assert [job.preemptions for job in result.jobs] == [0, 0]


def test_gpus_are_used_once_and_the_guest_takes_none_of_the_owners_time() -> None:
    jobs = with_low(staged(trace((0, 4, 900), (0, 4, 1200)), HALF, HALF), 1)
    result = run(jobs, policy=antman(), **SHARING)
    owner, guest = result.jobs
    assert owner.useful_gpu_ms == pytest.approx(4 * 1000 * 900_000, rel=0.01)
    assert guest.useful_gpu_ms == pytest.approx(4 * 1000 * 600_000, rel=0.01)


@given(stages, stages)
def test_owner_and_guest_together_ask_for_no_more_than_there_is(guest: Stages, owner: Stages) -> None:
    permille = left_permille(guest, owner)
    assert 1 <= permille <= 1000
    for name in ("loading_us", "compute_us", "network_us"):
        mine = min(Fraction(1), Fraction(getattr(guest, name), guest.iteration_us))
        theirs = min(Fraction(1), Fraction(getattr(owner, name), owner.iteration_us))
        # One thousandth of its speed is left to it in any case.
        assert theirs + mine * (permille - 1) / 1000 <= 1 + Fraction(1, 10**5)


def scenario(numbers: range, **conditions: object) -> Scenario:
    sizes = [1, 2, 4, 8, 1, 2, 16, 4]
    jobs = trace(*((40 * k, sizes[k % len(sizes)], 900 + 210 * (k % 7)) for k in numbers))
    low = [k for k in numbers if k % 3 != 1]
    return Scenario(
        trace=with_low(staged(jobs, HALF, LIGHT, OTHER, (950, 20, 30), (100, 300, 200)), *low),
        fleet=read_fleet("2x8xV100"),
        policies={"default": antman()},
        conditions=Conditions(**SHARING, **conditions),
    )


def test_guests_that_came_and_were_promoted_keep_every_promise_and_replay_to_the_byte(tmp_path: Path) -> None:
    result = simulate(scenario(range(50), start_s=5, stop_s=3), archive=tmp_path / "a")
    assert all(job.ended_ms > 0 for job in result.jobs)
    prove_archive(tmp_path / "a")
    report = replay(tmp_path / "a")
    assert report.equal
    assert report.decisions > 50


def test_machines_that_fail_leave_no_guest_without_an_owner(tmp_path: Path) -> None:
    failures = Failures(node_mtbf_hours=1.0, repair_s=600)
    simulate(scenario(range(24), checkpoint_s=60, failures=failures), archive=tmp_path / "a")
    prove_archive(tmp_path / "a")
    assert replay(tmp_path / "a").equal
