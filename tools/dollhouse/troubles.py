"""Everything that goes wrong in a dollhouse, each with how it begins and ends: one function per trouble, in a table."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from dollhouse.plan import CLOCKS_S, Event
from dollhouse.town import Town
from dollhouse.world import Process
from gangline_recorder.archive import segments
from gangline_wire.archive import decode_line
from gangline_wire.streams import BUCKETS, LOG, SNAPSHOTS

Trouble = Callable[[Town, Event], Awaitable[None]]

CRASH_WAITS_MOST = 80
TRIP_S_MAX = 60.0
SLOW_S = 0.15
RESTART_S = 0.5
CUT_BYTES_MOST = 6_000


async def crash(town: Town, event: Event) -> None:
    """A process dies without a word and comes back later."""
    if town.process(event.who) is not None:
        town.struck.note("died")
        await town.crash(event.who)
        await town.clock.sleep(event.seconds)
        town.restart(event.who)


async def crash_at(town: Town, event: Event) -> None:
    """A process dies at one of its next waits, between any two things that it does."""
    process = town.process(event.who)
    if process is None:
        return
    process.gate.trip_after(1 + event.number % CRASH_WAITS_MOST)
    for _ in range(int(TRIP_S_MAX / RESTART_S)):
        await town.clock.sleep(RESTART_S)
        if process.gate.tripped.is_set() or town.process(event.who) is not process:
            break
    if town.process(event.who) is process:
        if process.gate.tripped.is_set():
            town.struck.note("died at a wait")
        await town.crash(event.who)
        town.restart(event.who)


async def dies_at(town: Town, event: Event) -> None:
    """A process dies at exactly its n-th wait from now; where nobody is named, at each one, in a copy of this run."""
    if event.who:
        town.doom(event.who, lambda wait: wait == event.number)
        return
    for name in town.processes:
        town.doom(name, partial(town.dies, name))


async def restart(town: Town, event: Event) -> None:
    """A process ends cleanly and begins again at once, as in a rolling upgrade."""
    if town.process(event.who) is not None:
        await town.stop(event.who)
        await town.clock.sleep(RESTART_S)
        town.restart(event.who)


async def freeze(town: Town, event: Event) -> None:
    """A process stands still for a while."""
    process = town.process(event.who)
    if process is not None:
        stood = process.gate.stood
        process.gate.freeze()
        await town.clock.sleep(event.seconds)
        if process.gate.stood > stood:
            town.struck.note("stood still")
        process.gate.thaw()


async def _connection(town: Town, event: Event, begin: Callable[[Process], None]) -> None:
    process = town.process(event.who)
    if process is not None:
        begin(process)
        await town.clock.sleep(event.seconds)
        process.bus.connection.heal()


async def cut(town: Town, event: Event) -> None:
    """A process loses the bus and knows it."""
    await _connection(town, event, lambda process: process.bus.connection.cut())


async def swallow(town: Town, event: Event) -> None:
    """A process loses the bus and does not know it."""
    await _connection(town, event, lambda process: process.bus.connection.swallow())


async def delay(town: Town, event: Event) -> None:
    """Everything between a process and the bus takes longer."""

    def begin(process: Process) -> None:
        process.bus.connection.delay_s = 0.01 + (event.number % 60) / 100

    await _connection(town, event, begin)


async def slow(town: Town, event: Event) -> None:
    """A process takes long for every message of the log."""

    def begin(process: Process) -> None:
        process.bus.connection.slow_s = SLOW_S

    await _connection(town, event, begin)


async def refuse(town: Town, event: Event) -> None:
    """Nothing that a process wants stored is stored; all else works."""

    def begin(process: Process) -> None:
        process.bus.connection.stores_refuse = True

    await _connection(town, event, begin)


async def clock(town: Town, event: Event) -> None:
    """Somebody sets the wall clock of a process's machine, and sets it right again."""
    process = town.process(event.who)
    if process is not None:
        asked = process.clock.asked_wrong
        process.clock.offset_ms = CLOCKS_S[event.number % len(CLOCKS_S)] * 1000
        await town.clock.sleep(event.seconds)
        if process.clock.asked_wrong > asked:
            town.struck.note("wrong clock")
        process.clock.set_right()


