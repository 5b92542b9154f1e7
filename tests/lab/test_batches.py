"""Batch sizes that change on the way: known epochs, critical regimes, and the work that is left afterwards."""

from pathlib import Path

import pytest

from gangline_core.facts import JobAdmitted, JobEdited
from gangline_lab.archive import read
from gangline_lab.replay import replay
from gangline_lab.sim.batches import batch_at, foreseen_s, stages
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.throughput import Throughputs
from gangline_lab.sim.workload import UNKNOWN_MS, Arrival, Work, gpu_job, workload


def test_gns_doubles_the_batch_at_its_epochs() -> None:
    assert [batch_at("gns", "ResNet-18", 16, 1, epoch) for epoch in (0, 30, 31, 41, 51, 71, 500)] == [
        16, 16, 32, 64, 128, 256, 256,
    ]  # fmt: skip


def test_accordion_returns_to_the_first_batch_in_critical_epochs() -> None:
    assert [batch_at("accordion", "ResNet-50", 32, 1, epoch) for epoch in (0, 9, 10, 29, 30, 40)] == [
        32, 32, 128, 128, 32, 128,
    ]  # fmt: skip
    assert batch_at("accordion", "Transformer", 32, 1, 99) == 32


def speed(batch: int) -> float:
    """Steps per second: twice the batch takes a half longer."""
    return {16: 90.0, 32: 60.0, 64: 40.0, 128: 27.0, 256: 18.0}[batch]


def test_a_job_that_does_not_change_trains_its_steps() -> None:
    assert sum(s.seconds for s in stages("", "ResNet-18", 16, gpus=1, steps=900, speed=speed)) == pytest.approx(10)


def test_larger_batches_end_the_training_earlier_and_in_order() -> None:
    epoch = 3_125
    found = stages("gns", "ResNet-18", 16, gpus=1, steps=100 * epoch, speed=speed)
    assert [stage.batch_size for stage in found] == [16, 32, 64, 128, 256]
    alone_s = 100 * epoch / speed(16)
    assert 0.5 * alone_s < sum(stage.seconds for stage in found) < 0.85 * alone_s


def test_what_comes_about_is_near_what_is_foreseen() -> None:
    found = stages("gns", "ResNet-18", 32, gpus=1, steps=200 * 1_563, speed=speed)
    foreseen = foreseen_s("gns", "ResNet-18", 32, gpus=1, steps=200 * 1_563, speed=speed)
    assert sum(stage.seconds for stage in found) == pytest.approx(foreseen, rel=0.1)


def test_a_job_says_anew_how_long_it_takes_when_its_batch_grows(tmp_path: Path) -> None:
    """At first what the first batch size would take, then the start as well, then less with every larger batch."""
    row = "ResNet-18 (batch size {})"
    table = Throughputs(alone={"v100": {(row.format(b), 1): speed(b) for b in (16, 32, 64, 128, 256)}}, pairs={})
    grows = Work(run_ms=UNKNOWN_MS, row=row.format(16), steps=100 * 3_125, batch_size=16, mode="gns")
    plain = Work(run_ms=UNKNOWN_MS, row=row.format(16), steps=90, batch_size=16)
    arrivals = [Arrival(at_ms=0, spec=gpu_job("grows", gpus=1, run_s=1), work=grows)]
    arrivals += [Arrival(at_ms=300_000 * k, spec=gpu_job(f"j{k}", gpus=1, run_s=1), work=plain) for k in range(1, 10)]
    scenario = Scenario(
        trace=workload("test", arrivals),
        fleet=read_fleet("1x2xV100"),
        conditions=Conditions(start_s=300, estimates="present"),
        courses=table,
    )
    simulate(scenario, archive=tmp_path / "a")
    facts = [fact for entry in read(tmp_path / "a") for fact in entry.message.facts]
    first = next(fact.spec.estimate_s for fact in facts if isinstance(fact, JobAdmitted))
    assert first == 3_473
    told = [fact.edit.estimate_s for fact in facts if isinstance(fact, JobEdited) and fact.job == 1]
    assert told[0] == first + 300
    assert len(told) > 2
    assert told[1:] == sorted(told[1:], reverse=True)
    assert told[-1] < 0.8 * first
    assert replay(tmp_path / "a").equal
