"""Several simulations at once come to what one after the other comes to, and none is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.simulated import record, trace

from gangline_lab.archive import Progress
from gangline_lab.readers.archives import read_history
from gangline_lab.side_by_side import LostError, side_by_side
from gangline_lab.sim.fleet import added, read_fleet
from gangline_lab.tune import tune
from gangline_lab.whatif import Change, what_if


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
