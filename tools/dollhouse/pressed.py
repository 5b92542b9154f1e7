"""What three of four runs have in place of most of the rest: faults that other runs draw and seldom feel.

A fault that is drawn for some moment mostly meets nobody: the log is full while nothing is written, a node is cut off
on which nothing runs, snapshots are spoilt and nobody begins. Each kind here brings with it what makes it felt. Drawn
from a source of its own, so that earlier seeds keep their meaning.
"""

from collections.abc import Callable, Iterator
from random import Random

from msgspec.structs import replace

from dollhouse.plan import FLEETS, LATE, LED, SECOND_POOL, Ask, Event, Plan
from dollhouse.rare import BEGINNERS, kind_of

FIRST_SEED, PART, LEFT = 1_600_000, 0.75, 16
"""Earlier seeds keep their meaning; of what else happens so many things stay."""
KINDS_MOST = 4
TURN_S = 36.0
"""So long one of them has before the next begins, so that each meets a house at work."""
LOST_S = (33.0, 40.0, 62.0)
"""Longer than whoever is silent may be before its nodes are lost."""
WRITERS = (*LED, *(f"{name}-2" for name in LED))
PressedKind = Callable[[Random, float], Iterator[Event]]


def pressed(plan: Plan) -> Plan:
    """The plan with some of these in it, one after the other, or as it is."""
    draw = Random(f"pressed {plan.seed}")
    if plan.seed >= FIRST_SEED:
        plan = replace(plan, saves=True)
    if plan.seed < FIRST_SEED or kind_of(plan.seed) or draw.random() >= PART:
        return plan
    kinds = draw.sample((*KINDS, *OFTEN), draw.randrange(2, KINDS_MOST + 1))
    events = [event for n, kind in enumerate(kinds) for event in KINDS[kind](draw, 2 + n * TURN_S)]
    kept = draw.sample(plan.events, min(LEFT, len(plan.events)))
    every = sorted((*kept, *(replace(one, at_s=round(one.at_s, 3)) for one in events)), key=lambda event: event.at_s)
    rates = plan.rates
    if draw.random() < 0.3:
        rates = replace(rates, jitter_s=draw.choice((0.02, 0.05, 0.2)))
    return replace(plan, events=tuple(every), rates=rates)


def _work(draw: Random, at_s: float, *, count: int = 8, every_s: float = 1.5) -> Iterator[Event]:
    """Small jobs that come all the time, some repeated, some hung up on."""
    for n in range(count):
        ask = Ask(
            gpu_milli=draw.choice((250, 1000, 2000)), run_s=round(draw.uniform(1, 8), 1), code=draw.choice((0, 0, 1))
        )
        yield Event(at_s=at_s + n * every_s, what="submit", number=draw.randrange(40), asks=(ask,))


def _crowd(draw: Random, at_s: float) -> Iterator[Event]:
    """Jobs that use every node for long and do not go when they are told: alone, gangs, elastic ones, saved ones."""
    for n in range(4):
        ask = Ask(
            gpu_milli=draw.choice((1000, 2000, 4000)),
            tasks=draw.choice((1, 2)),
            run_s=draw.choice((40, 70, 100)),
            stop_s=draw.choice((0, 3, 10)),
            stuck_s=draw.choice((0, 25, 25, 70)),
            retries=draw.choice((0, 2)),
            saves=draw.random() < 0.3,
            service_class=draw.choice(("burstable", "guaranteed", "opportunistic")),
        )
        if draw.random() < 0.3:
            ask = replace(ask, tasks=2, least=1, most=3)
        yield Event(at_s=at_s + n / 4, what="submit", asks=(ask,))


