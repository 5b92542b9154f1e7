"""What an alert or a board counts is there before it first happens, or Prometheus sees no increase in it."""

from types import SimpleNamespace

import pytest

import gangline_elastic.app
import gangline_elastic.config
import gangline_telemetry.app
import gangline_telemetry.config
from gangline_core.reason_words import SIGNS
from gangline_kit.metrics import Metrics


@pytest.fixture
def site() -> SimpleNamespace:
    return SimpleNamespace(metrics=Metrics(), clock=SimpleNamespace(monotonic_s=lambda: 0.0))


def lines(site: SimpleNamespace, name: str) -> list[str]:
    text = site.metrics.registry
    return sorted(
        f"{name}{sorted(sample.labels.values())} {sample.value:g}"
        for family in text.collect()
        for sample in family.samples
        if sample.name == name
    )


def test_changes_of_size_that_fail_count_from_zero_in_each_pool(site: SimpleNamespace) -> None:
    for pool in ("a", "b"):
        gangline_elastic.app.Sizer(site, gangline_elastic.config.Config(), pool)
    for name in ("gangline_resizes_total", "gangline_resizes_failed_total"):
        assert lines(site, name) == [f"{name}['a'] 0", f"{name}['b'] 0"]


def test_hangs_count_from_zero_by_each_sign(site: SimpleNamespace) -> None:
    gangline_telemetry.app.Listener(site, gangline_telemetry.config.Config())
    signs = sorted([*SIGNS, "progress"])
    assert lines(site, "gangline_hangs_total") == [f"gangline_hangs_total['{sign}'] 0" for sign in signs]
