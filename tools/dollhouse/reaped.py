"""What one run of four has beside the rest: machines on which something ends supervisors, again and again.

Drawn from a source of its own, so that earlier seeds keep their meaning and all else is as it would be without them.
"""

from random import Random

from msgspec.structs import replace

from dollhouse.plan import FLEETS, Ask, Event, Plan

FIRST_SEED, PART, JOBS = 1_700_000, 0.25, 6


def reaped(plan: Plan) -> Plan:
    """The plan with machines that do so, or as it is."""
    draw = Random(f"reaped {plan.seed}")
    if plan.seed < FIRST_SEED or draw.random() >= PART:
        return plan
    agents = sorted(FLEETS)
    at_s, every_s = round(draw.uniform(1, 40), 3), draw.choice((2.0, 5.0, 9.0))
    reapers = agents if draw.random() < 0.5 else [draw.choice(agents)]
    events = [
        Event(at_s=at_s, what="reap", who=agent, number=draw.choice((2, 6, 9, 14)), seconds=every_s)
        for agent in reapers
    ]
    asks = [_ask(draw) for _ in range(JOBS)]
    events += [Event(at_s=round(at_s + k * every_s, 3), what="submit", asks=(ask,)) for k, ask in enumerate(asks)]
    for at in (20, 35):
        # Somebody lets those go on who are held meanwhile.
        events.append(Event(at_s=round(at_s + at * draw.random(), 3), what="release", number=draw.randrange(JOBS)))
    return replace(plan, events=tuple(sorted((*plan.events, *events), key=lambda event: event.at_s)))


def _ask(draw: Random) -> Ask:
    """A job that takes a while: alone, as a gang, or one that goes on with fewer; some of them fail by themselves."""
    ask = Ask(
        gpu_milli=draw.choice((500, 1000, 2000)),
        run_s=round(draw.uniform(5, 90), 1),
        tasks=draw.choice((1, 1, 2)),
        retries=draw.choice((0, 2)),
        code=draw.choice((0, 0, 0, 1)),
        stuck_s=draw.choice((0, 0, 25)),
    )
    return replace(ask, tasks=2, least=1, most=3) if draw.random() < 0.25 else ask
