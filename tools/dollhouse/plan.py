"""What happens in one run, as data: drawn from a seed, shrunk, printed as a story, kept as a regression test."""

from random import Random

import msgspec
from msgspec import Struct

from dollhouse.connection import Rates

FLEETS = {"east": {"e1": 4, "e2": 4}, "west": {"w1": 4, "w2": 2}}
"""Agent -> node -> GPUs."""
LED = ("admission", "queue", "placement", "elastic", "telemetry", "accounting")
"""Services of which one copy leads and another may stand by, which is called so with "-2"."""
SERVICES = (*LED, "recorder", "gateway")
COPIED = (*LED, "gateway")
RUN_S = 150.0
"""Things happen within so many seconds."""
EVENTS_MOST = 46
SECOND_POOL = "west"
LATE = 59
"""What makes a delay of 0.6 s; see `troubles.delay`."""
MODEL, OTHER_MODEL = "V100", "H100"
"""The model of GPUs, and the second one where there are two."""
CLOCKS_S = (-3600, -60, -5, 5, 60, 3600)


class Ask(Struct, frozen=True, omit_defaults=True):
    """A job that arrives; times in seconds."""

    gpu_milli: int = 1000
    tasks: int = 1
    least: int = 0
    """Fewest tasks of an elastic job; 0 when it is not elastic."""
    most: int = 0
    run_s: float = 10
    code: int = 0
    start_s: float = 0
    stop_s: float = 0
    stuck_s: float = 0
    grace_s: int = 10
    limit_s: int = 0
    protected_s: int = 0
    group: str = "lab"
    user: str = "ann"
    priority: int = 0
    retries: int = 0
    service_class: str = "burstable"
    topology: str = ""
    hold: bool = False
    after: bool = False
    """Only when the job before it has ended."""
    pool: str = ""
    """In another pool than the usual one; refused while there is none of this name."""
    array: int = 0
    """So many equal jobs in one; 0 when it is a single one."""
    at_most: int = 0
    """How many of them at once; 0 is all."""
    mig: str = ""
    """A slice of a card that is cut, in place of whole ones or shares."""
    secret: bool = False
    """With a value that nobody else may ever see."""
    saves: bool = False
    """Told to stop it saves its work, and goes on from there."""
    due_s: float = 0
    """Of no use so long after it arrived; 0 is never."""
    wants: str = ""
    """With `after`, how the job before it must have ended; "" is well."""
    tells_ms: int = 0
    """One task with whole GPUs that says how much of their memory it uses, and what each step takes; 0 does neither."""
    stages: int = 0
    """Which of `asks.STAGES` it says that its iterations have, and how much of the memory it uses; 0 says neither."""
    most_gib: int = 0
    """With `stages`, how much of each GPU's memory it uses at most, in GiB; 0 is as much as lets two share it."""
    told_s: int = 0
    """How long it says that it runs; 0 says nothing."""
    speed: float = 0
    """So many times as fast it says that it is on the other model of GPUs; 0 says nothing."""
    firm: bool = False
    """Nobody may send it away for its priority."""
    later_s: float = 0
    """It starts no earlier than so long after it arrived."""
    lone: bool = False
    """One at a time of its user and name."""
    repair_s: int = 0
    """So long a lost member may be placed again while the others run on."""
    notice_s: int = 0
    """It may be paused, and is told so long before it stands still; what it keeps in memory then is `stays_gib`."""
    stays_gib: int = 0


class Event(Struct, frozen=True, omit_defaults=True):
    """One thing that happens: when, what, to whom, for how long; `number` is what the kind of event makes of it."""

    at_s: float
    what: str
    who: str = ""
    seconds: float = 0
    number: int = 0
    asks: tuple[Ask, ...] = ()


class Plan(Struct, frozen=True, omit_defaults=True):
    """One whole run."""

    seed: int
    events: tuple[Event, ...]
    rates: Rates = Rates()
    copies: int = 2
    doors: int = 0
    """Gateways through which people ask; 0: they ask admission themselves."""
    log_keep_s: float = 0
    """The log drops what is older; 0: nothing."""
    cut: int = 0
    """So many cards of one node are cut into slices."""
    saves: bool = False
    """Who says that it saves its work goes on where it stopped; in earlier plans all begin anew."""
    models: int = 1
    """Of so many models are the GPUs; the last agent's are of the second."""


ON_SERVICES = (
    "crash",
    "crash_at",
    "restart",
    "freeze",
    "cut",
    "swallow",
    "delay",
    "slow",
    "refuse",
    "clock",
    "wrong_start",
)
ON_AGENTS = (*ON_SERVICES, "flap", "power")
ON_PEOPLE = ("look", "look", "again")
ON_LEADERS = ("freeze_leader", "two_leaders", "crash_leader")
ON_HOUSE = ("full", "nearly_full", "no_snapshots", "old_snapshots", "broken_snapshots", "cut_archive", "full_disk")
ON_SETTINGS = ("limit", "user_limit", "policy", "drain", "assign", "gpu")
ON_JOBS = ("cancel", "hold", "release")


def draw_usual(seed: int) -> Plan:
    """What is in every run of this seed; see `wider.draw_plan` for the whole."""
    draw = Random(seed)
    count = draw.randrange(6, EVENTS_MOST)
    events = sorted((_event(draw) for _ in range(count)), key=lambda event: event.at_s)
    return Plan(
        seed=seed,
        events=tuple(events),
        rates=_rates(draw),
        copies=draw.choice((1, 2, 2)),
        doors=draw.choice((1, 1, 2)),
        log_keep_s=draw.choice((0, 10, 60)),
    )


