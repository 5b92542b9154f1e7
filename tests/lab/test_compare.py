"""Runs are measured by definitions that a reader can check by hand, and compared as table, JSON, CSV and one page."""

import json
import sys
from csv import DictReader
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.lab.simulated import FIFO, run, trace

from gangline_core.cluster import Policy
from gangline_core.groups import Group
from gangline_lab.cli import main
from gangline_lab.compare import Cell, by_label, compare, interval
from gangline_lab.compare_page import page
from gangline_lab.metrics import measure
from gangline_lab.runs import RunError, load, relabelled, save
from gangline_lab.sim.usage import equal_share_fairness, jain, max_min

SHORT_FIRST = Policy(ordering="weighted", formula="-estimate_hours", preemption=False)


def test_numbers_of_three_jobs_in_a_row_are_those_on_paper() -> None:
    metrics = measure(run(trace((0, 4, 100), (10, 4, 50), (20, 4, 30))))
    assert metrics.jct_s.mean == pytest.approx((100 + 140 + 160) / 3)
    assert metrics.wait_s.mean == pytest.approx((0 + 90 + 130) / 3)
    assert metrics.wait_s.median == 90
    assert metrics.slowdown.p99 == pytest.approx(160 / 30)
    assert metrics.makespan_s == 180
    assert (metrics.jobs, metrics.ended, metrics.rejected) == (3, 3, 0)


def test_rho_compares_with_an_equal_part_of_the_cluster() -> None:
    # Both are in the system for all of the first one's life, so its part is two GPUs and it asks for four.
    metrics = measure(run(trace((0, 4, 100), (0, 4, 100))))
    first, second = 100 / 200, 200 / (100 * 1.5)
    assert metrics.worst_rho == pytest.approx(second)
    assert metrics.rho.mean == pytest.approx((first + second) / 2)
    assert metrics.unfair == 0.5


def test_an_even_division_gives_nobody_more_than_asked() -> None:
    assert max_min({"a": 2, "b": 10, "c": 10}, 12) == {"a": 2, "b": 5, "c": 5}
    assert equal_share_fairness({"a": 2, "b": 5, "c": 5}, {"b": 5, "c": 5}, 12) == pytest.approx(1)
    assert equal_share_fairness({"b": 10}, {"c": 10}, 10) == pytest.approx(0.5)
    assert jain([1, 1, 1, 0]) == pytest.approx(0.75)


def test_seeds_give_an_interval_and_one_run_gives_none() -> None:
    cell = interval([1.0, 2.0, 3.0])
    assert (cell.mean, cell.runs) == (2.0, 3)
    assert cell.half == pytest.approx(4.30265273 / 3**0.5)
    assert interval([5.0]).half == 0


def test_seeds_that_change_nothing_give_no_interval() -> None:
    assert interval([0.1] * 3) == Cell(mean=0.1, half=0.0, runs=3)
    assert interval([2037.93, 2037.93, 2037.93]).half == 0.0


def test_the_better_policy_is_marked() -> None:
    jobs = trace((0, 4, 10), (1, 4, 100), (2, 4, 10))
    runs = [relabelled(run(jobs, policy=FIFO), "fifo"), relabelled(run(jobs, policy=SHORT_FIRST), "short")]
    cells = compare(runs).cells["mean JCT"]
    assert cells["short"].best
    assert not cells["fifo"].best
    text = page(runs, title="Two <runs>")
    assert "Two &lt;runs&gt;" in text
    assert "src=" not in text
    assert "fifo" in text


def test_a_saved_run_is_the_same_when_loaded(tmp_path: Path) -> None:
    result = run(trace((0, 4, 100), (10, 4, 50)))
    save(result, tmp_path)
    assert load(tmp_path) == result
    rows = (tmp_path / "jobs.csv").read_text().splitlines()
    assert len(rows) == 3
    assert rows[0].endswith("jct_ms,slowdown,rho")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(1)", '=HYPERLINK("x","y")', "\t=1"])
def test_a_job_that_is_named_like_a_formula_is_none_where_its_table_is_opened(tmp_path: Path, name: str) -> None:
    result = run(trace((0, 4, 100), (10, 4, 50)))
    save(replace(result, jobs=tuple(replace(job, name=name) for job in result.jobs)), tmp_path)
    with (tmp_path / "jobs.csv").open(newline="") as file:
        assert [row["name"] for row in DictReader(file)] == [f"'{name}"] * 2


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no result of a run"):
        load(tmp_path)


def test_parquet_holds_the_jobs_the_use_over_time_and_every_number(tmp_path: Path) -> None:
    from pyarrow import parquet

    result = run(trace((0, 1, 5), (2, 4, 10), groups=("all", "few")))
    metrics = save(result, tmp_path, parquet=True)
    tables = {name: parquet.read_table(tmp_path / f"{name}.parquet") for name in ("jobs", "points", "metrics")}
    assert tables["jobs"].num_rows == 2
    points = tables["points"].to_pydict()
    assert points["pool"] == ["default"] * len(result.points["default"])
    assert 1.0 in points["allocation"]
    assert 1.0 in points["utilisation"]
    assert max(points["waiting"]) == 1
    values = dict(zip(*tables["metrics"].to_pydict().values(), strict=True))
    assert values["wait_s.p99"] == metrics.wait_s.p99
    assert values["groups.few.jct_s.mean"] == 13
    assert (tmp_path / "points.csv").read_text().startswith("pool,at_ms,held_milli,there_milli")


