"""A benchmark's rows are judged by the range files, and nothing is dropped."""

import json
from pathlib import Path

import pytest

from bench.__main__ import BENCHMARKS
from bench.elastic import WORKLOADS, unpack
from bench.load import percentile, post
from bench.rows import RANGES, Bar, Baseline, Measured, as_json, as_table, bars, judge, never_measured

SPEED = Measured(name="speed", value=50.0, unit="1/s", baseline=Baseline(name="floor", value=100.0))
WAIT = Measured(name="wait", value=20.0, unit="ms", better="lower")


@pytest.mark.parametrize(
    ("measured", "bar", "holds"),
    [
        (SPEED, Bar(at=50.0), True),
        (SPEED, Bar(at=51.0), False),
        (SPEED, Bar(at=0.5, of="ratio"), True),
        (SPEED, Bar(at=0.6, of="ratio"), False),
        (WAIT, Bar(at=20.0), True),
        (WAIT, Bar(at=19.0), False),
        (WAIT, Bar(at=1.0, of="ratio"), False),
        (WAIT, None, None),
    ],
)
def test_a_row_holds_when_it_reaches_its_bar(measured: Measured, bar: Bar | None, holds: bool | None) -> None:
    assert judge(measured, bar).holds is holds


def test_a_bar_that_no_row_answered_is_told() -> None:
    assert never_measured([judge(SPEED, None)], {"speed": Bar(at=1.0), "gone": Bar(at=1.0)}) == ["gone"]


def test_rows_are_written_with_the_agreed_keys() -> None:
    (row,) = json.loads(as_json([judge(SPEED, Bar(at=0.4, of="ratio"))]))
    assert row == {
        "name": "speed",
        "value": 50.0,
        "unit": "1/s",
        "better": "higher",
        "baseline": {"name": "floor", "value": 100.0},
        "ratio": 0.5,
        "bar": 0.4,
        "holds": True,
    }


def test_a_row_that_does_not_hold_stands_in_the_table() -> None:
    assert "NO" in as_table([judge(WAIT, Bar(at=1.0))])


def test_every_range_file_belongs_to_a_benchmark_and_decodes() -> None:
    for path in RANGES.glob("*.json"):
        assert path.stem.removesuffix(".full") in BENCHMARKS
        assert bars(path.stem)


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([3.0, 1.0, 2.0], 99) == 3.0


def test_a_prepared_request_is_plain_http() -> None:
    assert post("http://127.0.0.1:80", "/x", body=b"{}", token="t").splitlines() == [
        b"POST /x HTTP/1.1",
        b"Host: 127.0.0.1:80",
        b"Content-Type: application/json",
        b"Content-Length: 2",
        b"Authorization: Bearer t",
        b"",
        b"{}",
    ]


def test_the_pollux_workloads_are_unpacked_on_every_python_that_is_supported(tmp_path: Path) -> None:
    unpack(tmp_path)
    assert {path.name for path in (tmp_path / "workloads").iterdir()} == {f"workload-{n}.csv" for n in WORKLOADS}
    assert all((model / "scalability.csv").stat().st_size for model in (tmp_path / "profiles").iterdir())
