"""The simulator: equal inputs give equal runs, work takes the time it takes, and every cost is paid once."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.lab.simulated import FIFO, jcts_s, prove_archive, run, trace

from gangline_core.cluster import Policy
from gangline_core.groups import Group
from gangline_lab import philly
from gangline_lab.metric_words import metrics_lines
from gangline_lab.metrics import measure
from gangline_lab.readers import read_trace
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Colocation, Conditions, Elastic, Failures
from gangline_lab.sim.engine import Scenario, StuckError, simulate
from gangline_lab.sim.fleet import added, read_fleet
from gangline_lab.sim.workload import cut, fitted


def test_a_job_that_finds_room_takes_exactly_its_run_time() -> None:
    assert jcts_s(run(trace((0, 1, 60), (5, 2, 100)))) == [60, 100]


def test_jobs_wait_for_each_other_in_order() -> None:
    assert jcts_s(run(trace((0, 4, 100), (10, 4, 50), (20, 4, 30)))) == [100, 140, 160]


def test_equal_seeds_write_equal_archives_that_replay_byte_for_byte(tmp_path: Path) -> None:
    jobs = cut(read_trace(f"philly:{philly.JOB_LIST}"), jobs=60)
    failing = Conditions(failures=Failures(node_mtbf_hours=20, repair_s=600), restart_s=30, checkpoint_s=300)
    scenario = Scenario(trace=jobs, fleet=read_fleet("2x8xV100"), conditions=failing, seed=3)
    first = simulate(scenario, archive=tmp_path / "a")
    second = simulate(scenario, archive=tmp_path / "b")
    assert first == second
    prove_archive(tmp_path / "a")
    assert sum(job.losses for job in first.jobs) > 0
    segments = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert [(tmp_path / "a" / name).read_bytes() for name in segments] == [
        (tmp_path / "b" / name).read_bytes() for name in segments
    ]
    report = replay(tmp_path / "a")
    assert report.equal
    assert report.decisions > 100


def test_an_archive_changes_nothing_but_the_digests(tmp_path: Path) -> None:
    jobs = trace((0, 4, 100), (1, 2, 10), (2, 4, 5))
    scenario = Scenario(trace=jobs, fleet=read_fleet("1x4"), policies={"default": FIFO})
    assert simulate(scenario) == simulate(scenario, archive=tmp_path / "a")


def test_another_seed_fails_at_other_times() -> None:
    jobs = trace(*((60 * k, 2, 3_000) for k in range(20)))
    failing = {"failures": Failures(node_mtbf_hours=3, repair_s=600)}
    assert jcts_s(run(jobs, seed=1, **failing)) != jcts_s(run(jobs, seed=2, **failing))


def test_starts_cost_what_they_cost() -> None:
    assert jcts_s(run(trace((0, 1, 60)), start_s=25)) == [85]


def test_a_failure_loses_what_came_after_the_last_checkpoint() -> None:
    failing = {"failures": Failures(node_mtbf_hours=2, repair_s=1_000)}
    lost, safe = (run(trace((0, 4, 20_000)), seed=5, checkpoint_s=period, **failing) for period in (0, 60))
    assert lost.jobs[0].losses
    assert lost.jobs[0].lost_ms > safe.jobs[0].lost_ms
    assert safe.jobs[0].lost_ms <= 60_000 * safe.jobs[0].losses
    for result in (lost, safe):
        job = result.jobs[0]
        assert job.useful_gpu_ms == 4_000 * 20_000_000
        assert job.overhead_gpu_ms == 4_000 * job.lost_ms


def test_an_evicted_job_goes_on_where_it_stopped_and_pays_its_restart() -> None:
    policy = Policy(ordering="priority", preemption=True)
    jobs = trace((0, 4, 100), (40, 4, 50))
    urgent = jobs.arrivals[1]
    spec = type(urgent.spec)(
        **{name: getattr(urgent.spec, name) for name in urgent.spec.__struct_fields__} | {"priority": 5}
    )
    changed = type(jobs)(
        name="t",
        arrivals=(jobs.arrivals[0], type(urgent)(at_ms=urgent.at_ms, spec=spec, work=urgent.work)),
        groups=jobs.groups,
    )
    assert jcts_s(run(changed, policy=policy, restart_s=7)) == [100 + 50 + 7, 50]
    forgetful = run(changed, policy=policy, checkpoint_at_stop=False)
    assert jcts_s(forgetful) == [100 + 50 + 40, 50]
    assert forgetful.jobs[0].lost_ms == 40_000


def test_jobs_that_say_that_they_checkpoint_make_way_and_lose_nothing() -> None:
    policy = Policy(ordering="fifo", yield_after_gpu_s=400, yield_run_s=60)
    jobs = trace((0, 4, 1_000), (40, 4, 50))
    assert jcts_s(run(jobs, policy=policy)) == [1_000, 1_010]
    said = run(jobs, policy=policy, tells_checkpoints=True, checkpoint_at_stop=False, restart_s=7)
    assert jcts_s(said) == [1_000 + 50 + 7, 60 + 50], "after 100 s it had its share"
    assert said.jobs[0].lost_ms == 0


def test_a_job_moves_to_faster_gpus_when_its_run_has_lasted_long_enough_though_nothing_else_happens() -> None:
    said = trace((0, 4, 300), (1, 4, 5_000), attributes={"speed_v100": 1.0, "speed_h100": 3.0})
    for moves, jct_s in ((True, 5_000 + 7), (False, 5_000)):
        policy = Policy(ordering="fifo", model_affinity=moves)
        found = run(said, "1x4xV100,1x4xH100", policy=policy, restart_s=7, tells_checkpoints=True)
        assert jcts_s(found) == [300, jct_s]


def test_rounds_on_a_grid_start_nothing_between() -> None:
    result = run(trace((1, 1, 60), (61, 1, 10)), round_s=60)
    assert [job.first_started_ms for job in result.jobs] == [60_000, 120_000]


def test_neighbours_on_a_shared_gpu_slow_each_other_down_while_they_share() -> None:
    from msgspec.structs import replace

    jobs = trace((0, 1, 100), (0, 1, 50))
    halves = tuple(
        replace(
            one,
            spec=replace(
                one.spec, roles=tuple(replace(r, resources=replace(r.resources, gpu_milli=500)) for r in one.spec.roles)
            ),
        )
        for one in jobs.arrivals
    )
    result = run(replace(jobs, arrivals=halves), "1x1", colocation=Colocation(shared_gpu=0.5))
    assert jcts_s(result) == [150, 100]


def test_jobs_that_can_never_start_are_told() -> None:
    held = trace((0, 1, 10))
    from msgspec.structs import replace

    stuck = replace(held, arrivals=tuple(replace(one, spec=replace(one.spec, hold=True)) for one in held.arrivals))
    with pytest.raises(StuckError, match="1 job is not over"):
        run(stuck)


def test_a_run_whose_failures_undo_all_work_ends_and_says_so() -> None:
    """Machines fail every quarter of an hour, and a job of eight hours keeps nothing of what it did."""
    failing = Failures(node_mtbf_hours=0.25, repair_s=60)
    with pytest.raises(StuckError, match=r"lost all of its work to failures 1,000 times.*checkpoint_s"):
        run(trace((0, 4, 28_800)), failures=failing)
    assert run(trace((0, 4, 28_800)), failures=failing, checkpoint_s=60).jobs


def test_jobs_that_can_never_start_are_told_while_machines_fail() -> None:
    held = trace((0, 1, 10))
    stuck = replace(held, arrivals=tuple(replace(one, spec=replace(one.spec, hold=True)) for one in held.arrivals))
    with pytest.raises(StuckError, match="1 job did not start through 10,000 failures"):
        run(stuck, failures=Failures(node_mtbf_hours=0.25, repair_s=60))


def test_what_never_fits_is_refused_at_the_door() -> None:
    result = run(trace((0, 64, 10), (1, 1, 5)), "1x4")
    assert result.rejected == 1
    assert [job.number for job in result.jobs] == [1]


def test_counted_gpus_may_stand_anywhere() -> None:
    jobs = trace((0, 3, 100), (0, 3, 100), (1, 2, 10))
    assert jcts_s(run(jobs, "2x4"))[2] > 10
    assert jcts_s(run(jobs, "2x4", single_gpus=True))[2] == 10


def test_estimates_with_an_error_are_the_same_for_the_same_seed() -> None:
    jobs = trace(*((k, 1, 100 + k) for k in range(50)))
    policy = Policy(ordering="weighted", formula="-gpus * estimate_hours", preemption=False)
    runs = [run(jobs, policy=policy, seed=seed, estimates="philly") for seed in (1, 1, 2)]
    assert jcts_s(runs[0]) == jcts_s(runs[1])
    assert jcts_s(runs[0]) != jcts_s(runs[2])


def test_gpu_time_is_all_accounted_for() -> None:
    metrics = measure(run(trace((0, 2, 3_600), (0, 2, 3_600))))
    assert metrics.gpu_hours == pytest.approx(4)
    assert metrics.allocation == pytest.approx(1)
    assert metrics.utilisation == pytest.approx(1)
    assert metrics.makespan_s == 3_600


@pytest.mark.parametrize("preference", ["quality-first", "latency-first", "adaptive"])
def test_several_schedulers_are_simulated_and_their_archive_replays(preference: str, tmp_path: Path) -> None:
    jobs = trace(*((4.0 * k, 1 + k % 4, 30.0 + k) for k in range(40)))
    policy = replace(FIFO, schedulers=3, scheduler_partitions=3, scheduler_preference=preference)
    scenario = Scenario(trace=jobs, fleet=read_fleet("4x8xV100"), policies={"default": policy})
    result = simulate(scenario, archive=tmp_path / "a")
    assert all(job.jct_ms > 0 for job in result.jobs)
    report = replay(tmp_path / "a")
    assert report.equal, report.difference
    assert report.compared["scheduler"] > 10


def test_jobs_of_a_trace_may_be_made_elastic() -> None:
    """Alone on four GPUs a job of two takes twice its size and half its time; two of them share."""
    usual = Policy(ordering="fifo", preemption=False)
    alone = run(trace((0, 2, 100)), policy=usual, elastic=Elastic(most=2.0))
    assert jcts_s(alone) == [pytest.approx(50, abs=1)]
    slowed = run(trace((0, 2, 100)), policy=usual, elastic=Elastic(most=2.0, serial=0.5))
    assert jcts_s(alone)[0] < jcts_s(slowed)[0] < 100


def test_a_job_larger_than_every_node_is_split_over_nodes() -> None:
    """Traces say how many GPUs a job has, not on how many nodes: 8 and 12 GPUs fit nodes of 4."""
    result = run(trace((0, 8, 10), (0, 12, 10)), "3x4xV100")
    assert (result.rejected, [job.state for job in result.jobs]) == (0, ["succeeded", "succeeded"])


def test_two_jobs_of_one_name_at_a_time_are_two_jobs() -> None:
    jobs = trace((0, 1, 10), (0, 1, 10))
    twice = replace(jobs, arrivals=(jobs.arrivals[0], replace(jobs.arrivals[1], spec=jobs.arrivals[0].spec)))
    assert [job.state for job in run(twice).jobs] == ["succeeded", "succeeded"]


@pytest.mark.parametrize(
    ("cluster", "gpus", "tasks"),
    [
        *[("1x8xV100,2x4xP100", 16, 4), ("1x8xV100,2x4xP100", 12, 3), ("2x8xV100", 16, 2), ("4x4xP100", 16, 4)],
        *[("1x8xV100,1x1xP100", 9, 9), ("1x6xV100,1x2xP100", 8, 4)],
    ],
)
def test_a_job_is_split_as_machines_of_several_sizes_have_room(cluster: str, gpus: int, tasks: int) -> None:
    """Traces say how many GPUs, not how they stood: such jobs were refused where the largest machine was not alone."""
    (record,) = run(trace((0, gpus, 10)), cluster).jobs
    assert record.state == "succeeded"
    scenario = Scenario(trace=trace((0, gpus, 10)), fleet=read_fleet(cluster))
    (fitting,) = fitted(scenario.trace, scenario.fleet.nodes).arrivals[0].spec.roles
    assert (fitting.count, fitting.count * fitting.resources.whole_gpus) == (tasks, gpus)


def test_who_is_refused_is_told_with_the_reason() -> None:
    result = run(trace((0, 1, 10), (0, 9, 10)), "2x4xV100")
    assert [(one.number, one.name, one.code) for one in result.refused] == [(1, "j1", "NeverFitsCluster")]
    assert "Refused: 1 for NeverFitsCluster; the first, j1 (all): " in "\n".join(metrics_lines(measure(result)))


@pytest.mark.parametrize("text", ["3x8xV100", "2x8xV100,4x4xP100", "5x1xK80,3x2xP100,2x8xV100"])
def test_all_machines_of_several_kinds_are_there(text: str, tmp_path: Path) -> None:
    """Two nodes of one name were one machine: of 2x8xV100,4x4xP100 one V100 machine was not in the run."""
    page = tmp_path / "nodes.yaml"
    kinds = [part.split("x") for part in text.split(",")]
    page.write_text("nodes:\n" + "".join(f"- {{count: {n}, gpus: {g}, model: {m}}}\n" for n, g, m in kinds))
    for described in (text, str(page)):
        fleet = read_fleet(described)
        assert [node.id for node in fleet.nodes] == [f"node-{k:05d}" for k in range(len(fleet.nodes))]
        result = run(trace((0, 1, 10)), described)
        assert {point.there_milli for point in result.points["default"]} == {1000 * fleet.gpus}
        assert result.gpus == {model: int(count) * int(gpus) for count, gpus, model in kinds}


def test_further_machines_of_several_kinds_stand_side_by_side() -> None:
    fleet = added(added(read_fleet("1x4xV100"), "+8xH100"), "+4xT4")
    assert [node.id for node in fleet.nodes] == ["node-00000", "added-00000", "added-00001"]
    assert fleet.gpus == 16


def test_prices_of_a_page_are_the_platforms_price_list() -> None:
    policy = Policy(ordering="gavel", lease_s=100, starvation_s=0)
    jobs = trace((0, 1, 60))
    groups = (Group(path="all", budget_gpu_hours=1),)
    for prices, charged in (({"V100": 3, "K80": 0.5}, 3 / 60), ({"v100": 0.5, "K80": 3}, 3 / 60), ({"*": 2}, 2 / 60)):
        scenario = Scenario(
            trace=jobs,
            fleet=read_fleet("1x1xK80,1x1xV100"),
            policies={"default": policy},
            conditions=Conditions(prices=prices),
            groups=groups,
        )
        assert simulate(scenario).spent["all"] == pytest.approx(charged), "it stands on the dearer model"
