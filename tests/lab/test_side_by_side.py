"""Several simulations at once come to what one after the other comes to, and none is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.simulated import record, trace

from gangline_lab.archive import Progress
from gangline_lab.cli import main
from gangline_lab.philly import JOB_LIST
from gangline_lab.readers.archives import read_history
from gangline_lab.runs import RESULT
from gangline_lab.side_by_side import LostError, side_by_side
from gangline_lab.sim.fleet import added, read_fleet
from gangline_lab.tune import tune
from gangline_lab.whatif import Answer, Change, what_if


def times(factor: int, number: int, progress: Progress | None) -> int:
    """Work of an odd kind: 0 ends its process, and 1 fails."""
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 1:
        raise ValueError("one is not enough")
    if progress is not None:
        progress(1, 2)
        progress(2, 2)
    return factor * number


def hears(shared: None, number: int, progress: Progress | None) -> bool:
    """Whether an interruption would reach this process."""
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def tell_who_hears() -> None:
    with side_by_side(hears, None, workers=2) as together:
        sys.stdout.write(f"{together([0, 1, 2], None)} {hears(None, 0, None)}\n")


def test_who_interrupts_the_command_interrupts_that_and_none_of_its_processes() -> None:
    """Each would say with a page of its own that it was interrupted."""
    script = f"from {tell_who_hears.__module__} import tell_who_hears as it; it()"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[False, False, False] True\n"


def test_what_if_and_tune_say_the_same_however_many_runs_are_done_at_once(tmp_path: Path) -> None:
    jobs = trace(*((30 * k, 4, 20 if k % 4 else 200) for k in range(24)))
    history = read_history(record(tmp_path / "a", jobs))
    change = Change(nodes=added(read_fleet("1x4"), "+4xV100").nodes[1:])
    told: list[tuple[int, int]] = []
    at_once = what_if(history, change, varied=1, workers=3, progress=lambda done, total: told.append((done, total)))
    assert at_once == what_if(history, change, varied=1)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1]
    early: list[Answer] = []
    told.clear()
    assert at_once == what_if(history, change, varied=1, progress=lambda *far: told.append(far), first=early.append)
    assert early == [what_if(history, change, varied=0)]
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    assert tune(history, "mean_wait", trials=6, workers=2) == tune(history, "mean_wait", trials=6)


def test_results_come_in_the_order_of_what_was_asked_and_processes_take_one_after_the_other() -> None:
    with side_by_side(times, 10, workers=2) as together:
        assert together([5, 4, 3, 2], None) == [50, 40, 30, 20]
        assert together([], None) == []
        assert together([7], None) == [70]


def test_what_goes_wrong_in_one_of_them_goes_wrong_here() -> None:
    for workers in (1, 2):
        with (
            pytest.raises(ValueError, match="one is not enough"),
            side_by_side(times, 10, workers=workers) as together,
        ):
            together([4, 1], None)


def test_a_process_that_something_ends_is_an_error_and_no_wait_for_ever() -> None:
    with pytest.raises(LostError, match="ended from outside"), side_by_side(times, 10, workers=2) as together:
        together([4, 0], None)


def simulated(out: Path, *more: str) -> int:
    trace = f"philly:{JOB_LIST}"
    asked = ["simulate", "--trace", trace, "--cluster", "2x8xV100", "--jobs", "40", "--archive", "--out", str(out)]
    return main([*asked, *more])


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_seeds_are_simulated_side_by_side_and_every_file_is_as_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for workers in ("1", "3"):
        assert simulated(tmp_path / workers, "--seeds", "3", "--workers", workers) == 0
        told.append(capsys.readouterr().out.partition("Report:")[0])
    assert told[0] == told[1]
    assert files_of(tmp_path / "1") == files_of(tmp_path / "3")
    assert "default-2/archive/archive-000000000001.jsonl" in files_of(tmp_path / "3")
    # A folder that has a log is told of before anything runs.
    assert simulated(tmp_path / "3", "--seeds", "2", "--workers", "2") == 2
    assert "default-0/archive holds an archive already" in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_run_that_fails_leaves_no_half_log_and_those_that_came_to_their_end_stay(
    tmp_path: Path, workers: str
) -> None:
    (tmp_path / "default-1" / RESULT).mkdir(parents=True)
    (tmp_path / "default-1" / RESULT / "in-the-way").touch()
    assert simulated(tmp_path, "--seeds", "2", "--workers", workers) != 0
    assert not (tmp_path / "default-1" / "archive").exists()
    if workers == "1":
        assert (tmp_path / "default-0" / "archive").exists()
