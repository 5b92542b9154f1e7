"""One standing story, in which one process dies at each of its waits in turn: every await is a place to die at.

A wait is whatever a process waits for from outside: the bus, its clock, its machines. How many there are for each
process from the story's beginning to the end of its last job is counted by playing it once without any death.
"""

from collections.abc import Iterator
from functools import cache

from dollhouse.plan import FLEETS, LED, SERVICES, Ask, Event, Plan
from dollhouse.play import play

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


@cache
def waits_of(copies: int) -> dict[str, int]:
    """How many waits each process has in the story, when of each writer there are so many.

    Raises:
        AssertionError: the story does not end well by itself.
    """
    outcome = play(Plan(seed=0, events=STORY, copies=copies, doors=1))
    assert not outcome.faults, outcome.faults
    return outcome.waits


def sweep(*, step: int = 1, first: int = 0) -> Iterator[Plan]:
    """A plan for every process and every `step`-th of its waits, from the `first` on; copies come and go by turns."""
    for who in WHO:
        for wait in range(first, max(waits_of(copies).get(who, 0) for copies in (1, 2)), step):
            death = Event(at_s=0, what="dies_at", who=who, number=wait)
            is_alone = wait % 2 > 0 and who in waits_of(1)
            yield Plan(seed=wait, events=(death, *STORY), copies=1 if is_alone else 2, doors=1)


def death_of(plan: Plan) -> str:
    """The name of this death: who dies at which wait."""
    death = plan.events[0]
    return f"death of {death.who} at {death.number}"
