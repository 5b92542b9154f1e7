"""Whoever has to stop in the middle of ten thousand runs goes on where it was."""

import logging
import os
from pathlib import Path

import pytest

import dollhouse.__main__ as dollhouse
from dollhouse.__main__ import RUNS_PER_PROCESS, run_all, run_seeds, run_sweep
from dollhouse.ledger import Ledger
from dollhouse.play import Outcome
from dollhouse.sweep import sweep


def test_a_run_that_ended_is_not_played_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        ledger.note("seed 7", failed=False)
        ledger.note("seed 8", failed=True)
    again = Ledger(path)
    assert again.has("seed 7")
    assert again.has("seed 8")
    assert not again.has("seed 9")
    assert (again.before, again.failed) == (2, ["seed 8"])


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text("ok seed 7\nfail")
    assert Ledger(path).before == 1


def test_what_failed_before_a_stop_makes_the_whole_fail(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_text("ok seed 5\nfailed seed 6\n")
    with Ledger(path) as ledger:
        assert run_seeds(range(5, 7), 1, keep=None, ledger=ledger) == 1


@pytest.mark.parametrize(("words", "shrunk"), [([], [4]), (["--no-shrink"], [])])
def test_failing_seeds_are_named_and_not_shrunk_where_that_is_asked_for(
    words: list[str], shrunk: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(seed: int) -> dollhouse.Ran:
        return dollhouse.Ran(seed=seed, outcome=Outcome(faults=("broken",) if seed == 4 else ()), events=())

    asked: list[int] = []
    monkeypatch.setattr(dollhouse, "run", run)
    monkeypatch.setattr(dollhouse, "show_shrunk", lambda seed, keep: asked.append(seed))
    monkeypatch.setattr("sys.argv", ["dollhouse", "--seeds", "3", "--first", "3", "--workers", "1", *words])
    assert dollhouse.main() == 1
    assert asked == shrunk
    assert "failed: 1 (seeds 4)" in capsys.readouterr().out
    assert not logging.root.manager.disable, "others in this process are heard as before"


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_sweep_goes_on_with_the_deaths_that_are_left(tmp_path: Path) -> None:
    deaths = list(sweep(step=60))
    path = tmp_path / "ledger"
    path.write_text("".join(f"ok {death.name}\n" for death in deaths[1:]))
    with Ledger(path) as ledger:
        assert run_sweep(60, 0, ledger) == 0
    assert Ledger(path).before == len(deaths)


def process_of(run: int) -> int:
    return os.getpid()


def test_many_runs_change_their_process_also_where_one_works_alone() -> None:
    runs = [number // RUNS_PER_PROCESS for number in range(RUNS_PER_PROCESS + 3)]
    processes = list(run_all(process_of, runs, 1))
    assert len(set(processes)) == 2, "what a run leaves behind adds up for ever"
    assert os.getpid() not in processes
    assert list(run_all(process_of, [1], 1)) == [os.getpid()]
