"""Runs seeds until something breaks. Usage: python -m dollhouse [--seeds N] [--first SEED] [--keep FOLDER].

A failing seed is shrunk to the shortest story that fails in the same way; the story is printed, and with --keep written
to a file that `tests/sim/test_stories.py` plays again from then on; with --no-shrink failing seeds are only named. With
--resume FILE each run that ended is written down there, and whoever begins again with the same file plays only what is
missing.
"""

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from dollhouse.deaths import Death, play_deaths
from dollhouse.ledger import Ledger
from dollhouse.plan import Plan, decode_plan, encode_plan, tell
from dollhouse.play import Outcome, play
from dollhouse.shrink import shrink
from dollhouse.sweep import COPIES, death_of, story, sweep
from dollhouse.wider import draw_plan

T = TypeVar("T")
R = TypeVar("R")
BAR = 30
RUNS_PER_PROCESS = 200
SHRUNK_MAX = 3
"""So many failing seeds are shrunk; the others are named."""


class Ran(Struct, frozen=True):
    """One seed and what became of it."""

    seed: int
    outcome: Outcome
    events: tuple[str, ...]


@contextmanager
def quiet() -> Iterator[None]:
    """What the services log of all that is broken for them is not shown meanwhile."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@quiet()
def run(seed: int) -> Ran:
    """Play one seed."""
    plan = draw_plan(seed)
    return Ran(seed=seed, outcome=play(plan), events=tuple(event.what for event in plan.events))


def run_all(work: Callable[[T], R], runs: Sequence[T], workers: int) -> Iterator[R]:
    """All runs, in order; processes are changed now and then, so that nothing they keep adds up.

    Libraries that remember whom they served keep two megabytes of each run. An executor that changes its processes by
    itself (`max_tasks_per_child`) waits for ever in Python 3.11 once the last of them has ended.
    """
    if workers <= 1 and len(runs) <= RUNS_PER_PROCESS:
        yield from map(work, runs)
        return
    together = RUNS_PER_PROCESS * workers
    for begin in range(0, len(runs), together):
        with ProcessPoolExecutor(workers) as pool:
            yield from pool.map(work, runs[begin : begin + together], chunksize=1)


@quiet()
def main() -> int:
    """Play, show, shrink; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m dollhouse", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--keep", type=Path, help="write shrunk stories into this folder")
    parser.add_argument("--no-shrink", action="store_true", help="only name failing seeds: shrinking is slow")
    parser.add_argument("--sweep", type=int, metavar="STEP", help="let each process die at every STEP-th of its waits")
    parser.add_argument("--death", metavar="WHO:WAIT:COPIES", help="play this one death of the sweep and nothing else")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="what ended is written here and not played again")
    parser.add_argument("--story", type=Path, help="play the story in this file and nothing else")
    arguments = parser.parse_args()
    if arguments.death:
        return show_story(death_of(arguments.death).alone)
    if arguments.story:
        return show_story(decode_plan(arguments.story.read_bytes()))
    with Ledger(arguments.resume) as ledger:
        if arguments.sweep:
            return run_sweep(arguments.sweep, arguments.first, ledger, arguments.workers)
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        shrunk_max = 0 if arguments.no_shrink else SHRUNK_MAX
        return run_seeds(seeds, arguments.workers, keep=arguments.keep, shrunk_max=shrunk_max, ledger=ledger)


def run_seeds(seeds: range, workers: int, *, keep: Path | None, ledger: Ledger, shrunk_max: int = SHRUNK_MAX) -> int:
    """Play seeds that were not played yet, shrink the first that fail; 1 when a promise was broken."""
    began_s = time.monotonic()
    ran: list[Ran] = []
    failed: list[Ran] = []
    left = [seed for seed in seeds if not ledger.has(f"seed {seed}")]
    for one in run_all(run, left, workers):
        ran.append(one)
        if one.outcome.faults:
            failed.append(one)
            print(f"\rseed {one.seed} fails: {one.outcome.faults[0][:160]}{' ' * 20}", file=sys.stderr)
        ledger.note(f"seed {one.seed}", failed=bool(one.outcome.faults))
        show_progress(len(ran), len(left), len(failed), time.monotonic() - began_s)
    print(file=sys.stderr)
    for one in failed[:shrunk_max]:
        show_shrunk(one.seed, keep)
    print(summary(ran, failed, time.monotonic() - began_s))
    return told_all(len(seeds), ledger, failed=len(failed))


