"""One run from a plan: things happen, everything is healed, and then nothing may be lost, doubled, or left behind."""

import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web_app
from msgspec import Struct

from dollhouse.acts import ACTS
from dollhouse.asks import PLANTED
from dollhouse.loop import live
from dollhouse.people import People
from dollhouse.plan import FLEETS, Event, Plan
from dollhouse.replayed import replay_fault
from dollhouse.rooms import watched
from dollhouse.town import Town
from dollhouse.troubles import TROUBLES, heal_all
from gangline_core import cycle
from gangline_core.facts import LeadershipTaken, RoundOpened
from gangline_core.fold import Message, apply
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_kit.errors import flat
from gangline_kit.follower import as_message
from gangline_kit.tasks import Tasks
from gangline_recorder.archive import lines
from gangline_recorder.events import public_events
from gangline_wire import codec
from gangline_wire.lanes import kind_of
from gangline_wire.requests import EventLine
from gangline_wire.streams import EVENTS, LOG, SECRETS

EVENT_S_MAX = 1500.0
"""No single thing that happens takes longer."""
QUIET_S = 40.0
CALM_S_MAX = 900.0
END_S_MAX = 3000.0
POLL_S = 1.0
ARCHIVE_POLLS_MAX = 5
DECIDING = ("queue", "placement", "scheduler", "elastic")
MEMORY = Path("/dev/shm")
"""Where files cost nothing to sync, on machines that have it: power is cut by `troubles`, not by the disk."""

Dies = Callable[[str, int], bool]
"""Name of a process and which of its waits it has come to -> whether it dies there."""


class Outcome(Struct, frozen=True):
    """What became of a run: what is wrong, or nothing, and how much happened."""

    faults: tuple[str, ...] = ()
    jobs: int = 0
    messages: int = 0
    evictions: int = 0
    seconds: float = 0.0
    """Virtual ones."""
    dropped: int = 0
    """Messages up to this one were dropped from the log."""
    cut_off: int = 0
    """Processes that had fallen behind that, and began anew."""
    met: dict[str, int] = {}
    """Rule -> how often it had something to say."""
    waits: dict[str, int] = {}
    """How often each process waited for something outside until the last job had ended; of those that never died."""
    struck: dict[str, int] = {}
    """What went wrong and made a difference, how often; see `struck`."""

    @property
    def kind(self) -> str:
        """What kind of fault it is, numbers and names left out: a shrunk run must fail in the same way."""
        first = self.faults[0] if self.faults else ""
        head = first.partition(": ")[2] if first.startswith(("message ", "at ")) else first
        return " ".join(word for word in head.split()[:6] if not any(letter.isdigit() for letter in word))


def play(plan: Plan) -> Outcome:
    """Run a plan to its end."""
    with room() as folder:
        return play_in(folder, plan)


@contextmanager
def room() -> Iterator[Path]:
    """A folder for the files of runs, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="dollhouse-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


def play_in(folder: Path, plan: Plan, dies: Dies | None = None) -> Outcome:
    """Run a plan to its end with files in this folder; `dies` is asked at each wait if whoever waits dies there."""
    # aiohttp remembers every application for ever, and each of ours leads to a whole town.
    forget = getattr(web_app._build_middlewares, "cache_clear", None)
    if forget is not None:
        forget()
    return live(_play(plan, folder, dies))


async def _play(plan: Plan, folder: Path, dies: Dies | None) -> Outcome:
    town = Town(folder, rates=plan.rates, seed=plan.seed, log_keep_s=plan.log_keep_s)
    if dies is not None:
        town.dies = dies
    people, waits = People(town), Counter[str]()
    try:
        async with town:
            with watched(town.note_fault):
                await _story(town, people, plan, waits)
    except Exception as error:  # noqa: BLE001 - whatever ends a run is what the run was for
        if not town.faults:
            for each in flat(error) if isinstance(error, BaseExceptionGroup) else (error,):
                town.note_fault(f"{type(each).__name__}: {each} ({_place_of(each)})"[:1000])
    return Outcome(
        faults=tuple(town.faults),
        jobs=len(people.jobs),
        messages=town.state.kept.seq,
        evictions=town.history.evictions,
        seconds=town.clock.monotonic_s(),
        dropped=town.server.streams[LOG.name].dropped_until,
        cut_off=town.cut_off,
        met=dict(sorted(town.rules.met.items())),
        waits=dict(waits),
        struck=_struck(town),
    )


def _struck(town: Town) -> dict[str, int]:
    """All notes, and what the server, the disk and the machines counted by themselves."""
    streams = town.server.streams
    own = {
        "full": sum(stream.refused for stream in streams.values()),
        "bucket full": sum(bucket.stream.refused for bucket in town.server.buckets.values()),
        "log cut": int(streams[LOG.name].dropped_until > 0),
        "disk full": town.disk.refused,
        "undead": town.ledger.outlived,
    }
    return {what: count for what, count in sorted({**town.struck, **own}.items()) if count}


def _place_of(error: BaseException) -> str:
    """Where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in last)