def full_log(draw: Random, at_s: float) -> Iterator[Event]:
    """A log that takes a message or a few and then none, while everybody wants to write and some begin anew."""
    seconds = draw.choice((4.0, 12.0, 25.0, 50.0))
    yield from _work(draw, at_s, count=6, every_s=seconds / 6)
    yield from _crowd(draw, at_s - 1.5)
    yield Event(at_s=at_s, what="full", number=draw.choice((0, 10, 30, 100)), seconds=seconds)
    # A recorder that can would make room at once.
    what, who = draw.choice((("crash", "recorder"), ("full_disk", ""), ("freeze", "recorder"), ("look", "")))
    yield Event(at_s=at_s - 0.5, what=what, who=who, seconds=seconds * draw.choice((0.5, 1.2)))
    within = [at_s + draw.random() * seconds for _ in range(3)]
    yield Event(at_s=within[0], what=draw.choice(("crash_leader", "freeze_leader")), who=draw.choice(LED), seconds=8)
    yield Event(at_s=within[1], what=draw.choice(("crash", "restart")), who=draw.choice(BEGINNERS), seconds=2)
    yield Event(
        at_s=within[2], what=draw.choice(("cancel", "limit", "hold", "drain")), number=draw.randrange(99), seconds=5
    )


def full_stores(draw: Random, at_s: float) -> Iterator[Event]:
    """No room for snapshots, leases, or values told in secret, while some begin and leaders die."""
    what, seconds = draw.choice(("full_store", "full_buckets", "full_buckets")), draw.choice((5.0, 15.0, 30.0))
    yield from _work(draw, at_s)
    yield Event(at_s=at_s + 0.3, what="submit", asks=(Ask(secret=True, run_s=4),) * 2)
    yield Event(at_s=at_s, what=what, seconds=seconds, number=draw.randrange(3))
    yield Event(at_s=at_s + draw.uniform(0, 4), what="crash_leader", who=draw.choice(LED), seconds=3)
    yield Event(at_s=at_s + draw.uniform(0, 4), what="restart", who="recorder")


def cut_off_alive(draw: Random, at_s: float) -> Iterator[Event]:
    """An agent that nobody hears for longer than its nodes may be silent, while what runs there does not go."""
    yield from _crowd(draw, at_s - 1.5)
    who, seconds = draw.choice(tuple(FLEETS)), draw.choice(LOST_S)
    # What hangs must hang before the agent is lost: whoever has no bus tells it to stop eighteen seconds later.
    yield Event(at_s=at_s + 2, what=draw.choice(("cut", "swallow", "freeze", "crash")), who=who, seconds=seconds)
    for n in range(3):
        what = draw.choice(("cancel", "hold", "drain", "assign", "submit"))
        asks = (Ask(gpu_milli=4000, priority=3, run_s=5),) if what == "submit" else ()
        at = at_s + 5 + n * draw.uniform(5, 15)
        yield Event(at_s=at, what=what, number=draw.randrange(99), seconds=10, asks=asks)


def spoilt_snapshots(draw: Random, at_s: float) -> Iterator[Event]:
    """Snapshots that are gone, old or broken, and several who begin before there are new ones."""
    yield from _work(draw, at_s, every_s=0.5)
    what = draw.choice(("no_snapshots", "no_snapshots", "old_snapshots", "broken_snapshots"))
    seconds = draw.uniform(3, 10)
    yield Event(at_s=at_s + 6, what=what, seconds=seconds, number=draw.randrange(1000))
    begins_s = at_s + 6.05 + (seconds if what == "old_snapshots" else 0)
    for who in draw.sample(BEGINNERS, 3):
        how = draw.choice(("restart", "crash"))
        yield Event(at_s=begins_s - 0.5 * (how == "restart") + draw.uniform(0, 0.2), what=how, who=who, seconds=0.1)


def slow_readers(draw: Random, at_s: float) -> Iterator[Event]:
    """Whoever decides takes long for each message while many come, and those who stand by as well."""
    yield from _work(draw, at_s, count=16, every_s=0.6)
    for who in draw.sample(WRITERS, 3):
        yield Event(at_s=at_s, what="slow", who=who, seconds=draw.choice((6.0, 20.0, 32.0)))
    yield Event(at_s=at_s + 4, what="two_leaders", who=draw.choice(LED), number=draw.randrange(4))


