"""A benchmark's rows are judged by the range files, and nothing is dropped."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench import beside_page, kept, papers, papers_beside
from bench.__main__ import BENCHMARKS, KEPT, main, parts_of
from bench.elastic import WORKLOADS, unpack
from bench.load import percentile, post
from bench.rows import RANGES, Bar, Baseline, Measured, as_json, as_table, bars, judge, never_measured
from gangline_core.cluster import Policy

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


def _measured_in(folder: Path, names: tuple[str, ...], *, dies_in: str = "") -> tuple[list[str], list[str], list[str]]:
    """Names of the rows, parts that were measured, and what was told."""
    began, told, rows = list[str](), list[str](), list[str]()

    async def measure(name: str) -> AsyncIterator[Measured]:
        began.append(name)
        yield Measured(name=f"{name}.first", value=float(len(began)), unit="s", better="lower", baseline=SPEED.baseline)
        if name == dies_in:
            raise KeyboardInterrupt
        yield Measured(name=f"{name}.last", value=0.1, unit="s")

    async def all_of_them() -> None:
        rows.extend([row.name async for row in kept.measured(names, measure, folder, told.append)])

    try:
        asyncio.run(all_of_them())
    except KeyboardInterrupt:
        told.append("stopped")
    return rows, began, told


def test_a_long_run_goes_on_with_the_part_in_which_it_was_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    names = ("one", "two.with.dots", "three")
    assert _measured_in(folder, names, dies_in="two.with.dots")[1:] == (
        ["one", "two.with.dots"],
        ["[1/3] one", "[1/3] one took 0 s of processor time", "[2/3] two.with.dots", "stopped"],
    )
    rows, began, told = _measured_in(folder, names)
    assert rows == [f"{name}.{row}" for name in names for row in ("first", "last")]
    assert began == ["two.with.dots", "three"]
    assert told[0] == "[1/3] one was measured before, in 0 s of processor time"
    assert _measured_in(folder, names)[:2] == (rows, [])


def test_what_other_code_measured_or_what_was_cut_off_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _measured_in(tmp_path, ("one", "two"))
    (tmp_path / "two.json").write_bytes((tmp_path / "two.json").read_bytes()[:-9])
    assert _measured_in(tmp_path, ("one", "two"))[1] == ["two"]
    monkeypatch.setattr(kept, "code", lambda: "other")
    assert _measured_in(tmp_path, ("one", "two"))[1] == ["one", "two"]


@pytest.mark.parametrize("arguments", [["pipeline", "--full"], ["queue", "--only", "rounds"], ["papers"]])
def test_only_what_is_the_same_whenever_it_is_measured_is_kept(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", *arguments, "--keep", "there"])
    with pytest.raises(SystemExit):
        main()
    assert "--keep is for --full or --only of papers" in capsys.readouterr().err


def test_the_papers_have_parts_for_every_table() -> None:
    begins = {name.partition(".")[0] for name in parts_of("papers")}
    lab = {"pollux", "optimus", "sizes", "weeks", "shockwave", "gavel", "muri", "spot", "pairs", "guests", "loads"} | {
        "known"
    }
    assert begins == {*lab, "beside", "philly"}
    assert "philly.80x8.fifo-easy-backfill" in papers.PARTS
    assert KEPT == ("papers",)


def test_the_page_beside_the_best_published_is_drawn_from_what_was_measured_and_explains_what_is_worse() -> None:
    found = papers_beside.kept()
    assert beside_page.PAGE.read_text(encoding="utf-8") == beside_page.draw(found)
    assert not beside_page.unexplained(found)
    assert all(metric in papers_beside.BENCHMARKS[name].best for name, _, metric in found)


def test_what_is_measured_again_takes_the_place_of_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "kept.csv"
    papers_beside.keep({("B2", "a", "makespan"): 1.5, ("B2", "b", "makespan"): 2.0}, path)
    papers_beside.keep({("B2", "a", "makespan"): 3.0}, path)
    assert papers_beside.kept(path) == {("B2", "a", "makespan"): 3.0, ("B2", "b", "makespan"): 2.0}


def test_the_default_beside_others_lives_in_their_world_and_says_that_it_checkpoints() -> None:
    for name, one in papers_beside.BENCHMARKS.items():
        rules = papers_beside.rules_of(one, papers_beside.DEFAULT)
        assert rules.conditions.tells_checkpoints, name
        assert list(rules.policies.values()) == [Policy()], "nothing of it is set"