async def _story(town: Town, people: People, plan: Plan, waits: Counter[str]) -> None:
    town.ledger.saves = plan.saves
    await town.begin(FLEETS, copies=plan.copies, doors=plan.doors, cut=plan.cut, models=plan.models)
    await people.settle_in(by_http=plan.doors > 0)
    waits.subtract({name: process.gate.waits for name, process in town.processes.items()})
    happening = Tasks(town.note_failure)
    began_s = town.clock.monotonic_s()
    try:
        for event in plan.events:
            await town.clock.sleep(max(0.0, began_s + event.at_s - town.clock.monotonic_s()))
            town.check()
            happening.spawn(_happen(town, people, event), name=event.what)
        await _until(town, lambda: not len(happening), EVENT_S_MAX, "something never ends")
    finally:
        await happening.close()
    heal_all(town)
    await _calm_down(town)
    _look_at_truth(town)
    # Who is told to stop by a hold is held only when its processes, stuck ones too, have ended.
    await _until(town, lambda: not people.stopping(), CALM_S_MAX, "jobs never stop", people)
    await people.lift_all()
    await _until(town, lambda: not people.unfinished(), END_S_MAX, "jobs never end", people)
    waits.update({name: process.gate.waits for name, process in town.processes.items()})
    town.spare()
    if doubled := people.unasked():
        town.note_fault(f"nobody was told of jobs {doubled}")
    kept = town.state.kept
    await _until(town, lambda: not kept.tasks and not kept.uncharged, CALM_S_MAX, "rooms stay taken")
    await _calm_down(town)
    await _archived(town)
    _look_at_the_end(town)
    town.check()


async def _happen(town: Town, people: People, event: Event) -> None:
    if event.what in ACTS:
        await ACTS[event.what](people, event)
    else:
        await TROUBLES[event.what](town, event)


async def _until(
    town: Town, claim: Callable[[], bool], within_s: float, what: str, people: People | None = None
) -> None:
    """The claim comes to hold in this time, which begins anew with every process that ends by itself and saved work.

    Whose nodes stay closed for long after each failure needs that for each of its retries.
    """
    deadline_s, came = town.clock.monotonic_s() + within_s, _came_on(town)
    while not claim():
        town.check()
        if _came_on(town) != came:
            deadline_s, came = town.clock.monotonic_s() + within_s, _came_on(town)
        if town.clock.monotonic_s() > deadline_s:
            jobs = [] if people is None else people.unfinished()
            states = {job: people.state_of(job).value for job in jobs} if people is not None else {}
            raise AssertionError(f"{what}: {states}")
        await town.clock.sleep(POLL_S)


def _came_on(town: Town) -> tuple[int, int]:
    """How many processes ended by themselves, and how many whole seconds of work are saved: both only grow."""
    return town.rules.own_exits, int(sum(town.ledger.done_s.values()))


async def _calm_down(town: Town) -> None:
    """Without anything happening outside, decisions end; a process that ends by itself is such a thing.

    Processes end by themselves as often as their jobs are retried, and no more often, and nobody saves more work than
    it has, so this ends.
    """
    deadline_s = town.clock.monotonic_s() + CALM_S_MAX
    quiet_since_s, seen, came = town.clock.monotonic_s(), town.state.kept.seq, _came_on(town)
    while town.clock.monotonic_s() - quiet_since_s < QUIET_S:
        town.check()
        await town.clock.sleep(POLL_S)
        if _came_on(town) != came:
            deadline_s, came = town.clock.monotonic_s() + CALM_S_MAX, _came_on(town)
        if _stirred(town, seen):
            quiet_since_s = town.clock.monotonic_s()
        seen = town.state.kept.seq
        if town.clock.monotonic_s() > deadline_s:
            raise AssertionError("decisions never end though nothing happens outside")


async def _archived(town: Town) -> None:
    """What nobody caused, such as a summary of the minute, may have come a moment ago: the recorder has time for it."""
    for _ in range(ARCHIVE_POLLS_MAX):
        if sum(1 for _ in lines(town.archive)) == len(town.server.streams[LOG.name].ever):
            return
        await town.clock.sleep(POLL_S)


def _stirred(town: Town, since: int) -> bool:
    """Whoever takes a lane anew, because the bus lost its renewals, decides nothing by that."""
    messages = [as_message(each) for each in town.server.streams[LOG.name].ever[since:]]
    said = [each for each in messages if not all(isinstance(fact, LeadershipTaken) for fact in each.facts)]
    return any(kind_of(each.lane) in (*DECIDING, "agent") for each in said)