def run_sweep(step: int, first: int, ledger: Ledger, workers: int = 1) -> int:
    """Every process dies at its waits, one copy of the run each; 1 when a promise was broken."""
    left = {death.name for death in sweep(step=step, first=first) if not ledger.has(death.name)}
    total, began_s = len(left), time.monotonic()
    failed: list[str] = []

    def told(death: Death, outcome: Outcome) -> None:
        left.discard(death.name)
        ledger.note(death.name, failed=bool(outcome.faults))
        if outcome.faults:
            failed.append(death.name)
            print(f"\n{tell(death.alone)}\n  -> {outcome.faults[0]}\n  again: python -m dollhouse --death {death.name}")
        show_progress(total - len(left), total, len(failed), time.monotonic() - began_s, what="deaths")

    for copies in COPIES:
        alive = play_deaths(story(copies), wanted=lambda death: death.name in left, told=told, workers=workers)
        failed += [f"the story itself: {fault}" for fault in alive.faults]
    failed += [f"{name} was not come to" for name in sorted(left)]
    print(f"\n{total} deaths in {time.monotonic() - began_s:.0f} s, {len(failed)} failed")
    for what in failed:
        print(f"  {what}")
    return told_all(total + ledger.before, ledger, failed=len(failed))


def told_all(wanted: int, ledger: Ledger, *, failed: int) -> int:
    """What the ledger knows of earlier parts of this run is part of its end."""
    if ledger.before:
        print(f"of {wanted}, {ledger.before} runs of the ledger were played before, {len(ledger.failed)} fail in all")
    return 1 if failed or ledger.failed else 0


def show_progress(done: int, total: int, failed: int, seconds: float, *, what: str = "seeds") -> None:
    """One line that is written over."""
    filled = BAR * done // max(1, total)
    left_s = seconds / done * (total - done)
    bar = "#" * filled + "." * (BAR - filled)
    told = f"{done}/{total} {what}, {failed} failed, {left_s:.0f} s left"
    print(f"\r[{bar}] {told} ", end="", file=sys.stderr, flush=True)


def show_shrunk(seed: int, keep: Path | None) -> None:
    """The shortest story of a failing seed."""

    def told(tries: int, events: int) -> None:
        print(f"\rshrinking seed {seed}: try {tries}, {events} events ", end="", file=sys.stderr, flush=True)

    shortest = shrink(draw_plan(seed), play, tell=told)
    print(file=sys.stderr)
    show_story(shortest)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        path = keep / f"seed_{seed}.json"
        path.write_bytes(encode_plan(shortest))
        print(f"kept as {path}; give it the name of what it proves")


def show_story(plan: Plan) -> int:
    """Play a story and tell how it ends; 1 when it ends badly."""
    outcome = play(plan)
    print(tell(plan))
    for fault in outcome.faults[:5]:
        print(f"  -> {fault}")
    if not outcome.faults:
        print("  -> all is well")
    return 1 if outcome.faults else 0


def summary(ran: list[Ran], failed: list[Ran], seconds: float) -> str:
    """What was run, what was broken, what came of it."""
    troubles = Counter(event for one in ran for event in one.events)
    outcomes = [one.outcome for one in ran]
    lines = [
        f"{len(ran)} seeds in {seconds:.0f} s: {sum(each.seconds for each in outcomes) / 3600:.1f} hours lived, "
        f"{sum(each.jobs for each in outcomes)} jobs, {sum(each.messages for each in outcomes)} messages, "
        f"{sum(each.evictions for each in outcomes)} evictions",
        f"{sum(each.dropped for each in outcomes)} messages dropped behind snapshots, "
        f"{sum(each.cut_off for each in outcomes)} processes began anew because of that",
        "what mattered: " + ", ".join(f"{count} {rule}" for rule, count in sorted(_met(outcomes).items())),
        "what happened: " + ", ".join(f"{count} {what}" for what, count in sorted(troubles.items())),
        f"failed: {len(failed)}" + (f" (seeds {', '.join(str(one.seed) for one in failed[:20])})" if failed else ""),
    ]
    return "\n".join(lines)


def _met(outcomes: list[Outcome]) -> Counter[str]:
    met: Counter[str] = Counter()
    for outcome in outcomes:
        met.update(outcome.met)
    return met


if __name__ == "__main__":
    sys.exit(main())