async def wrong_start(town: Town, event: Event) -> None:
    """A process begins anew on a machine whose clock is wrong."""
    if town.process(event.who) is not None:
        await town.crash(event.who)
        town.restart(event.who, clock_s=CLOCKS_S[event.number % len(CLOCKS_S)])
        # Whoever begins asks for the time first of all.
        town.struck.note("wrong clock")


async def freeze_leader(town: Town, event: Event) -> None:
    """Whoever leads stands still for longer than its lease lasts, and wakes up as an old leader."""
    leader = town.holder_of(event.who)
    await freeze(town, replace(event, who=leader))
    if leader and town.process(leader) is not None and town.holder_of(event.who) not in ("", leader):
        town.struck.note("old leader")


async def crash_leader(town: Town, event: Event) -> None:
    """Whoever leads dies."""
    leader = town.holder_of(event.who)
    if leader:
        town.struck.note("leader killed")
    await crash(town, replace(event, who=leader))


async def two_leaders(town: Town, event: Event) -> None:
    """The server forgets the lease: another one leads, and the first does not know."""
    for _ in range(1 + event.number % 4):
        first = town.holder_of(event.who)
        town.expire_leases(event.who)
        await town.clock.sleep(RESTART_S)
        if first and town.process(first) is not None and town.holder_of(event.who) not in ("", first):
            town.struck.note("two leaders")


async def flap(town: Town, event: Event) -> None:
    """A process loses the bus again and again."""
    felt = 0
    for turn in range(2 + event.number % 6):
        process = town.process(event.who)
        if process is None:
            return
        before = town.struck["cut off"] + town.struck["swallowed"]
        (process.bus.connection.swallow if turn % 2 else process.bus.connection.cut)()
        await town.clock.sleep(event.seconds / 4)
        felt += town.struck["cut off"] + town.struck["swallowed"] > before
        process.bus.connection.heal()
        await town.clock.sleep(event.seconds / 8)
    if felt > 1 and event.who in town.racks:
        town.struck.note("flapped")


async def power(town: Town, event: Event) -> None:
    """The machines of an agent lose power, and their agent with them."""
    if town.process(event.who) is not None:
        await town.crash(event.who)
        if town.working_nodes(event.who):
            town.struck.note("power lost")
        town.racks[event.who].machines.power_off()
        await town.clock.sleep(event.seconds)
        town.restart(event.who)


async def reap(town: Town, event: Event) -> None:
    """Again and again something ends the supervisors of all that runs on an agent's machines; its agent lives on."""
    rack = town.racks.get(event.who)
    for _ in range(event.number if rack is not None else 0):
        await town.clock.sleep(event.seconds)
        if rack is not None and rack.machines.reap():
            town.struck.note("supervisors ended")


