"""In how many runs each fault was drawn and truly struck. Usage: python -m dollhouse.strikes FIRST SEEDS.

What was counted is kept beside this file, and docs/proofs.md shows it; count anew when faults change.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from dollhouse.__main__ import Ran, run, run_all
from dollhouse.plan import Plan
from dollhouse.struck import FAULTS, Fault
from dollhouse.wider import draw_plan

KEPT = Path(__file__).with_name("strikes.json")


class Counted(Struct, frozen=True):
    """So many runs from this seed on; per fault in how many it was drawn, and in how many it struck."""

    first: int
    seeds: int
    drawn: dict[str, int]
    struck: dict[str, int]


def is_drawn(plan: Plan, fault: Fault) -> bool:
    """Whether the plan has one of those things in it by which the fault comes."""
    events = {event.what for event in plan.events}
    asks = [ask for event in plan.events for ask in event.asks]
    return any(
        name in events
        or getattr(plan.rates, name, 0) > 0
        or getattr(plan, name, 0) > 0
        or any(getattr(ask, name, 0) for ask in asks)
        for name in fault.drawn
    )


def count(first: int, seeds: int) -> Counted:
    """Play them, and count."""
    return summed(run_all(run, range(first, first + seeds), workers=1))


def summed(runs: Iterable[Ran]) -> Counted:
    """What these runs say, from the first seed on without a gap."""
    drawn, struck, seeds = dict.fromkeys(FAULTS, 0), dict.fromkeys(FAULTS, 0), list[int]()
    for ran in runs:
        plan = draw_plan(ran.seed)
        seeds.append(ran.seed)
        for name, fault in FAULTS.items():
            drawn[name] += is_drawn(plan, fault)
            struck[name] += any(ran.outcome.struck.get(note) for note in fault.notes)
    return Counted(first=min(seeds), seeds=len(seeds), drawn=drawn, struck=struck)


def kept() -> Counted:
    """What was counted last."""
    return msgspec.json.decode(KEPT.read_bytes(), type=Counted)


def main() -> None:
    """Count, and keep it."""
    first, seeds = int(sys.argv[1]), int(sys.argv[2])
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(count(first, seeds)), indent=1) + b"\n")


if __name__ == "__main__":
    main()
