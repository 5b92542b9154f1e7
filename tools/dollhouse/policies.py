"""What one run of four has beside the rest: room that is lent, jobs that interleave, orderings nobody else draws.

Drawn from a source of its own, so that all else in a run of a seed is as it would be without them. A lease is longer
than whoever goes at its end may take to stop, hanging ones counted. From seed 1500000 on some are shorter than that,
and much shorter than jobs run that save nothing; nobody changes its place at the end of those but for another job.
"""

from random import Random

from msgspec.structs import replace

from dollhouse.plan import Ask, Event, Plan
from gangline_core.cluster import Policy

INTERLEAVED = (
    Policy(
        sharing="interleaved",
        lease_s=130,
        ordering="weighted",
        formula="-gpus * remaining_hours",
        predictor="given",
        preemption=False,
        starvation_s=0,
    ),
    Policy(sharing="interleaved", lease_s=130),
    Policy(sharing="interleaved", lease_s=150, ordering="fifo", starvation_s=20, backfill_depth=0),
)
LENT = (
    Policy(ordering="gavel", lease_s=130, starvation_s=0),
    Policy(ordering="weighted", lease_s=130, preemption=False),
    Policy(ordering="priority", lease_s=140, starvation_s=20),
)
SHORT = (
    Policy(ordering="weighted", lease_s=15, preemption=False),
    Policy(ordering="priority", lease_s=30, starvation_s=20),
    Policy(ordering="fair_share", half_life_s=60, lease_s=20, starvation_s=0),
)
ORDERED = (
    Policy(ordering="least_attained", service_thresholds=(10, 30, 90), starvation_s=60),
    Policy(ordering="least_attained", service_thresholds=(20, 60), oldest_preempts=True, promote_after=2),
    Policy(ordering="dominant_resource", starvation_s=60),
    Policy(ordering="fair_share", half_life_s=60),
    Policy(ordering="round_robin", backfill_depth=2),
    Policy(ordering="shortest_predicted", predictor="given", starvation_s=40),
    Policy(ordering="finish_time"),
    Policy(ordering="gittins", backfill_depth=0),
)
EARLIER = (*INTERLEAVED, *LENT, *ORDERED)
POLICIES = (*EARLIER, *SHORT)
FIRST_SEED, FIRST_SHORT_SEED, PART, JOBS = 1_200_000, 1_500_000, 0.25, 22
"""Earlier seeds keep their meaning."""
SWITCHES = 0.3
LONG_S = 90
MOST_GIB = 8
"""Memory of each GPU that jobs use at most: four of them fit."""


def ordered(plan: Plan, draw: Random) -> Plan:
    """The plan with such a policy and jobs for it, or as it is."""
    if plan.seed < FIRST_SEED or draw.random() >= PART:
        return plan
    kinds = (INTERLEAVED, INTERLEAVED, LENT, ORDERED)
    kind = draw.choice(kinds if plan.seed < FIRST_SHORT_SEED else (*kinds, SHORT, SHORT))
    events = [Event(at_s=0.5, what="ordered", number=POLICIES.index(draw.choice(kind)))]
    times = [round(1 + 4 * draw.random() * k, 3) for k in range(JOBS)]
    events += [Event(at_s=at_s, what="submit", asks=(_ask(draw),)) for at_s in times]
    if draw.random() < SWITCHES:
        number = draw.randrange(len(EARLIER if plan.seed < FIRST_SHORT_SEED else POLICIES))
        events.append(Event(at_s=round(draw.uniform(30, 140), 3), what="ordered", number=number))
    return replace(plan, events=tuple(sorted((*plan.events, *events), key=lambda event: event.at_s)))


def _ask(draw: Random) -> Ask:
    run_s = round(draw.uniform(10, 160), 1)
    return Ask(
        gpu_milli=draw.choice((1000, 2000, 2000)),
        tasks=draw.choice((1, 1, 1, 2)),
        stages=draw.choice((1, 2, 3, 3, 4)),
        most_gib=MOST_GIB,
        run_s=run_s,
        stop_s=draw.choice((0, 0, 2, 10)),
        stuck_s=draw.choice((0, 0, 0, 0, 0, 0, 25, 70)),
        grace_s=draw.choice((0, 10)),
        group=draw.choice(("lab", "lab/x", "shop")),
        priority=draw.choice((0, 0, 0, 2)),
        saves=run_s > LONG_S or draw.random() < 0.3,
    )
