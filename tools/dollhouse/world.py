"""A dollhouse: services as "processes" of one event loop, each with its own connection and fold; any may crash.

A witness folds along, and after every message everything that must be true is looked at (`invariants`, `history`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from random import Random
from typing import Any, cast

from dollhouse.bus import MemoryBus
from dollhouse.clock import LoopClock
from dollhouse.connection import Gate, Rates
from dollhouse.digests import Digest, SameForAll
from dollhouse.history import History
from dollhouse.invariants import faults_of, indexes_follow_from_what_is_kept
from dollhouse.rules import Rules
from dollhouse.server import MemoryServer
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.spec import JobSpec
from gangline_core.state import State, encode_snapshot
from gangline_core.step import Step
from gangline_kit.bus import Bus
from gangline_kit.bus.tail import LogMessage
from gangline_kit.config import KitConfig
from gangline_kit.errors import LogCutError, TemporaryError, flat
from gangline_kit.follower import Follower
from gangline_kit.ids import CountedIds
from gangline_kit.metrics import Metrics
from gangline_kit.service import Before, Site, agree_on_time
from gangline_kit.tasks import Tasks
from gangline_kit.tracing import Tracing
from gangline_wire import subjects
from gangline_wire.codec import decode, encode
from gangline_wire.requests import Admitted, Reply, Request, SubmitJobs
from gangline_wire.stored import message
from gangline_wire.streams import BUCKETS, LOG, STREAMS

Run = Callable[[Site, Any], Awaitable[None]]

ASK_RETRY_S = 0.3
DEAR_EVERY = 50
"""What is dear to look at is looked at after every so many messages."""
FAULTS_KEPT = 20
FOUND_DEAD_S = 0.5
"""How long whoever stands still at its last wait does so before it is ended and started again."""
MESSAGES_KEPT = 1024


class Process:
    """One running copy of a service."""

    def __init__(self, name: str, run: Run, config: Any, *, world: "World", copy: int) -> None:
        """Not started yet; `config` is the service's own settings type."""
        self.name = name
        self.run = run
        self.config = config
        self.gate = Gate()
        clock = self.clock = LoopClock(self.gate)
        self.bus = MemoryBus(world.server, clock, self.gate, name=f"{name}-{copy}", rates=world.rates)
        # The memory bus has the words of the real one, which is a class and not a protocol.
        bus = cast("Bus", self.bus)
        self.before = world.before.get(name)
        self.tasks = Tasks(world.note_failure)
        self.site = Site(
            name=name,
            instance=f"{name}-{copy}",
            bus=bus,
            follower=Follower(bus, clock, read=world.read, failed=lambda error: world.note_end(self, error)),
            clock=clock,
            ids=CountedIds(f"{name}{copy}"),
            metrics=Metrics(),
            tracing=Tracing(name),
            config=KitConfig(),
            tasks=Tasks(world.note_failure),
        )
        world.compare(name, self.site.follower)

    def start(self) -> None:
        """Begin to live."""
        self.tasks.spawn(self._live(), name=self.name)

    async def crash(self) -> None:
        """Stop at whatever await it is in; nothing is said to anybody."""
        self.bus.connection.cut()
        self.gate.thaw()
        await self.tasks.close()
        await self.site.tasks.close()
        await self.site.follower.stop()
        await self.bus.close()

    async def stop(self) -> None:
        """End as by SIGTERM: what is begun is finished, leases are given back."""
        self.gate.thaw()
        await self.tasks.close()
        await self.site.tasks.close()
        await self.site.follower.stop()
        await self.bus.close()

    async def _live(self) -> None:
        await self._prepare()
        await self.run(self.site, self.config)

    async def _prepare(self) -> None:
        """Fold the log; where it cannot be yet, as long as it takes, as a real process is started again and again."""
        while True:
            try:
                await agree_on_time(self.site)
                if self.before is not None:
                    await self.before(self.site.bus)
                return await self.site.follower.start()
            except TemporaryError as error:
                await self.clock.sleep(error.retry_after_s)


def _reader() -> Callable[[LogMessage], Message]:
    """Makes messages of what is stored, each once for everybody."""
    decoded = lru_cache(MESSAGES_KEPT)(message)
    return lambda stored: decoded(stored.seq, stored.data, subject=stored.subject, stored_ms=stored.stored_ms)