async def gpu(town: Town, event: Event) -> None:
    """A GPU fails and is well again later."""
    rack = town.racks[sorted(town.racks)[event.number % len(town.racks)]]
    nodes = rack.driver.described
    node = nodes[event.number // 2 % len(nodes)]
    key = (str(node.id), event.number // 4 % len(node.gpus))
    rack.driver.sick[key] = "fell off the bus"
    await town.clock.sleep(event.seconds)
    rack.driver.sick.pop(key, None)


async def full(town: Town, event: Event) -> None:
    """The log takes a little more and then nothing."""
    log = town.server.streams[LOG.name]
    log.settings = replace(LOG, bytes_max=log.bytes + 20 * event.number)
    await town.clock.sleep(event.seconds)
    log.settings = LOG


async def nearly_full(town: Town, event: Event) -> None:
    """The log is fuller than it may be for a while, so that it keeps no more than it must."""
    log = town.server.streams[LOG.name]
    log.settings = replace(LOG, bytes_max=2 * log.bytes)
    await town.clock.sleep(event.seconds)
    log.settings = LOG


async def full_store(town: Town, event: Event) -> None:
    """No further snapshot finds room."""
    town.server.full_stores[SNAPSHOTS] = None
    await town.clock.sleep(event.seconds)
    town.server.full_stores.clear()


async def full_buckets(town: Town, event: Event) -> None:
    """No further lease finds room, or no further secret, or neither."""
    for turn, bucket in enumerate(BUCKETS):
        if event.number % 3 != turn:
            stored = town.server.buckets[bucket.name]
            stored.change(replace(bucket, bytes_max=stored.stream.bytes))
    await town.clock.sleep(event.seconds)
    _make_room(town)


def _make_room(town: Town) -> None:
    for bucket in BUCKETS:
        town.server.buckets[bucket.name].change(bucket)


async def no_snapshots(town: Town, event: Event) -> None:
    """All snapshots are gone."""
    town.had_snapshots |= bool(town.server.objects)
    town.server.objects.clear()


async def old_snapshots(town: Town, event: Event) -> None:
    """What is there now is all there is for a while, whatever is stored meanwhile."""
    kept = dict(town.server.objects)
    await town.clock.sleep(event.seconds)
    town.bad_snapshots |= kept.keys() if kept.keys() != town.server.objects.keys() else set()
    town.server.objects.clear()
    town.server.objects.update(kept)


async def broken_snapshots(town: Town, event: Event) -> None:
    """Every snapshot loses its end."""
    for name, data in town.server.objects.items():
        town.server.objects[name] = data[: len(data) * (event.number % 100) // 100]
        town.bad_snapshots.add(name)


async def full_disk(town: Town, event: Event) -> None:
    """The archive's disk is full for a while."""
    town.disk.is_full = True
    await town.clock.sleep(event.seconds)
    town.disk.is_full = False


async def cut_archive(town: Town, event: Event) -> None:
    """The recorder's machine loses power: the unsynced end of its archive is gone."""
    if town.process("recorder") is None:
        return
    await town.crash("recorder")
    newest = segments(town.archive)[-1:] if town.archive.exists() else []
    for path in newest:
        size, least = path.stat().st_size, _synced_bytes(town, path)
        with path.open("rb+") as file:
            file.truncate(max(least, size - event.number * CUT_BYTES_MOST // 1000))
        if path.stat().st_size < size:
            town.struck.note("archive cut")
    await town.clock.sleep(event.seconds)
    town.restart("recorder")


def _synced_bytes(town: Town, path: Path) -> int:
    """What of a segment is on disk for good: the log drops nothing of which that does not hold."""
    dropped, safe = town.server.streams[LOG.name].dropped_until, 0
    for raw in path.read_bytes().splitlines(keepends=True):
        if not raw.endswith(b"\n") or decode_line(raw).seq > dropped:
            break
        safe += len(raw)
    return safe


TROUBLES: dict[str, Trouble] = {
    "crash": crash,
    "crash_at": crash_at,
    "dies_at": dies_at,
    "restart": restart,
    "freeze": freeze,
    "cut": cut,
    "swallow": swallow,
    "delay": delay,
    "slow": slow,
    "refuse": refuse,
    "clock": clock,
    "wrong_start": wrong_start,
    "freeze_leader": freeze_leader,
    "crash_leader": crash_leader,
    "two_leaders": two_leaders,
    "flap": flap,
    "power": power,
    "reap": reap,
    "gpu": gpu,
    "full": full,
    "nearly_full": nearly_full,
    "full_store": full_store,
    "full_buckets": full_buckets,
    "no_snapshots": no_snapshots,
    "old_snapshots": old_snapshots,
    "broken_snapshots": broken_snapshots,
    "full_disk": full_disk,
    "cut_archive": cut_archive,
}
"""What an event says -> what happens."""


def heal_all(town: Town) -> None:
    """Whatever still goes wrong goes wrong no more."""
    town.disk.is_full = False
    town.server.streams[LOG.name].settings = LOG
    town.server.full_stores.clear()
    _make_room(town)
    for rack in town.racks.values():
        rack.driver.sick.clear()
    for process in town.processes.values():
        process.gate.thaw()
        process.clock.set_right()
        process.bus.connection.heal()
