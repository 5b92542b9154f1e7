"""Batch sizes that change on the way: known epochs, critical regimes, and the work that is left afterwards."""

import pytest

from gangline_lab.sim.batches import batch_at, foreseen_s, stages


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
