"""One standing story, in which one process dies at each of its waits in turn: every await is a place to die at.

A wait is whatever a process waits for from outside: the bus, its clock, its machines.
"""

from collections.abc import Iterator

from dollhouse.plan import FLEETS, SERVICES, Ask, Event, Plan

DIES_S = 1.0
"""The process that dies is watched from here on: everybody has moved in, and the first jobs arrive."""
WAITS = 80
"""Waits after which a process has done everything at least once in the story."""
WHO = (*SERVICES, *FLEETS)
STORY = (
    Event(at_s=1.1, what="submit", asks=(Ask(gpu_milli=4000, tasks=2, run_s=6, stop_s=3, priority=-1),)),
    Event(at_s=1.2, what="submit", number=2, asks=(Ask(gpu_milli=2000, tasks=2, least=1, most=3, run_s=5),)),
    Event(at_s=2.0, what="submit", asks=(Ask(gpu_milli=4000, tasks=3, run_s=3, priority=2), Ask(run_s=1, code=1))),
    Event(at_s=3.0, what="cancel", number=1),
    Event(at_s=3.5, what="limit", number=12),
)
"""A gang, an elastic job, an urgent one that needs others to go, one that fails, a change of mind and of a limit; one
submit is repeated."""


def sweep(*, step: int = 1, first: int = 0) -> Iterator[Plan]:
    """A plan for every process and every `step`-th of its waits, from the `first` on."""
    for who in WHO:
        for wait in range(first, WAITS, step):
            death = Event(at_s=DIES_S, what="crash_at", who=who, number=wait)
            yield Plan(seed=wait, events=(death, *STORY), copies=1 if wait % 2 else 2, doors=1)


def death_of(plan: Plan) -> str:
    """The name of this death: who dies at which wait."""
    death = plan.events[0]
    return f"death of {death.who} at {death.number}"