def _look_at_truth(town: Town) -> None:
    """At rest, one more round would change nothing: whoever waits, waits for the reason that is told."""
    state = decode_snapshot(encode_snapshot(town.state))
    for pool in sorted(state.kept.pools):
        for job in state.waiting.get(pool, {}):
            if state.kept.jobs[job].reason is None:
                town.note_fault(f"job {job} waits and is told nothing")
        told = {job: state.kept.jobs[job].reason for job in state.waiting.get(pool, {})}
        opened = cycle.open_round(state, pool, state.kept.at)
        if opened is None:
            continue
        for kept_out in opened.kept_out:
            for job in kept_out.jobs:
                before = told.get(job)
                if before is None or before.code != kept_out.reason.code:
                    town.note_fault(f"job {job} is told {before} though {kept_out.reason} keeps it out")
        if opened.given_up:
            town.note_fault(f"jobs {opened.given_up} wait though they never can run")
        _tell_round(town, state, pool, opened)


def _tell_round(town: Town, state: State, pool: str, opened: RoundOpened) -> None:
    seq = state.kept.seq + 1
    lane = f"queue.{pool}"
    epoch = state.kept.epochs.get(lane, 0)
    apply(state, Message(seq=seq, lane=lane, epoch=epoch, at=state.kept.at, facts=(opened,), raw=b"{}"))
    told = {job: state.kept.jobs[job].reason for job in state.waiting.get(pool, {})}
    decided = cycle.decide_round(state, pool, state.kept.at)
    started = [placement.job for placement in decided.placements]
    if started:
        town.note_fault(f"jobs {started} could start and were told {[told[job] for job in started]}")
    # Who only waits for what stops anyway asks nothing new of anybody.
    stopping = {name for name, task in state.kept.tasks.items() if task.stop}
    if decided.evictions or decided.shrinks or any(not stopping.issuperset(claim.victims) for claim in decided.claims):
        town.note_fault(f"at rest, one more round evicts {decided.evictions} for {decided.claims}")
    for refusal in decided.refusals:
        for job in refusal.jobs:
            before = told.get(job)
            if before is None or (before.code != refusal.reason.code and not _fits_no_more(before, refusal.reason)):
                town.note_fault(f"job {job} is told {before}, but one more round says {refusal.reason}")


def _fits_no_more(before: Reason, now: Reason) -> bool:
    """True for who lacks room, and would by now not end before a date either: nothing but time made that so."""
    return before.code in ROOM_CODES and now.code == ReasonCode.LIMIT_KEPT and int(now.numbers["fits_s"]) > 0


def _look_at_the_end(town: Town) -> None:
    """Everything has ended: all rooms are free, all is paid for, told and archived once, and the log replays."""
    state = town.state
    if any(state.usage.values()):
        town.note_fault(f"everything has ended and {state.usage} is used")
    if town.ledger.tasks:
        town.note_fault(f"everything has ended and {sorted(town.ledger.tasks)} live on")
    if state.kept.claims:
        town.note_fault(f"everything has ended and room is kept for {sorted(state.kept.claims)}")
    charged = state.kept.charged.get("", 0)
    if charged != town.history.used_milli_ms:
        town.note_fault(f"{charged} was charged, {town.history.used_milli_ms} was used")
    used = {path: amount for path, amount in town.rules.used.items() if amount}
    if used != {path: amount for path, amount in state.kept.charged.items() if amount}:
        town.note_fault(f"{state.kept.charged} was charged, {used} was used")
    town.look_closely()
    log = town.server.streams[LOG.name].ever
    fault = replay_fault(log, state)
    if fault:
        town.note_fault(fault)
    if [line.raw for line in lines(town.archive)] != [message.data for message in log]:
        town.note_fault("the archive is not the log")
    _look_at_feed(town)
    _look_for_secrets(town)


def _look_for_secrets(town: Town) -> None:
    """What was told in secret is nowhere: neither kept when its job has ended nor told to anybody."""
    left = town.server.buckets[SECRETS.name].held()
    if left:
        town.note_fault(f"everything has ended and secrets of {left} are kept")
    planted = PLANTED.encode()
    told = {name: b"".join(each.data for each in stream.ever) for name, stream in town.server.streams.items()}
    told |= {f"snapshot {name}": data for name, data in town.server.objects.items()}
    told |= {path.name: path.read_bytes() for path in sorted(town.archive.rglob("*")) if path.is_file()}
    for name, data in told.items():
        if planted in data:
            town.note_fault(f"{name} tells a secret")


def _look_at_feed(town: Town) -> None:
    """Every public event once, whatever became of the recorder."""
    state = State()
    owed: list[str] = []
    for stored in town.server.streams[LOG.name].ever:
        message = as_message(stored)
        step = apply(state, message)
        owed += [event.id for event in public_events(state, message, step)]
    told = Counter(codec.decode(each.data, EventLine).id for each in town.server.streams[EVENTS.name].ever)
    missing = [event for event in owed if event not in told]
    twice = sorted(event for event, count in told.items() if count > 1)
    if missing:
        town.note_fault(f"public events are missing: {missing[:10]}")
    if twice:
        town.note_fault(f"public events were told twice: {twice[:10]}")
