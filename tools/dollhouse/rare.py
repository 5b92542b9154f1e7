"""What one run of six has in place of most of the rest: things that hurt only when several of them come together.

Each kind is a fault or a wish that other runs draw too, so close to its like that a fence which nothing else needs is
leant on: a group that is full while the pool is not, elastic jobs whose members begin one by one, a recorder that dies
again and again while events stream, and a log that is soon cut while some sleep or cannot write. Drawn from a source of
its own.
"""

from collections.abc import Callable, Iterator
from random import Random

from msgspec.structs import replace

from dollhouse.plan import Ask, Event, Plan

FIRST_SEED, PART, LEFT = 1_300_000, 1 / 6, 8
"""Earlier seeds keep their meaning; of what else happens the first few things stay."""
SHORT_LOG_S = 4
SPOILT = ("no_snapshots", "old_snapshots", "broken_snapshots")
SLEEPERS = ("queue-2", "placement-2", "elastic-2", "accounting-2", "admission-2", "telemetry-2")
BEGINNERS = ("queue", "placement", "elastic", "accounting", "telemetry", "admission", "east")


def rare(plan: Plan) -> Plan:
    """The plan with one of these in it, or as it is."""
    if plan.seed >= FIRST_SEED:
        plan = replace(plan, events=tuple(sorted(_felt(plan), key=lambda event: event.at_s)))
    kind = kind_of(plan.seed)
    if not kind:
        return plan
    events, changes = KINDS[kind](Random(f"rare {plan.seed}"))
    every = sorted((*plan.events[:LEFT], *events), key=lambda event: event.at_s)
    return replace(plan, events=tuple(every), **changes)


def _felt(plan: Plan) -> Iterator[Event]:
    """Whose snapshots are gone or spoilt feels it only if it begins before there are new ones."""
    draw = Random(f"felt {plan.seed}")
    for event in plan.events:
        yield event
        if event.what in SPOILT:
            late_s = event.seconds if event.what == "old_snapshots" else 0
            at_s = round(event.at_s + late_s + draw.uniform(0.02, 0.5), 3)
            yield Event(at_s=at_s, what="restart", who=draw.choice(BEGINNERS))


def kind_of(seed: int) -> str:
    """Which of them the run of this seed has; "" for none."""
    draw = Random(f"kind {seed}")
    return draw.choice(tuple(KINDS)) if seed >= FIRST_SEED and draw.random() < PART else ""


def full_group(draw: Random) -> tuple[list[Event], dict[str, float]]:
    """A group at its limit, of jobs that are slow to stop, and more important ones of it, while the pool has room."""
    # What `People.limit` makes of it: four to seven GPUs for the first group.
    events = [Event(at_s=1, what="limit", number=3 * draw.randrange(4, 8))]
    for turn in range(draw.randrange(2, 5)):
        at_s = 4 + 40 * turn
        slow = Ask(
            tasks=draw.choice((1, 2, 2)),
            run_s=100,
            stop_s=draw.choice((5, 10, 10)),
            service_class=draw.choice(("opportunistic", "opportunistic", "burstable")),
        )
        events.append(Event(at_s=at_s, what="submit", asks=(slow,) * draw.randrange(1, 4)))
        more = Ask(gpu_milli=draw.choice((2000, 4000, 4000)), priority=draw.choice((1, 2, 3)), run_s=20)
        events.append(Event(at_s=at_s + draw.uniform(4, 9), what="submit", asks=(more,)))
    return events, {}


def growing(draw: Random) -> tuple[list[Event], dict[str, float]]:
    """Elastic jobs whose members begin one by one as room comes back, and small ones that come and go all the time."""
    elastic = Ask(
        gpu_milli=draw.choice((2000, 4000)), tasks=2, least=1, most=draw.choice((3, 4)), run_s=draw.uniform(15, 30)
    )
    filling = tuple(Ask(gpu_milli=draw.choice((2000, 4000)), run_s=draw.uniform(3, 12)) for _ in range(3))
    events = [
        Event(at_s=1, what="submit", asks=(elastic,) * draw.choice((1, 2))),
        Event(at_s=1, what="submit", asks=filling),
    ]
    times = [10 + draw.uniform(0, 40) for _ in range(20)]
    return [*events, *(Event(at_s=at_s, what="submit", asks=(Ask(gpu_milli=250, run_s=1),)) for at_s in times)], {}


def dying_recorder(draw: Random) -> tuple[list[Event], dict[str, float]]:
    """Recorders that die at one of their first waits while much is told."""
    events = [Event(at_s=1 + n / 5, what="submit", asks=(Ask(run_s=1),)) for n in range(40)]
    deaths = [Event(at_s=1 + 2 * n, what="crash_at", who="recorder", number=draw.randrange(24)) for n in range(6)]
    return [*events, *deaths], {}


def short_log(draw: Random) -> tuple[list[Event], dict[str, float]]:
    """A log that is cut within seconds, while some sleep, some begin anew, and the archive's disk is full."""
    events = [Event(at_s=1 + n / 2, what="submit", asks=(Ask(run_s=2),)) for n in range(80)]
    sleepers, beginners = draw.sample(SLEEPERS, 2), draw.sample(BEGINNERS, 3)
    events += [Event(at_s=draw.uniform(3, 10), what="freeze", who=who, seconds=34) for who in sleepers]
    events += [Event(at_s=draw.uniform(15, 45), what="crash", who=who, seconds=draw.uniform(1, 6)) for who in beginners]
    if draw.random() < 0.6:
        at_s = draw.uniform(8, 20)
        events.append(Event(at_s=at_s, what="full_disk", seconds=25))
        events.append(Event(at_s=at_s + draw.uniform(1, 3), what="crash", who="recorder", seconds=1))
        events.append(Event(at_s=at_s + draw.uniform(3, 5), what="nearly_full", seconds=20))
    return events, {"log_keep_s": SHORT_LOG_S, "copies": draw.choice((1, 2))}


KINDS: dict[str, Callable[[Random], tuple[list[Event], dict[str, float]]]] = {
    "a full group": full_group,
    "growing": growing,
    "a dying recorder": dying_recorder,
    "a short log": short_log,
}
