"""Leases: room is lent for a time, in one order of those that run and those that wait."""

from pathlib import Path

from msgspec.structs import replace
from tests.lab.simulated import jcts_s, run, trace

from gangline_core.cluster import Policy
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import read_fleet

ROTATING = Policy(ordering="gavel", lease_s=100, starvation_s=0)


def test_jobs_that_came_together_take_turns_and_end_together() -> None:
    ends = jcts_s(run(trace((0, 4, 1000), (0, 4, 1000), (0, 4, 1000)), policy=ROTATING, round_s=100))
    assert min(ends) > 2_700
    assert max(ends) == 3_000


def test_a_job_keeps_its_room_while_nobody_waits() -> None:
    result = run(trace((0, 2, 1000), (0, 2, 1000)), policy=ROTATING, round_s=100)
    assert jcts_s(result) == [1000, 1000]
    assert result.preemptions == 0


def test_nobody_makes_way_in_the_time_in_which_it_is_protected() -> None:
    jobs = trace((0, 4, 1000), (0, 4, 1000))
    assert run(jobs, policy=ROTATING, round_s=100).preemptions > 10
    held = replace(
        jobs, arrivals=tuple(replace(one, spec=replace(one.spec, protected_s=5_000)) for one in jobs.arrivals)
    )
    assert run(held, policy=ROTATING, round_s=100).preemptions == 0


def test_a_larger_job_that_goes_first_takes_the_room_of_as_many_as_it_needs() -> None:
    policy = Policy(
        ordering="weighted",
        formula="-remaining_hours",
        lease_s=100,
        starvation_s=0,
        predictor="given",
        preemption=False,
    )
    jobs = trace((0, 2, 2000), (0, 2, 1000), (100, 2, 300))
    result = run(jobs, policy=policy, round_s=100)
    assert jcts_s(result) == [2300, 1000, 300]
    assert [job.preemptions for job in result.jobs] == [1, 0, 0]


def test_what_was_lent_replays_to_the_byte(tmp_path: Path) -> None:
    jobs = trace(*((50 * k, 1 + k % 3, 400 + 30 * k) for k in range(30)))
    simulate(
        Scenario(
            trace=jobs,
            fleet=read_fleet("1x4xV100,1x4xP100"),
            policies={"default": ROTATING},
            conditions=Conditions(round_s=100, restart_s=5),
        ),
        archive=tmp_path / "a",
    )
    report = replay(tmp_path / "a")
    assert report.equal
    assert report.decisions > 50