def test_without_its_library_parquet_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"] + ["pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RunError, match="needs pyarrow"):
        save(run(trace((0, 1, 5))), tmp_path, parquet=True)


def test_simulate_and_compare_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = tmp_path / "t.csv"
    jobs.write_text("job_id,num_gpu,submit_time,iterations,model_name,duration\n0,4,0,1,vgg,60\n1,4,1,1,vgg,30\n")
    policy = tmp_path / "first.yaml"
    policy.write_text("policy: {ordering: fifo, preemption: false}\n")
    command = ["simulate", "--trace", f"tiresias:{jobs}", "--cluster", "1x4", "--policy", str(policy)]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["jct_s"]["mean"] == pytest.approx((60 + 89) / 2)
    out = tmp_path / "out"
    assert main([*command, "--seeds", "2", "--out", str(out), "--archive"]) == 0
    assert main(["replay", str(out / "first-0" / "archive")]) == 0
    assert main(["compare", str(out), "-o", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert "Report:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("page_text", "complaint"),
    [
        ("policy: {orderin: fifo}", "unknown field 'orderin'; did you mean ordering?"),
        ("policy: {ordering: best}", "ordering: 'best' is none of"),
        ("simulation: {rounds: 1}", "simulation"),
        ("policy: [1]", "Expected `object`"),
    ],
)
def test_a_wrong_policy_page_is_refused_with_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], page_text: str, complaint: str
) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(page_text)
    assert main(["simulate", "--trace", "swf:none.swf", "--cluster", "1x4", "--policy", str(policy)]) == 2
    (tmp_path / "t.swf").write_text("1 5 10 100 4 -1 -1 4 200 -1 1 3 7 -1 1 1 -1 -1\n")
    trace_of = ["simulate", "--trace", str(tmp_path / "t.swf"), "--cluster", "1x4", "--policy", str(policy)]
    assert main(trace_of) == 2
    assert complaint in capsys.readouterr().err


def test_a_cluster_without_a_name_is_wrong_use_as_for_every_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["simulate", "--trace", "t.swf", "--cluster", ""])
    assert left.value.code == 2
    assert "--cluster: is empty" in capsys.readouterr().err


@pytest.mark.parametrize("cluster", ["8xV100x", "0x8", "none.yaml"])
def test_a_wrong_cluster_is_refused(tmp_path: Path, cluster: str) -> None:
    (tmp_path / "t.swf").write_text("1 5 10 100 4 -1 -1 4 200 -1 1 3 7 -1 1 1 -1 -1\n")
    assert main(["simulate", "--trace", str(tmp_path / "t.swf"), "--cluster", cluster]) == 2


def test_a_cluster_file_names_racks_and_quotas(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "nodes: [{count: 4, gpus: 2, model: H100, per_rack: 2}]\ngroups: [{path: a, limit: {gpu_milli: 2000}}]\n"
    )
    from gangline_lab.sim.fleet import read_fleet

    fleet = read_fleet(str(tmp_path / "c.yaml"))
    assert fleet.kinds == {"H100": 8}
    assert len({node.labels["topology.gangline.dev/rack"] for node in fleet.nodes}) == 2
    assert fleet.groups[0].limit == {"gpu_milli": 2000}


def test_runs_of_one_label_on_other_traces_machines_or_costs_stand_apart() -> None:
    jobs = trace((0, 1, 10), (0, 1, 10))
    same = [relabelled(run(jobs, seed=seed), "x") for seed in (0, 1)]
    other = relabelled(run(jobs, "2x4xH100"), "x")
    slow = relabelled(run(jobs, start_s=10.0), "x")
    grouped = by_label([*same, other, slow])
    assert [len(own) for own in grouped.values()] == [2, 1, 1]
    assert list(grouped) == ["x, test on 4xV100", "x, test on 8xH100", "x, test on 4xV100 (2)"]
    assert list(by_label(same)) == ["x"]


def test_the_page_tells_budgets_refusals_and_of_which_seed_its_plots_are() -> None:
    jobs = trace((0, 1, 3600), (0, 99, 10), groups=("a", "a"))
    jobs = replace(jobs, groups=(Group(path="a", budget_gpu_hours=2),))
    text = page([relabelled(run(jobs, seed=seed), "x") for seed in (0, 1)], title="T")
    assert "x: Budget of a: 1.00 of 2 GPU-hours." in text
    assert "x: Refused: 1 for NeverFits" in text
    assert "are of the first seed of each" in text
    assert "<td>p90 slowdown</td>" in text


def test_intervals_of_twelve_and_more_seeds_are_as_wide_as_students_t_says() -> None:
    from scipy.stats import t  # type: ignore[import-untyped]  # SciPy ships no types

    for count in (12, 20, 31):
        values = [float(k) for k in range(count)]
        spread = (sum((k - sum(values) / count) ** 2 for k in values) / (count - 1)) ** 0.5
        assert interval(values).half == pytest.approx(t.ppf(0.975, count - 1) * spread / count**0.5, rel=1e-3)


def test_who_failed_or_was_refused_before_its_deadline_missed_it() -> None:
    jobs = trace((0, 1, 10), (0, 1, 10), (0, 99, 10))
    arrivals = tuple(replace(one, work=replace(one.work, deadline_ms=60_000)) for one in jobs.arrivals)
    failed = replace(arrivals[1], work=replace(arrivals[1].work, exit_code=1))
    metrics = measure(run(replace(jobs, arrivals=(arrivals[0], failed, arrivals[2]))))
    assert (metrics.deadline_misses, metrics.deadlines) == (2, 3)