def failing_gpus(draw: Random, at_s: float) -> Iterator[Event]:
    """GPUs that fail one after the other under what runs on them, stuck processes and gangs among it."""
    yield from _crowd(draw, at_s)
    for n in range(3):
        at = at_s + 4 + n * draw.uniform(0.5, 6)
        yield Event(at_s=at, what="gpu", number=draw.randrange(1000), seconds=draw.choice((8.0, 21.0, 45.0)))


def edits_in_rounds(draw: Random, at_s: float) -> Iterator[Event]:
    """Settings that change while whoever decides about a round hears late of all."""
    for who in ("placement", "placement-2"):
        yield Event(at_s=at_s, what="delay", who=who, number=LATE, seconds=TURN_S / 2)
    yield from _crowd(draw, at_s + 0.5)
    yield from _work(draw, at_s + 1, count=10, every_s=1.3)
    for _ in range(6):
        what = draw.choice(("policy", "policy", "limit", "user_limit", "drain", "assign", "edit", "ordered", "turns"))
        at = at_s + draw.uniform(1, 14)
        yield Event(at_s=at, what=what, number=draw.randrange(1000), seconds=round(draw.uniform(2, 20), 3))


def spoilt_archive(draw: Random, at_s: float) -> Iterator[Event]:
    """A recorder whose disk fills up and whose machine loses power, again and again, while much is told."""
    yield from _work(draw, at_s, count=16, every_s=0.5)
    for n in range(3):
        what = draw.choice(("full_disk", "cut_archive", "nearly_full", "crash_at"))
        who = "recorder" if what == "crash_at" else ""
        at = at_s + 1 + n * draw.uniform(1, 6)
        yield Event(at_s=at, what=what, who=who, number=draw.randrange(1000), seconds=draw.choice((1.0, 6.0, 15.0)))


def lost_power(draw: Random, at_s: float) -> Iterator[Event]:
    """Machines that lose power or flap while what runs on them hangs, and come back before or after they are lost."""
    yield from _crowd(draw, at_s)
    for who in FLEETS:
        what = draw.choice(("power", "flap", "flap", "crash"))
        if what == "crash":
            yield Event(at_s=at_s + 5, what="crash", who=draw.choice(LED), seconds=4)
            continue
        seconds = draw.choice((2.0, 12.0, 35.0))
        yield Event(at_s=at_s + draw.uniform(3, 9), what=what, who=who, seconds=seconds, number=draw.randrange(1000))
    yield Event(at_s=at_s + 12, what="submit", asks=(Ask(gpu_milli=4000, tasks=2, run_s=8), Ask(pool=SECOND_POOL)))


def old_leaders(draw: Random, at_s: float) -> Iterator[Event]:
    """Each writer in turn sleeps through its lease or shares it, while there is something for it to write."""
    yield from _crowd(draw, at_s)
    yield from _work(draw, at_s + 1, count=12)
    for n, who in enumerate(draw.sample(LED, 4)):
        what = draw.choice(("freeze_leader", "freeze_leader", "two_leaders", "crash_leader"))
        seconds = draw.choice((3.5, 6.0, 12.0))
        yield Event(at_s=at_s + 2 + 3 * n, what=what, who=who, number=draw.randrange(1000), seconds=seconds)


KINDS: dict[str, PressedKind] = {
    "a full log": full_log,
    "full stores": full_stores,
    "cut off alive": cut_off_alive,
    "spoilt snapshots": spoilt_snapshots,
    "slow readers": slow_readers,
    "failing GPUs": failing_gpus,
    "edits in rounds": edits_in_rounds,
    "a spoilt archive": spoilt_archive,
    "lost power": lost_power,
    "old leaders": old_leaders,
}
OFTEN = ("a full log", "cut off alive", "full stores", "spoilt snapshots")
"""They are drawn twice as often as the others, and now and then twice in one run."""
