"""One standing story, in which one process dies at each of its waits in turn: every await is a place to die at.

A wait is whatever a process waits for from outside: the bus, its clock, its machines. Each process dies at each of
them from the story's beginning to the end of its last job, where every writer lives alone and where it has a second.
"""

from collections.abc import Iterator
from functools import cache

from msgspec.structs import replace

from dollhouse.deaths import Death
from dollhouse.plan import FLEETS, LED, SERVICES, Ask, Event, Plan
from dollhouse.play import play_in, room

WHO = (*SERVICES, *(f"{name}-2" for name in LED), *FLEETS)
"""Everybody, also those who stand by."""
STORY = (
    Event(at_s=1.1, what="submit", asks=(Ask(gpu_milli=4000, tasks=2, run_s=6, stop_s=3, priority=-1),)),
    Event(at_s=1.2, what="submit", number=2, asks=(Ask(gpu_milli=2000, tasks=2, least=1, most=3, run_s=5),)),
    Event(at_s=2.0, what="submit", asks=(Ask(gpu_milli=4000, tasks=3, run_s=3, priority=2), Ask(run_s=1, code=1))),
    Event(at_s=2.5, what="submit", asks=(Ask(run_s=1, array=3, at_most=2, secret=True), Ask(run_s=1, after=True))),
    Event(at_s=3.0, what="cancel", number=1),
    Event(at_s=3.5, what="limit", number=12),
    Event(at_s=4.0, what="hold", number=3),
    Event(at_s=6.0, what="release", number=3),
)
"""A gang, an elastic job, an urgent one that needs others to go, one that fails, an array with a secret and a job that
waits for it, changes of mind and of a limit; one submit is repeated."""


COPIES = (1, 2)


def story(copies: int) -> Plan:
    """The story where there are so many of each writer."""
    return Plan(seed=0, events=STORY, copies=copies, doors=1)


@cache
def waits_of(copies: int) -> dict[str, int]:
    """How many waits each process has in the story, when of each writer there are so many.

    Raises:
        AssertionError: the story does not end well by itself.
    """
    waits: dict[str, int] = {}

    def dies(who: str, wait: int) -> bool:
        waits[who] = wait + 1
        return False

    plan = story(copies)
    with room() as folder:
        outcome = play_in(folder, replace(plan, events=(Event(at_s=0, what="dies_at"), *plan.events)), dies)
    assert not outcome.faults, outcome.faults
    return {who: waits[who] for who in WHO if who in waits}


def sweep(*, step: int = 1, first: int = 0, copies: tuple[int, ...] = COPIES) -> Iterator[Death]:
    """Every process and every `step`-th of its waits, from the `first` on."""
    for number in copies:
        for who, waits in waits_of(number).items():
            for wait in range(first, waits, step):
                yield Death(plan=story(number), who=who, wait=wait)


def death_of(name: str) -> Death:
    """The death of this name."""
    who, wait, copies = name.split(":")
    return Death(plan=story(int(copies)), who=who, wait=int(wait))
