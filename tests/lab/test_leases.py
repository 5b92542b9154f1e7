"""Leases: room is lent for a time, in one order of those that run and those that wait."""

from pathlib import Path

from msgspec.structs import replace
from tests.lab.simulated import jcts_s, prove_archive, run, trace

from gangline_core.cluster import Policy
from gangline_core.facts import RoundDecided
from gangline_core.pauses import rotation
from gangline_core.reasons import ReasonCode
from gangline_lab.archive import read
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import Scenario, Simulation, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.journal import Journal

ROTATING = Policy(ordering="gavel", lease_s=100, starvation_s=0)


def test_jobs_that_came_together_take_turns_and_end_together() -> None:
    ends = jcts_s(
        run(trace((0, 4, 1000), (0, 4, 1000), (0, 4, 1000)), policy=ROTATING, round_s=100, tells_checkpoints=True)
    )
    assert min(ends) > 2_700
    assert max(ends) == 3_000


def test_a_job_keeps_its_room_while_nobody_waits() -> None:
    result = run(trace((0, 2, 1000), (0, 2, 1000)), policy=ROTATING, round_s=100)
    assert jcts_s(result) == [1000, 1000]
    assert result.preemptions == 0


def test_nobody_makes_way_in_the_time_in_which_it_is_protected() -> None:
    jobs = trace((0, 4, 1000), (0, 4, 1000))
    assert run(jobs, policy=ROTATING, round_s=100, tells_checkpoints=True).preemptions > 10
    held = replace(
        jobs, arrivals=tuple(replace(one, spec=replace(one.spec, protected_s=5_000)) for one in jobs.arrivals)
    )
    assert run(held, policy=ROTATING, round_s=100, tells_checkpoints=True).preemptions == 0


def test_jobs_that_lose_all_at_each_stop_end_although_leases_are_shorter_than_they_run() -> None:
    jobs = trace((0, 4, 1000), (0, 4, 1000), (0, 4, 1000))
    result = run(jobs, policy=ROTATING, round_s=100, checkpoint_at_stop=False)
    assert max(jcts_s(result)) < 3 * 3_000
    assert 3 < result.preemptions <= 3 * 5


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
            conditions=Conditions(round_s=100, restart_s=5, tells_checkpoints=True),
        ),
        archive=tmp_path / "a",
    )
    prove_archive(tmp_path / "a")
    report = replay(tmp_path / "a")
    assert report.equal
    assert report.decisions > 50


def test_of_a_hundred_taken_for_a_model_all_but_one_stand_on_it_before_time_goes_on(
    monkeypatch, tmp_path: Path
) -> None:
    jobs = trace(*((0, 1, 3_000 + 40 * k) for k in range(12)), *((0, 2, 3_000) for _ in range(4)))
    fast = [(k % 4 + 1.0, k % 3 + 1.0) for k in range(16)]
    told = [
        replace(one, spec=replace(one.spec, attributes={"speed_v100": v, "speed_p100": p}))
        for one, (v, p) in zip(jobs.arrivals, fast, strict=True)
    ]
    taken = rotation.taken
    chosen: dict[int, str] = {}
    seen, on_model = 0, 0

    def remembered(state, leases, free, holding):
        found = taken(state, leases, free, holding)
        if holding:
            chosen.clear()
            chosen.update(found)
        return found

    monkeypatch.setattr(rotation, "taken", remembered)
    policy = Policy(ordering="gavel", objective="makespan", lease_s=100, starvation_s=0, preemption=False)
    scenario = Scenario(
        trace=replace(jobs, arrivals=tuple(told)),
        fleet=read_fleet("1x4xV100,1x4xP100"),
        policies={"default": policy},
        conditions=Conditions(round_s=100, tells_checkpoints=True),
    )
    with Journal(tmp_path / "moves") as journal:
        simulation = Simulation(scenario, journal)
        live, last = simulation._live, [simulation.now]

        def looked_at(moment) -> None:
            nonlocal seen, on_model
            if moment.at > last[0]:
                for job, model in chosen.items():
                    known = simulation.state.job(job)
                    held = known is not None and rotation.model_held(_Seen(simulation.state), known)
                    seen, on_model = seen + 1, on_model + (held == model)
                chosen.clear()
            last[0] = moment.at
            live(moment)

        monkeypatch.setattr(simulation, "_live", looked_at)
        simulation.run()
    monkeypatch.undo()
    prove_archive(tmp_path / "moves")
    assert seen > 150
    assert on_model >= 0.99 * seen


ALONE_FIRST = ((0, 2, 3_000), (150, 1, 3_000), (250, 1, 500))


def test_who_came_since_parts_were_worked_out_waits_for_its_part_where_the_policy_has_it_so(tmp_path: Path) -> None:
    """Room is free all the time; the first was alone, so its part is worked out anew for the second at once."""
    at_once = run(trace(*ALONE_FIRST), policy=ROTATING, round_s=100)
    assert [job.waited_ms for job in at_once.jobs] == [0, 50_000, 50_000]
    waiting = replace(ROTATING, newcomers_wait=True)
    result = run(trace(*ALONE_FIRST), policy=waiting, round_s=100)
    assert [job.waited_ms for job in result.jobs] == [0, 50_000, 950_000]
    scenario = Scenario(
        trace=trace(*ALONE_FIRST),
        fleet=read_fleet("1x4xV100"),
        policies={"default": waiting},
        conditions=Conditions(round_s=100),
    )
    simulate(scenario, archive=tmp_path / "a")
    assert replay(tmp_path / "a").equal
    refused = [
        one.reason.code
        for entry in read(tmp_path / "a")
        for fact in entry.message.facts
        if isinstance(fact, RoundDecided)
        for one in fact.refusals
    ]
    assert ReasonCode.NO_PART_YET in refused


def test_who_comes_to_an_empty_pool_does_not_wait_for_ever_for_a_part() -> None:
    result = run(
        trace((0, 1, 50), (0, 1, 50), (120, 1, 50)), policy=replace(ROTATING, newcomers_wait=True), round_s=100
    )
    assert result.jobs[2].waited_ms == 880_000


def test_a_start_costs_nothing_where_little_is_left() -> None:
    jobs = trace((0, 1, 100), (0, 1, 300))
    assert jcts_s(run(jobs, start_s=20, free_start_s=115)) == [100, 320]
    assert jcts_s(run(jobs, start_s=20)) == [120, 320]


class _Seen:
    """As much of a round's table as `model_held` looks at."""

    def __init__(self, state) -> None:
        self.state = state


def test_who_cannot_have_a_place_on_its_model_stays_and_nobody_goes_for_it(tmp_path: Path) -> None:
    """The cards of the faster model are free in sum but not together where the gang could be."""
    jobs = trace(*((0, 1, 3_000 + 40 * k) for k in range(6)), *((0, 3, 3_000) for _ in range(4)))
    told = [
        replace(one, spec=replace(one.spec, attributes={"speed_v100": 1.0 + k % 3, "speed_p100": 1.0 + (k + 1) % 3}))
        for k, one in enumerate(jobs.arrivals)
    ]
    scenario = Scenario(
        trace=replace(jobs, arrivals=tuple(told)),
        fleet=read_fleet("2x4xV100,2x4xP100"),
        policies={"default": Policy(ordering="gavel", objective="makespan", lease_s=100, starvation_s=0)},
        conditions=Conditions(round_s=100, tells_checkpoints=True),
    )
    simulate(scenario, archive=tmp_path / "a")
    prove_archive(tmp_path / "a")
