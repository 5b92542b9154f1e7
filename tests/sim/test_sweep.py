"""Whoever dies at any of its waits leaves everything as it should be, and a copy of a run is what it is taken for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from dollhouse.__main__ import run_sweep
from dollhouse.deaths import Death, play_deaths
from dollhouse.ledger import Ledger
from dollhouse.play import MEMORY, Outcome, play
from dollhouse.sweep import WHO, death_of, story, sweep, waits_of
from dollhouse.world import Process, World

MANY_WAITS = 90
MET_IN_COPIES = ("recorder", "placement", "gateway", "west")
FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
"""The threads of whoever runs the tests are none of the run's."""


@pytest.mark.parametrize("death", list(sweep(step=211, first=7)), ids=lambda death: death.name)
def test_whoever_dies_at_any_of_its_waits_leaves_everything_as_it_should_be(death: Death) -> None:
    outcome = play(death.alone)
    assert not outcome.faults, outcome.faults


def test_a_sweep_kills_everybody_at_every_wait_from_the_storys_beginning_to_its_last_job() -> None:
    deaths = [death.name for death in sweep()]
    for copies in (1, 2):
        waits = waits_of(copies)
        assert waits.keys() == {who for who in WHO if copies > 1 or not who.endswith("-2")}
        assert min(waits.values()) > MANY_WAITS
        for who, count in waits.items():
            assert {f"{who}:{wait}:{copies}" for wait in range(count)} <= set(deaths), who
    assert len(set(deaths)) == len(deaths)
    assert all(death_of(name).name == name for name in deaths[::500])


@FORKS
@pytest.mark.parametrize("copies", [1, 2])
def test_a_copy_in_which_somebody_dies_is_the_run_with_this_death_alone(copies: int) -> None:
    wanted = {death.name: death for death in sweep(step=177, first=22, copies=(copies,)) if death.who in MET_IN_COPIES}
    outcomes: dict[str, Outcome] = {}
    before, here = set(MEMORY.glob("dollhouse-*")), Path.cwd()
    alive = play_deaths(
        story(copies),
        wanted=lambda death: death.name in wanted,
        told=lambda death, outcome: outcomes.update({death.name: outcome}),
        workers=2,
    )
    assert Path.cwd() == here
    assert not set(MEMORY.glob("dollhouse-*/run")) - before, "no files stay"
    assert replace(alive, waits={}) == replace(play(story(copies)), waits={})
    assert outcomes.keys() == wanted.keys()
    for name, outcome in outcomes.items():
        assert outcome == play(wanted[name].alone), name


@FORKS
@pytest.mark.parametrize("end", [lambda: os._exit(3), lambda: os._exit(0)])
def test_a_copy_that_ends_without_a_word_counts_as_a_death_that_went_wrong(
    end: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def ends(world: World, process: Process) -> None:
        end()

    monkeypatch.setattr(World, "_end", ends)
    monkeypatch.setattr("dollhouse.__main__.COPIES", (1,))
    left = "queue:60:1"
    others = "".join(f"ok {death.name}\n" for death in sweep() if death.name != left)
    path = tmp_path / "ledger"
    path.write_text(others)
    with Ledger(path) as ledger:
        assert run_sweep(1, 0, ledger) == 1
        assert ledger.failed == [left]


def test_a_death_at_a_wait_is_at_that_very_wait() -> None:
    tripped = play(death_of("queue:60:1").alone)
    assert tripped.faults == ()
    assert tripped.struck["died at a wait"] == 1
    assert tripped.waits["queue"] != play(story(1)).waits["queue"]
