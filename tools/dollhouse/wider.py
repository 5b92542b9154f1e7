"""What half of all runs have beside the rest: arrays, slices of cards, secrets, deadlines, budgets, plans overtaken.

Drawn from a source of their own, so that all else in a run of a seed is as it would be without them.
"""

from random import Random

from msgspec.structs import replace

from dollhouse.plan import LATE, RUN_S, Ask, Event, Plan, draw_usual
from dollhouse.policies import ordered
from dollhouse.pressed import pressed
from dollhouse.rare import rare
from dollhouse.reaped import reaped
from dollhouse.saving import in_two_models, saving, telling
from dollhouse.terms import termed
from dollhouse.together import together

SLICES = ("1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")
"""Of the cards that are cut; see `gangline_core.room.mig`."""
WANTS = ("", "", "afternotok", "afterany")
DUE_S = (12, 30, 60, 120)
OVERTAKEN_S = 12.0
ARRIVE = 6
"""Jobs that come meanwhile, so that rounds are opened."""
ON_TOP = ("budget", "budget", "meddle", "meddle", "edit")
TURNS_PART, TURNERS = 0.3, 18


def draw_plan(seed: int) -> Plan:
    """The run of this seed."""
    plan = together(widened(draw_usual(seed), Random(f"wider {seed}")), Random(f"together {seed}"))
    plan = ordered(saving(plan, Random(f"saving {seed}")), Random(f"ordered {seed}"))
    return termed(in_two_models(telling(reaped(pressed(rare(plan))))))


def widened(plan: Plan, draw: Random) -> Plan:
    """The plan with more of what users and administrators may do, or as it is."""
    if draw.random() < 0.5:
        return plan
    events = [replace(event, asks=tuple(_wider(ask, draw) for ask in event.asks)) for event in plan.events]
    for _ in range(draw.randrange(7)):
        events += _on_top(draw)
    cut = draw.choice((0, 0, 1, 3))
    if draw.random() < TURNS_PART:
        events += _turns(draw)
    return replace(plan, events=tuple(sorted(events, key=lambda event: event.at_s)), cut=cut)


def _turns(draw: Random) -> list[Event]:
    """Jobs of one GPU that tell of their steps take turns, and are packed where that pays."""
    asks = [
        Ask(tells_ms=draw.choice((100, 200)), run_s=round(draw.uniform(60, 140), 1), grace_s=10) for _ in range(TURNERS)
    ]
    return [
        Event(at_s=0.5, what="turns"),
        *(Event(at_s=1 + k, what="submit", asks=(ask,)) for k, ask in enumerate(asks)),
    ]


def _wider(ask: Ask, draw: Random) -> Ask:
    """One more thing that a job may ask for, at most."""
    chance = draw.random()
    if chance < 0.14:
        return replace(ask, array=draw.choice((2, 3, 5)), at_most=draw.choice((0, 1, 2)))
    if chance < 0.22 and ask.gpu_milli and not ask.least:
        return replace(ask, mig=draw.choice(SLICES), tasks=draw.choice((1, 1, 2)), topology="")
    if chance < 0.34:
        return replace(ask, secret=True)
    if chance < 0.44:
        return replace(ask, due_s=draw.choice(DUE_S))
    if chance < 0.52:
        return replace(ask, after=True, wants=draw.choice(WANTS))
    if chance < 0.72 and ask.gpu_milli >= 1000 and not ask.least:
        return replace(ask, tasks=1, tells_ms=draw.choice((100, 200, 400)))
    return ask


def _on_top(draw: Random) -> list[Event]:
    at_s, number = round(draw.uniform(0, RUN_S), 3), draw.randrange(1000)
    what = draw.choice(ON_TOP)
    if what != "meddle":
        return [Event(at_s=at_s, what=what, number=number, seconds=round(draw.uniform(3, 40), 3))]
    # Whoever decides hears late of all, so that there is time to change what it decides about.
    both = ("placement", "placement-2")
    late = [Event(at_s=at_s, what="delay", who=who, number=LATE, seconds=OVERTAKEN_S) for who in both]
    arrive = [Event(at_s=at_s + 1 + 1.3 * k, what="submit", asks=(_wider(Ask(run_s=4), draw),)) for k in range(ARRIVE)]
    return [*late, *arrive, Event(at_s=at_s, what="meddle", number=number, seconds=OVERTAKEN_S)]
