"""Jobs that share GPUs in the lab: how fast they go, that every promise of the log holds, and that it replays."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.lab.simulated import jcts_s, prove_archive, run, trace

from gangline_core.cluster import Policy
from gangline_lab.policyfile import read_policy
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Colocation, Conditions, Failures
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Workload

PAGES = Path(__file__).parents[2] / "policies" / "papers"
LOADS, COMPUTES, TALKS = (400, 100, 100), (100, 400, 100), (100, 100, 400)
SHARING = {"colocation": Colocation(stages=True), "memory_most_mib": 4_096, "estimates": "present"}


def staged(jobs: Workload, *stages: tuple[int, int, int]) -> Workload:
    """The jobs in turn with these stages (loading, compute, network in ms)."""

    def told(of: tuple[int, int, int]) -> dict[str, int]:
        return dict(zip(("loading_ms", "compute_ms", "network_ms", "iteration_ms"), (*of, sum(of)), strict=True))

    arrivals = (
        replace(one, spec=replace(one.spec, attributes=told(stages[k % len(stages)])))
        for k, one in enumerate(jobs.arrivals)
    )
    return replace(jobs, arrivals=tuple(arrivals))


def interleaved() -> Policy:
    return read_policy(PAGES / "muri-s.yaml").policies["default"]


def test_two_whose_stages_fit_into_each_other_end_sooner_than_by_turns() -> None:
    # An iteration of 600 ms takes both 600 * 1.291: 1,000 s of work are done after 1,291 s, and not 2,000.
    jobs = staged(trace((0, 4, 1000), (0, 4, 1000)), LOADS, COMPUTES)
    assert jcts_s(run(jobs, policy=interleaved(), **SHARING)) == pytest.approx([1291, 1291], abs=3)


def test_whoever_is_left_goes_on_at_full_speed() -> None:
    # Until 1,291 s both go at 1 / 1.291; then 1,000 s of the longer one are left.
    jobs = staged(trace((0, 4, 1000), (0, 4, 2000)), LOADS, COMPUTES)
    assert jcts_s(run(jobs, policy=interleaved(), **SHARING)) == pytest.approx([1291, 2291], abs=5)


def test_gpus_of_a_company_are_used_once_and_not_by_each() -> None:
    jobs = staged(trace((0, 4, 1000), (0, 4, 1000)), LOADS, COMPUTES)
    result = run(jobs, policy=interleaved(), **SHARING)
    used = sum(job.useful_gpu_ms for job in result.jobs)
    assert used == pytest.approx(4 * 1000 * 1_291_000, rel=0.01)


def test_jobs_that_came_and_went_on_shared_gpus_keep_every_promise_and_replay_to_the_byte(tmp_path: Path) -> None:
    sizes = [1, 2, 4, 8, 1, 2, 16, 4]
    jobs = trace(*((40 * k, sizes[k % len(sizes)], 900 + 210 * (k % 7)) for k in range(30)))
    scenario = Scenario(
        trace=staged(jobs, LOADS, COMPUTES, TALKS, LOADS, (500, 20, 0)),
        fleet=read_fleet("2x8xV100"),
        policies={"default": interleaved()},
        conditions=Conditions(**SHARING, restart_s=5, stop_s=3),
    )
    result = simulate(scenario, archive=tmp_path / "a")
    assert all(job.ended_ms > 0 for job in result.jobs)
    prove_archive(tmp_path / "a")
    report = replay(tmp_path / "a")
    assert report.equal
    assert report.decisions > 100


def test_machines_that_fail_leave_no_part_of_a_gpu_behind(tmp_path: Path) -> None:
    jobs = trace(*((30 * k, (4, 8, 12)[k % 3], 900) for k in range(8)))
    scenario = Scenario(
        trace=staged(jobs, LOADS, COMPUTES, TALKS),
        fleet=read_fleet("4x4xV100"),
        policies={"default": interleaved()},
        conditions=Conditions(**SHARING, checkpoint_s=60, failures=Failures(node_mtbf_hours=1.0, repair_s=600)),
    )
    simulate(scenario, archive=tmp_path / "a")
    prove_archive(tmp_path / "a")
    assert replay(tmp_path / "a").equal