class World:
    """All processes around one server."""

    def __init__(self, *, rates: Rates | None = None, seed: int = 0) -> None:
        """Nobody lives here yet. Must be made inside the loop that runs it."""
        self.clock = LoopClock()
        self.rates = rates or Rates()
        self.server = MemoryServer(STREAMS, BUCKETS, self.clock.monotonic_s, Random(seed))
        self.processes: dict[str, Process] = {}
        self.before: dict[str, Before] = {}
        """What processes of these names do before they fold the log."""
        self.cut_off = 0
        """Processes that had fallen behind what the log has dropped, and began anew."""
        self._supervisor = Tasks(self.note_failure)
        self.read = _reader()
        """Messages do not change, so they are decoded once for everybody."""
        self.failures: list[BaseException] = []
        self.faults: list[str] = []
        """Promises that were broken, the first ones."""
        self.history = History(self._writer_of, self.note_fault)
        self.rules = Rules()
        self._same = SameForAll()
        self._recipes: dict[str, tuple[Run, Any]] = {}
        self._copies = 0
        self._witness = Follower(cast("Bus", MemoryBus(self.server, self.clock)), self.clock, read=self.read)
        self._client = MemoryBus(self.server, self.clock)

    @property
    def state(self) -> State:
        """The fold of a witness who takes no part."""
        return self._witness.state

    async def __aenter__(self) -> "World":
        """Open the house."""
        self._witness.listen(self._look)
        self.compare("the witness", self._witness)
        await self._witness.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Everybody leaves."""
        await self._supervisor.close()
        for process in list(self.processes.values()):
            await process.crash()
        await self._witness.stop()

    def start(self, name: str, run: Run, config: Any, *, clock_s: float = 0.0) -> None:
        """A process begins to live under this name."""
        self._recipes[name] = (run, config)
        self._copies += 1
        process = Process(name, run, config, world=self, copy=self._copies)
        process.clock.offset_ms = round(clock_s * 1000)
        self.processes[name] = process
        process.start()

    async def crash(self, name: str) -> None:
        """A process dies without a word."""
        await self.processes.pop(name).crash()

    def cut(self, name: str, *, quietly: bool = False) -> None:
        """A process loses the bus; `quietly`, without being told: what it sends is swallowed."""
        connection = self.processes[name].bus.connection
        (connection.swallow if quietly else connection.cut)()

    def heal(self, name: str) -> None:
        """It has the bus again."""
        self.processes[name].bus.connection.heal()

    def delay(self, name: str, seconds: float) -> None:
        """From now on everything takes so much longer between this process and the bus."""
        self.processes[name].bus.connection.delay_s = seconds

    def freeze(self, name: str) -> None:
        """A process stands still at its next wait, as by SIGSTOP."""
        self.processes[name].gate.freeze()

    def thaw(self, name: str) -> None:
        """It goes on."""
        self.processes[name].gate.thaw()

    def doom(self, name: str, dies: Callable[[int], bool]) -> None:
        """From now on `dies` is asked at each wait of a process, with its number: the first of which it says so is its
        last. There it stands still, and a little later somebody ends it and starts it again."""
        process = self.processes[name]
        before = process.gate.waits + 1

        def at_wait() -> bool:
            if not dies(process.gate.waits - before):
                return False
            process.gate.at_wait = None
            self._supervisor.spawn(self._end(process), name=f"end {name}")
            return True

        process.gate.at_wait = at_wait

    def spare(self) -> None:
        """Nobody dies at a wait any more."""
        for process in self.processes.values():
            process.gate.at_wait = None

    async def _end(self, process: Process) -> None:
        await self.clock.sleep(FOUND_DEAD_S)
        if self.processes.get(process.name) is process:
            self.server.struck.note("died at a wait")
            await self.crash(process.name)
            self.restart(process.name)

    def set_clock(self, name: str, offset_s: float) -> None:
        """Somebody sets the wall clock of a process's machine, so far from the right time."""
        self.processes[name].clock.offset_ms = round(offset_s * 1000)

    def restart(self, name: str, *, clock_s: float = 0.0) -> None:
        """A new process takes the dead one's place, perhaps on a machine whose clock is so far from the right time."""
        run, config = self._recipes[name]
        self.start(name, run, config, clock_s=clock_s)

    async def stop(self, name: str) -> None:
        """A process ends as by SIGTERM."""
        await self.processes.pop(name).stop()

    def note_failure(self, error: BaseException) -> None:
        """A process ended by itself, which none may, unless it cannot follow a log that was cut; see `note_end`."""
        errors = tuple(flat(error)) if isinstance(error, BaseExceptionGroup) else (error,)
        if not all(isinstance(each, LogCutError) for each in errors):
            self.failures.append(error)

    def note_end(self, process: Process, error: BaseException) -> None:
        """A process cannot follow the log any more: where that is because the log was cut, it is started again."""
        if isinstance(error, LogCutError):
            self.cut_off += 1
            self._supervisor.spawn(self._begin_anew(process), name=f"supervise {process.name}")

    async def _begin_anew(self, process: Process) -> None:
        if self.processes.get(process.name) is process:
            await self.crash(process.name)
            self.restart(process.name)

    def note_fault(self, fault: str) -> None:
        """A promise was broken."""
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(fault)

    def compare(self, name: str, follower: Follower) -> None:
        """After every message that it folds, this process must know what whoever folded it knows."""
        digest = Digest()

        def folded(message: Message, step: Step) -> None:
            fault = self._same.fault(name, message.seq, digest.of(follower.state.kept))
            if fault:
                self.note_fault(f"message {message.seq} of {message.lane}: {fault}")

        follower.listen(folded)

    def _writer_of(self, seq: int) -> str:
        return self.server.streams[LOG.name].writers[seq - 1]

    def _look(self, message: Message, step: Step) -> None:
        """After every message: is everything true that must be?"""
        self.history.look(self.state, message, step)
        for fault in self.rules.faults(self.state, message, step):
            self.note_fault(f"message {message.seq} of {message.lane}: {fault}")
        self.look(message)
        for fault in faults_of(self.state):
            self.note_fault(f"message {message.seq} of {message.lane}: {fault}")
        if message.seq % DEAR_EVERY == 0:
            self.look_closely()

    def look(self, message: Message) -> None:
        """What else whoever builds on this world looks at after every message."""

    def look_closely(self) -> None:
        """What is dear to look at: indexes follow from what is kept, and everybody who is here knows the same."""
        for fault in indexes_follow_from_what_is_kept(self.state):
            self.note_fault(f"at {self.state.kept.seq}: {fault}")
        ours = encode_snapshot(self.state)
        for name, process in self.processes.items():
            state = process.site.follower.state
            if state.kept.seq == self.state.kept.seq and encode_snapshot(state) != ours:
                self.note_fault(f"at {state.kept.seq}: {name} knows another state than the log tells")

    async def ask(self, request: Request, within_s: float = 30.0) -> Reply:
        """Ask admission as the gateway does: again, with the same request, while nobody answers."""
        async with asyncio.timeout(within_s):
            while True:
                try:
                    data = await self._client.request(subjects.API_ADMISSION, encode(request))
                    return decode(data, Reply)  # type: ignore[arg-type]  # a union is a valid msgspec type
                except TemporaryError:
                    await self.clock.sleep(ASK_RETRY_S)

    async def submit(self, *specs: JobSpec, submit_id: str = "") -> tuple[int, ...]:
        """Submit jobs and give their numbers; refused ones fail the test that submits them."""
        self._copies += 1
        key = submit_id or f"submit-{self._copies}"
        reply = await self.ask(SubmitJobs(jobs=specs, submit_id=key, by="tester"))
        assert isinstance(reply, Admitted), f"refused: {reply}"
        self.note_accepted(reply)
        return reply.jobs

    def note_accepted(self, reply: Admitted) -> None:
        """Somebody was told that these jobs exist; from now on they do."""
        self.history.accepted |= dict.fromkeys(JobId(job) for job in reply.jobs)

    async def until(self, claim: Callable[[State], bool], within_s: float = 60.0) -> None:
        """Let time pass until the witness sees the claim hold."""
        try:
            await self._witness.wait_change(lambda: self.is_broken or claim(self.state), within_s)
        except TemporaryError as error:
            raise AssertionError(f"not within {within_s} s: {error}") from None
        self.check()

    @property
    def is_broken(self) -> bool:
        """True when somebody failed or a promise was broken."""
        return bool(self.failures or self.faults)

    def check(self) -> None:
        """Nobody failed, no promise was broken."""
        if self.failures:
            raise self.failures[0]
        assert not self.faults, "; ".join(self.faults)
