"""What one run of eight has beside the rest: jobs that share GPUs by a rule of the pool, as pairs or as guests.

Drawn from a source of its own, so that all else in a run of a seed is as it would be without them. Jobs that interleave
are drawn by `policies`.
"""

from random import Random

from msgspec.structs import replace

from dollhouse.plan import Ask, Event, Plan
from gangline_core.cluster import Policy

TOGETHER = (
    Policy(time_slice_s=20, packing=True),
    Policy(sharing="pairs"),
    Policy(sharing="pairs", preemption=False, backfill_depth=0),
    Policy(sharing="guests"),
    Policy(sharing="guests", ordering="fifo", backfill_depth=0),
)
"""Policies under which jobs take turns, and share GPUs."""
PART, SHARERS = 0.125, 24
CLASSES = ("burstable", "burstable", "guaranteed", "opportunistic", "opportunistic")


def together(plan: Plan, draw: Random) -> Plan:
    """The plan with jobs that share GPUs, or as it is."""
    if draw.random() >= PART:
        return plan
    first = draw.randrange(1, len(TOGETHER))
    events = [Event(at_s=0.5, what="turns", number=first)]
    times = [round(1 + 3 * draw.random() * k, 3) for k in range(SHARERS)]
    events += [Event(at_s=at_s, what="submit", asks=(_ask(draw),)) for at_s in times]
    if draw.random() < 0.3:
        # The rule changes while jobs share by another one.
        events.append(Event(at_s=round(draw.uniform(20, 90), 3), what="turns", number=draw.randrange(len(TOGETHER))))
    return replace(plan, events=tuple(sorted((*plan.events, *events), key=lambda event: event.at_s)))


def _ask(draw: Random) -> Ask:
    tasks = draw.choice((1, 1, 1, 2))
    return Ask(
        gpu_milli=draw.choice((1000, 1000, 2000)),
        tasks=tasks,
        stages=draw.choice((1, 1, 2, 3, 4)),
        run_s=round(draw.uniform(8, 70), 1),
        grace_s=draw.choice((0, 10)),
        group=draw.choice(("lab", "lab/x", "shop")),
        priority=draw.choice((0, 0, 0, 2)),
        service_class=draw.choice(CLASSES),
    )