def _rates(draw: Random) -> Rates:
    """Half of all runs have a bus that loses nothing by itself."""
    if draw.random() < 0.5:
        return Rates()
    return Rates(
        jitter_s=draw.choice((0.0, 0.003, 0.05)),
        answers_lost=draw.choice((0.0, 0.002, 0.01)),
        refused=draw.choice((0.0, 0.005, 0.03)),
        doubled=draw.choice((0.0, 0.05, 0.3)),
        undecided=draw.choice((0.0, 0.002, 0.02)),
    )


def _event(draw: Random) -> Event:
    at_s = round(draw.uniform(0, RUN_S), 3)
    chance = draw.random()
    if chance < 0.38:
        asks = tuple(_ask(draw) for _ in range(draw.choice((1, 2, 3, 5))))
        return Event(at_s=at_s, what="submit", number=draw.randrange(40), asks=asks)
    if chance < 0.42:
        return Event(at_s=at_s, what=draw.choice(ON_PEOPLE), number=draw.randrange(1000))
    if chance < 0.52:
        return Event(at_s=at_s, what=draw.choice(ON_JOBS), number=draw.randrange(1000))
    seconds = round(draw.choice((0.3, 1.2, 3.5, 8, 21, 32, 45)) * draw.uniform(0.8, 1.2), 3)
    number = draw.randrange(1000)
    if chance < 0.66:
        what, who = draw.choice(ON_SERVICES), _service(draw)
    elif chance < 0.80:
        what, who = draw.choice(ON_AGENTS), draw.choice(tuple(FLEETS))
    elif chance < 0.88:
        what, who = draw.choice(ON_LEADERS), draw.choice(LED)
    elif chance < 0.93:
        what, who = draw.choice(ON_HOUSE), ""
    else:
        what, who = draw.choice(ON_SETTINGS), ""
    return Event(at_s=at_s, what=what, who=who, seconds=seconds, number=number)


def _service(draw: Random) -> str:
    name = draw.choice(SERVICES)
    return f"{name}-2" if name in COPIED and draw.random() < 0.4 else name


def _ask(draw: Random) -> Ask:
    gpu_milli = draw.choice((1000, 1000, 2000, 4000, 4000, 500, 250, 0))
    tasks = draw.choice((1, 1, 1, 2, 3))
    is_elastic = draw.random() < 0.2
    return Ask(
        gpu_milli=gpu_milli,
        tasks=2 if is_elastic else tasks,
        least=1 if is_elastic else 0,
        most=draw.choice((3, 4)) if is_elastic else 0,
        run_s=round(draw.choice((0, 2, 8, 20, 60, 60, 90)) * draw.uniform(0.7, 1.3), 2),
        code=draw.choice((0, 0, 0, 0, 1)),
        start_s=draw.choice((0, 0, 0, 1.5)),
        stop_s=draw.choice((0, 0, 0, 3, 10)),
        stuck_s=draw.choice((0, 0, 0, 0, 0, 25, 70)),
        grace_s=draw.choice((0, 10, 10, 30)),
        limit_s=draw.choice((0, 0, 0, 15)),
        protected_s=draw.choice((0, 0, 20)),
        group=draw.choice(("lab", "lab", "lab/x", "shop")),
        priority=draw.choice((0, 0, 1, 2, 3, -1)),
        retries=draw.choice((0, 1, 2)),
        service_class=draw.choice(("burstable", "burstable", "guaranteed", "opportunistic")),
        topology=draw.choice(("", "", "", "node", "rack")),
        hold=draw.random() < 0.05,
        after=draw.random() < 0.08,
        pool=SECOND_POOL if draw.random() < 0.06 else "",
    )


def encode_plan(plan: Plan) -> bytes:
    """A plan as a file."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"


def decode_plan(data: bytes) -> Plan:
    """The plan in a file."""
    return msgspec.json.decode(data, type=Plan)


def tell(plan: Plan) -> str:
    """The plan as a story for people, one line per event."""
    doors = f", {plan.doors} gateways" if plan.doors else ""
    kept = f", {plan.cut} cards are cut" if plan.cut else ""
    kept += ", work is saved" if plan.saves else ""
    kept += f", the log keeps {plan.log_keep_s:g} s" if plan.log_keep_s else ""
    lines = [f"seed {plan.seed}, {plan.copies} copies of each service{doors}{kept}{_rates_told(plan.rates)}"]
    lines += [f"  {event.at_s:8.3f} s  {_told(event)}" for event in plan.events]
    return "\n".join(lines)


def _rates_told(rates: Rates) -> str:
    told = [f"{name} {value:g}" for name, value in msgspec.structs.asdict(rates).items() if value]
    return f", with {', '.join(told)}" if told else ""


def _told(event: Event) -> str:
    parts = [event.what, event.who] if event.who else [event.what]
    if event.seconds:
        parts.append(f"for {event.seconds:g} s")
    if event.number:
        parts.append(f"(number {event.number})")
    for ask in event.asks:
        said = ", ".join(f"{key} {value}" for key, value in msgspec.to_builtins(ask).items())
        parts.append(f"\n              job: {said or 'one GPU for 10 s'}")
    return " ".join(parts)
