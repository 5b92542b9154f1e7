"""What one run of six has beside the rest: jobs that go on where they stopped, and soon make way for each other.

Drawn from a source of its own, so that all else in a run of a seed is as it would be without them.
"""

from random import Random

from msgspec.structs import replace

from dollhouse.plan import Ask, Event, Plan
from gangline_core.cluster import Policy

SAVERS = (
    Policy(yield_after_gpu_s=10, yield_run_s=5, yield_wait_s=40, starvation_s=20),
    Policy(yield_after_gpu_s=20, yield_run_s=2, yield_wait_s=60, starvation_s=0),
    Policy(yield_after_gpu_s=5, yield_run_s=8, yield_wait_s=0, starvation_s=30, ordering="fifo", backfill_depth=0),
    Policy(yield_after_gpu_s=10, yield_run_s=5, yield_wait_s=40, starvation_s=20, backfill_depth=2),
)
"""Policies under which they do."""
FIRST_SEED, PART, JOBS = 950_000, 1 / 6, 16
"""Earlier seeds keep their meaning."""
FIRST_TOLD_SEED = 1_800_000
"""From here on most of them say how long they take."""
FIRST_FAST_SEED = 2_000_000
"""From here on there are two models of GPUs in half of all runs, and some say on which they are faster."""


def saving(plan: Plan, draw: Random) -> Plan:
    """The plan with jobs that checkpoint, or as it is."""
    if plan.seed < FIRST_SEED or draw.random() >= PART:
        return plan
    number = draw.randrange(len(SAVERS))
    events = [Event(at_s=0.5, what="saves", number=number)]
    times = [round(1 + 4 * draw.random() * k, 3) for k in range(JOBS)]
    events += [Event(at_s=at_s, what="submit", asks=(_ask(draw),)) for at_s in times]
    others = [replace(one, asks=tuple(_said(ask, draw) for ask in one.asks)) for one in plan.events]
    return replace(plan, events=tuple(sorted((*others, *events), key=lambda event: event.at_s)))


def telling(plan: Plan) -> Plan:
    """The plan with estimates of most jobs that checkpoint: true ones, and such that are too long or too short."""
    if plan.seed < FIRST_TOLD_SEED:
        return plan
    draw = Random(f"telling {plan.seed}")
    events = [replace(one, asks=tuple(_told(ask, draw) for ask in one.asks)) for one in plan.events]
    return replace(plan, events=tuple(events))


def in_two_models(plan: Plan) -> Plan:
    """The plan with GPUs of two models, and speeds there of most jobs that checkpoint, or as it is."""
    draw = Random(f"models {plan.seed}")
    if plan.seed < FIRST_FAST_SEED or draw.random() < 0.5:
        return plan
    events = [replace(one, asks=tuple(_fast(ask, draw) for ask in one.asks)) for one in plan.events]
    return replace(plan, events=tuple(events), models=2)


def _fast(ask: Ask, draw: Random) -> Ask:
    speed = draw.choice((0, 0.5, 3, 3))
    return replace(ask, speed=speed) if ask.saves and not ask.stages else ask


def _told(ask: Ask, draw: Random) -> Ask:
    factor = draw.choice((0, 0.5, 1, 1, 3))
    return replace(ask, told_s=round(ask.run_s * factor)) if ask.saves else ask


def _ask(draw: Random) -> Ask:
    return Ask(
        gpu_milli=1000 * draw.choice((1, 2, 4)),
        tasks=draw.choice((1, 1, 2)),
        run_s=round(draw.uniform(8, 60), 1),
        stop_s=draw.choice((0, 0, 2)),
        priority=draw.choice((0, 0, 0, 1)),
        saves=True,
    )


def _said(ask: Ask, draw: Random) -> Ask:
    """Half of all other jobs say it, too."""
    return replace(ask, saves=True) if draw.random() < 0.5 else ask
