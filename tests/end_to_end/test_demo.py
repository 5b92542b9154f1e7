"""The demo itself, small: everything it promises at its end holds, also when services and the bus are killed."""

from pathlib import Path

import pytest

from gangline_embedded import demo
from gangline_lab.archive import segments
from gangline_lab.replay import replay

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(900)]

SMALL = ["--jobs", "40", "--nodes", "60"]


def run(capsys: pytest.CaptureFixture[str], out: Path, *options: str) -> str:
    """The demo's words; it must end well."""
    code = demo.main([*SMALL, "--out", str(out), *options])
    said = capsys.readouterr().out
    assert code == 0, said
    return said


def test_the_demo_ends_by_itself_and_all_that_it_checks_holds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = run(capsys, tmp_path / "out")
    assert "Jobs in 48, jobs out 48 (46 succeeded, 1 failed, 1 timed_out); 0 refused" in said
    assert "Every decision came out byte for byte as it was written." in said
    assert "rank" in said
    assert "BROKEN" not in said
    page = tmp_path / "out" / "report.html"
    assert str(page) in said
    assert "<svg" in page.read_text()
    _flip_a_byte_and_see_it_found(tmp_path / "out" / "data" / "archive")


def _flip_a_byte_and_see_it_found(archive: Path) -> None:
    file = segments(archive)[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    report = replay(archive)
    assert report.fault is not None
    assert report.fault.line == data[: len(data) // 2].count(b"\n") + 1


def test_nothing_is_lost_when_every_service_and_the_bus_are_killed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = run(capsys, tmp_path / "out", "--chaos", "--kill-nats")
    assert said.count("  kill -9 ") == 11
    assert "BROKEN" not in said


def test_a_folder_with_something_else_in_it_is_not_touched(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert demo.main(["--out", str(tmp_path)]) == 1
    assert "is not empty and not from a demo" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize("options", [["--jobs", "0"], ["--nodes", "1"], ["--speed", "-2"], ["--what"]])
def test_wrong_use_ends_with_2(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.main(options)
    assert ended.value.code == 2
    capsys.readouterr()
