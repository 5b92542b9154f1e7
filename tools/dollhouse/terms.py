"""What half of all runs have from seed 2200000 on: terms that few jobs name, and what administrators keep for some.

Jobs that are told before they are paused, that nobody may send away, that start not before a time, one at a time, or
with members that are placed again; groups that lend and borrow only so much, and more or less by the time of day; nodes
that are closed, or kept for somebody, from one moment to another; sizes that users ask for. Drawn from a source of its
own, so that earlier seeds keep their meaning.
"""

from random import Random

from msgspec.structs import replace

from dollhouse.people import ADMIN, People
from dollhouse.plan import RUN_S, Ask, Event, Plan
from gangline_core.groups import Group
from gangline_core.ids import JobId, NodeId
from gangline_core.limits.calendar import Season
from gangline_core.reserving.windows import Window
from gangline_core.spec import GPU_MILLI
from gangline_wire.requests import RemoveWindow, SetGroup, SetSize, SetWindow

FIRST_SEED, PART = 2_200_000, 0.5
KINDS = ("window", "window", "lend", "season", "resize", "resize")
MOST = 8
MINUTE_MS = 60_000


def termed(plan: Plan) -> Plan:
    """The plan with such terms, or as it is."""
    draw = Random(f"terms {plan.seed}")
    if plan.seed < FIRST_SEED or draw.random() >= PART:
        return plan
    pauses = Random(f"pauses {plan.seed}")
    events = [
        replace(event, asks=tuple(_paused(_termed(ask, draw), pauses) for ask in event.asks)) for event in plan.events
    ]
    for _ in range(draw.randrange(3, MOST)):
        at_s, seconds = round(draw.uniform(0, RUN_S), 3), round(draw.uniform(4, 50), 3)
        events.append(Event(at_s=at_s, what=draw.choice(KINDS), number=draw.randrange(1000), seconds=seconds))
    return replace(plan, events=tuple(sorted(events, key=lambda event: event.at_s)))


def _termed(ask: Ask, draw: Random) -> Ask:
    chance = draw.random()
    if chance < 0.12:
        return replace(ask, firm=True)
    if chance < 0.22:
        return replace(ask, later_s=round(draw.uniform(1, 40), 1))
    if chance < 0.32 and not ask.array:
        return replace(ask, lone=True)
    if chance < 0.5:
        return replace(ask, repair_s=draw.choice((5, 30)))
    return ask


def _paused(ask: Ask, draw: Random) -> Ask:
    """A third of those with GPUs may be paused, and take a while to stand still; some keep memory of their GPUs."""
    if ask.gpu_milli < GPU_MILLI or draw.random() > 1 / 3:
        return ask
    return replace(ask, notice_s=draw.choice((1, 5)), stays_gib=draw.choice((0, 0, 4)))


async def window(people: People, event: Event) -> None:
    """Nodes are closed from some moment to another, or kept for a group; they may be given back before."""
    nodes = sorted(people.town.state.kept.nodes)
    start_ms = people.town.now_ms + (event.number % 20) * 1000
    own = Window(
        name=f"w{event.number}",
        pool="default",
        start_ms=start_ms,
        end_ms=start_ms + round(event.seconds * 1000),
        nodes=() if event.number % 3 == 0 else (NodeId(nodes[event.number % len(nodes)]),),
        groups=("shop",) if event.number % 2 else (),
    )
    await people.ask(SetWindow(window=own, by=ADMIN))
    await people.town.clock.sleep(event.seconds)
    if event.number % 5:
        await people.ask(RemoveWindow(name=own.name, by=ADMIN))


async def lend(people: People, event: Event) -> None:
    """A group keeps part of what it is guaranteed to itself, and another borrows only so much, for a while."""
    number = event.number
    keeper = Group(
        path="lab", guaranteed={"gpu_milli": (2 + number % 6) * 1000}, lend_limit={"gpu_milli": number // 6 % 4 * 1000}
    )
    borrower = Group(
        path="shop",
        guaranteed={"gpu_milli": number // 24 % 4 * 1000},
        borrow_limit={"gpu_milli": (1 + number // 96 % 5) * 1000},
    )
    for group in (keeper, borrower):
        await people.ask(SetGroup(group=group, by=ADMIN))
    await people.town.clock.sleep(event.seconds)
    for group in (keeper, borrower):
        await people.ask(SetGroup(group=Group(path=group.path), by=ADMIN))


async def season(people: People, event: Event) -> None:
    """In the next minutes a group has other limits than its own, which nobody has to set."""
    number, minute = event.number, people.town.now_ms // MINUTE_MS % 1440
    limit = {"gpu_milli": (1 + number // 4 % 8) * 1000}
    soon = Season(
        name="soon",
        start_minute=(minute + 1) % 1440,
        end_minute=(minute + 2) % 1440,
        limit=limit if number % 2 else {},
        user_limit={} if number % 2 else limit,
    )
    await people.ask(SetGroup(group=Group(path=("lab", "shop")[number // 2 % 2], seasons=(soon,)), by=ADMIN))


async def resize(people: People, event: Event) -> None:
    """Somebody asks for a size of a job, or leaves it to the policy again."""
    if people.jobs:
        job = people.jobs[event.number % len(people.jobs)]
        await people.ask(SetSize(job=JobId(job), size=event.number // 7 % 5, by="ann"))
