"""The metric table and what is made of it."""

import re

import pytest

from gangline_kit.metrics import METRICS, Metrics


def test_every_metric_is_named_as_the_field_names_them() -> None:
    for name, metric in METRICS.items():
        if name.startswith("DCGM_"):
            assert re.fullmatch(r"DCGM_FI_[A-Z0-9_]+", name), "as the exporter of the cards' vendor names them"
            continue
        assert re.fullmatch(r"gangline_[a-z][a-z0-9_]*", name)
        assert metric.kind in {"counter", "gauge", "histogram"}
        assert name.endswith("_total") == (metric.kind == "counter"), name
        if metric.kind == "histogram":
            assert name.endswith(("_seconds", "_bytes")), "a histogram's name ends with its unit"
        assert metric.help.endswith(".")


def test_every_metric_can_be_written_and_scraped() -> None:
    metrics = Metrics()
    for name, metric in METRICS.items():
        labels = dict.fromkeys(metric.labels, "x")
        write = {"counter": metrics.count, "gauge": metrics.set, "histogram": metrics.observe}[metric.kind]
        write(name, 1.0, **labels)
    text = metrics.render().decode()
    for name in METRICS:
        assert name in text


def test_counters_stand_at_zero_before_their_first_event_so_that_alerts_see_it_as_an_increase() -> None:
    lines = Metrics().render().decode().splitlines()
    plain = [name for name, metric in METRICS.items() if metric.kind == "counter" and not metric.labels]
    assert "gangline_log_alarms_total" in plain
    assert [name for name in plain if f"{name} 0.0" not in lines] == []


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().count("gangline_surprise_total")


def test_gauges_that_are_read_off_the_state_are_fresh_at_each_scrape_and_vanished_values_go() -> None:
    metrics = Metrics()
    jobs = {"waiting": 3, "running": 2}

    def refresh() -> None:
        metrics.clear("gangline_jobs")
        for state, number in jobs.items():
            metrics.set("gangline_jobs", number, pool="default", state=state)

    metrics.before_render(refresh)
    assert 'gangline_jobs{pool="default",state="waiting"} 3.0' in metrics.render().decode()
    del jobs["waiting"]
    assert 'state="waiting"' not in metrics.render().decode()


def test_a_total_counted_elsewhere_is_followed_and_never_falls() -> None:
    metrics = Metrics()
    metrics.raise_to("gangline_bus_dropped_messages_total", 5)
    metrics.raise_to("gangline_bus_dropped_messages_total", 5)
    metrics.raise_to("gangline_bus_dropped_messages_total", 3)
    assert "gangline_bus_dropped_messages_total 5.0" in metrics.render().decode()


def test_services_in_one_process_keep_their_registries_apart() -> None:
    first, second = Metrics(), Metrics()
    first.count("gangline_samples_total")
    assert "gangline_samples_total 1.0" in first.render().decode().splitlines()
    assert "gangline_samples_total 0.0" in second.render().decode().splitlines()
