"""Bad input ends in one line that says what to do, and nothing is left behind that is only half of something."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.lab.busy_cluster import BusyCluster

from gangline_core.foresight.learnt import ModelError
from gangline_lab.cli import main
from gangline_lab.learning.modelfile import read_model
from gangline_lab.outside import missing, written_whole
from gangline_lab.policyfile import PolicyFileError, read_policy
from gangline_lab.readers import read_trace
from gangline_lab.rows import TraceError, read_lines
from gangline_lab.sim.engine import simulate
from gangline_lab.sim.fleet import FleetError, read_fleet

SWF = "1 0 -1 20 8 -1 -1 8 40 -1 1 1 1 -1 1 -1 -1 -1\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a busy cluster."""
    return BusyCluster(seed=3).live(20).write(tmp_path_factory.mktemp("archive"), segment_messages=40)


def simulating(tmp_path: Path) -> list[str]:
    (tmp_path / "a.swf").write_text(SWF)
    return ["simulate", "--trace", str(tmp_path / "a.swf"), "--cluster", "1x8xV100", "--out", str(tmp_path / "out")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("policy: {", "line 1, column 10"),
        ("name: a\nname: b\n", "line 2: name stands twice"),
        ("policy: {ordering: fifo, ordering: priority}\n", "line 1: ordering stands twice"),
        ("a: " + "[" * 3000, "nested too deeply"),
        ("!!python/object/apply:os.system [true]", "line 1, column 1"),
        ("groups: [{path: a/../b}]", "groups[0].path: 'a/../b' is no group path"),
        ("groups: [{path: a, guaranteed: {gpu_milli: -4}}]", "groups[0].guaranteed"),
        ("groups: [{path: a, guaranteed: {gpu_milli: 9}, limit: {gpu_milli: 8}}]", "groups[0].guaranteed"),
        ("groups: [{path: a}, {path: a}]", "groups[1].path: a stands twice"),
    ],
)
def test_a_page_that_makes_no_sense_is_refused_in_one_line_that_says_where(
    tmp_path: Path, text: str, told: str
) -> None:
    page = tmp_path / "page.yaml"
    page.write_text(text)
    with pytest.raises(PolicyFileError) as refused:
        read_policy(page)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_aliases_of_a_page_name_nothing_twice(tmp_path: Path) -> None:
    page = tmp_path / "page.yaml"
    page.write_text("pools: {a: &usual {ordering: fifo}, b: *usual}\n")
    assert sorted(read_policy(page).policies) == ["a", "b"]


def test_errors_of_files_are_told_without_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b"\xff\xfe")
    reads = (
        lambda: read_policy(tmp_path / "none.yaml"),
        lambda: read_policy(Path()),
        lambda: read_policy(tmp_path / "raw"),
        lambda: read_fleet(str(tmp_path / "raw")),
        lambda: list(read_lines(tmp_path / "none.csv")),
        lambda: read_model(tmp_path / "none.json"),
        lambda: read_model(Path()),
    )
    for read in reads:
        with pytest.raises((PolicyFileError, FleetError, TraceError, ModelError)) as refused:
            read()
        assert "Errno" not in str(refused.value)
        assert "codec" not in str(refused.value)
        assert not str(refused.value).startswith(":")
        assert "line 1" not in str(refused.value)


def test_a_negative_number_is_told_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-11-20 18:23:51,-5,1,1,x\n")
    with pytest.raises(TraceError, match="line 2, column duration: expected a whole number that is not negative"):
        read_trace(f"philly:{tmp_path / 'a.csv'}")
    with pytest.raises(TraceError, match="say FORMAT:PATH"):
        read_trace("")


def test_a_file_of_machines_that_is_not_there_is_said_not_to_be_there() -> None:
    with pytest.raises(FleetError, match=r"there is no file 'machines\.yaml'"):
        read_fleet("machines.yaml")


def test_digits_of_other_scripts_name_no_machines() -> None:
    with pytest.raises(FleetError, match="neither machines such as"):
        read_fleet("٢x8xV100")


@pytest.mark.parametrize(
    ("head", "told"),
    [("", "--head: is empty"), ("zzz", "32 hexadecimal digits"), ("0" * 31, "32 hexadecimal digits")],
)
def test_a_head_that_no_chain_has_is_no_proof(
    written: Path, head: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["verify", str(written), "--head", head])
    assert left.value.code == 2
    assert told in capsys.readouterr().err


def test_a_file_where_a_folder_is_wanted_is_told_so(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replay", str(next(written.iterdir()))])
    assert "is a file; an archive is the folder" in capsys.readouterr().err


def test_where_nothing_can_be_written_nothing_is_worked_out(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path, tmp_path / "file" / "page.html"):
        assert main(["report", str(written), "-o", str(out)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"gangline lab: {out}: ")
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    page = tmp_path / "page.html"

    def stopped() -> None:
        with written_whole(page) as part:
            part.write_text("half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert os.listdir(tmp_path) == []
    with written_whole(page) as part:
        part.write_text("all")
    assert page.read_text() == "all"
    assert os.listdir(tmp_path) == ["page.html"]


def test_an_interrupted_run_leaves_no_half_log_in_the_way_of_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*simulating(tmp_path), "--archive"]

    def interrupted(*args: Any, **kwargs: Any) -> None:
        simulate(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("gangline_lab.commands.simulations.simulate", interrupted)
        assert main(asked) == 130
    assert not list((tmp_path / "out").rglob("archive-*"))
    assert not list((tmp_path / "out").rglob("result.json.gz"))
    assert main(asked) == 0
    # An archive that was whole before is nobody's to take away.
    assert main(asked) == 2
    assert list((tmp_path / "out").rglob("archive-*"))
    capsys.readouterr()


@pytest.mark.parametrize("number", ["1_000", "٣", "1e3", "nan"])
def test_what_python_takes_for_a_number_and_nobody_else_does_is_refused(
    number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*simulating(tmp_path), "--seed", number])
    assert left.value.code == 2
    assert "expected a whole number" in capsys.readouterr().err


def test_what_is_missing_is_told_with_the_command_that_puts_it_where_it_is_looked_for() -> None:
    """`pip` alone may be that of another Python, which would fetch what anybody called so."""
    assert missing("pyarrow", "Parquet") == f"Parquet needs pyarrow: {sys.executable} -m pip install pyarrow"
