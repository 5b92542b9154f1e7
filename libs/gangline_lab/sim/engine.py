"""A discrete-event run of a trace on a cluster under a policy, decided by the code that decides in production.

Arrivals go through the judge at the door, rounds are opened and decided by the cycle, sizes proposed and usage charged
as the services do it; the fold books everything. Only the machines and the calendar are simulated. Equal inputs and
seeds give equal runs, to the byte of their archives.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from msgspec import Struct, field
from msgspec.structs import replace

from gangline_core import cycle, elasticity, parsync
from gangline_core import facts as f
from gangline_core.cluster import Node, Policy, Pool
from gangline_core.counted import counted, singular
from gangline_core.door import admission
from gangline_core.door.edits import WAITING_ONLY, given
from gangline_core.groups import Group
from gangline_core.ids import JobId, NodeId
from gangline_core.job import ENDS, JobState
from gangline_core.limits import accounting
from gangline_core.limits.budgets import GPU_HOUR
from gangline_core.limits.spending import spent
from gangline_core.wake import next_wake_ms
from gangline_lab.sim.agents import Agents
from gangline_lab.sim.collect import Collector, JobRecord
from gangline_lab.sim.conditions import Conditions, in_milli
from gangline_lab.sim.courses import Courses, PlainCourses
from gangline_lab.sim.door import Door, Refused, is_in_use
from gangline_lab.sim.estimates import prepared
from gangline_lab.sim.events import Arrive, Cancel, Events, Moment, Tell, Turn
from gangline_lab.sim.fleet import AGENT, Fleet
from gangline_lab.sim.journal import Journal
from gangline_lab.sim.patience import Patience
from gangline_lab.sim.present import told_anew
from gangline_lab.sim.runs import Run
from gangline_lab.sim.usage import Point, Use
from gangline_lab.sim.workload import Input, Workload

BEGIN_MS = 1_700_000_000_000
"""When every simulated trace begins that is no history, in ms: late enough that no time in the log is 0."""
BY = "lab"
POINTS_WANTED = 2_000
"""Points of use over time that a run keeps, about."""
ROUNDS_MAX = 10_000
"""Rounds of one pool in one moment; more means that a policy never comes to rest."""

Progress = Callable[[int, int], None]
"""Told how many jobs of how many are over."""


class Scenario(Struct, frozen=True):
    """Everything that a run depends on, the code aside."""

    trace: Workload
    fleet: Fleet
    policies: dict[str, Policy] = field(default_factory=lambda: {"default": Policy()})
    """By pool; a pool that is not named has the usual policy."""
    conditions: Conditions = Conditions()
    groups: tuple[Group, ...] = ()
    """Groups with quotas, over those of the trace and the fleet."""
    courses: Courses | None = None
    """How work goes on; by run time when None."""
    inputs: tuple[Input, ...] = ()
    """What else comes from outside: settings, machines that come and go. Inputs of time 0 come before all else."""
    seed: int = 0
    until_ms: int = 0
    """The run ends then, over or not, or before it when nothing more can happen; 0 runs to the end of the last job."""
    begin_ms: int = BEGIN_MS
    """When the trace begins; a history begins when it did, so that dates and hours mean what they meant."""


class RunResult(Struct, frozen=True):
    """What a run came to."""

    trace: str
    seed: int
    gpus: dict[str, int]
    """GPUs by model."""
    policies: dict[str, Policy]
    jobs: tuple[JobRecord, ...]
    points: dict[str, tuple[Point, ...]]
    """Use over time, by pool."""
    rejected: int
    """Jobs that the door refused."""
    rounds: int
    verdicts: int
    preemptions: int
    messages: int
    end_ms: int
    """When the run ended, after the trace's beginning."""
    budgets: dict[str, int] = {}
    """GPU-hours of each group that has a budget."""
    label: str = ""
    """What the run is called in comparisons."""
    use: dict[str, Use] = {}
    """How each pool was used, from the first arrival to the last end; runs of older versions do not have it."""
    refused: tuple[Refused, ...] = ()
    """Who was refused, and why."""
    conditions: Conditions = Conditions()
    part: str = ""
    """Which jobs of the trace, where these are not all."""
    spent: dict[str, float] = {}
    """GPU-hours of each budget that were used in its period at the end, as accounting charges them: stops and prices
    counted."""
    untied: int = 0
    """Dependencies left out because the job they name is not there."""


class StuckError(Exception):
    """It would never end: nothing runs and the policy starts none of those that wait, or failures undo all work."""


def simulate(scenario: Scenario, *, archive: Path | None = None, progress: Progress | None = None) -> RunResult:
    """Run it. With `archive` the log is written there; it replays byte for byte.

    Raises:
        StuckError: jobs are left that can never start, or hardly ever end.
        FileExistsError: the folder holds an archive already.
    """
    with Journal(archive) as journal:
        simulation = Simulation(scenario, journal)
        simulation.run(progress)
        return simulation.result()


class Simulation:
    """A run under way."""

    def __init__(self, scenario: Scenario, journal: Journal) -> None:
        """The world before its first job: machines, groups, policies."""
        self.scenario = scenario
        self.conditions = scenario.conditions
        known = scenario.courses.among(scenario.fleet.kinds) if scenario.courses is not None else None
        self.trace = prepared(scenario.trace, scenario.conditions, known, scenario.seed, nodes=scenario.fleet.nodes)
        self.journal = journal
        self.state = journal.state
        self.events = Events()
        courses = known or PlainCourses(scenario.conditions.elastic)
        self.agents = Agents(self.state, self.events, scenario.conditions, courses)
        span = self.trace.arrivals[-1].at_ms if self.trace.arrivals else 0
        self.begin = scenario.begin_ms
        self.collector = Collector(self.state, self.begin, max(1, span // POINTS_WANTED))
        self.now = self.begin
        self.door = Door(self.state, self.trace)
        self.over = 0
        self._random = Random(f"failures-{scenario.seed}")
        self._ids: dict[int, JobId] = {}
        """Job by place in the trace, of those that users may still take back."""
        self._nodes = {node.id: node for node in scenario.fleet.nodes}
        self._looks: dict[str, int] = {}
        """Per pool the next moment at which somebody will look, as far as it was foreseen."""
        self._patience = Patience(self.state, self.agents.runs)
        self._set_up()

    # --- the world ------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        scenario = self.scenario
        pools = dict.fromkeys(node.pool for node in scenario.fleet.nodes)
        groups = {group.path: group for group in (*self.trace.groups, *scenario.fleet.groups, *scenario.groups)}
        settings: list[f.Fact] = [f.PoolSet(pool=Pool(name=pool), by=BY) for pool in pools if pool != "default"]
        settings += [f.GroupSet(group=groups[path], by=BY) for path in sorted(groups)]
        if self.conditions.prices:
            settings.append(f.PricesSet(milli=in_milli(self.conditions.prices), by=BY, version=1))
        settings += [
            f.PolicySet(pool=pool, policy=replace(policy, version=1), by=BY)
            for pool, policy in sorted(scenario.policies.items())
        ]
        self.tell("admission", settings)
        self.tell(f"agent.{AGENT}", [f.NodeSeen(node=node) for node in scenario.fleet.nodes])
        for index, told in enumerate(scenario.inputs):
            if told.at_ms <= 0 and not hasattr(told.fact, "job"):
                self._hear(told)
            else:
                self.events.enter(self.begin + max(0, told.at_ms), Tell(index))
        for index, arrival in enumerate(self.trace.arrivals):
            self.events.enter(self.begin + arrival.at_ms, Arrive(index))
        if self.conditions.failures.node_mtbf_hours:
            for node in scenario.fleet.nodes:
                self._foresee_failure(node)

    def _foresee_failure(self, node: Node) -> None:
        hours = self._random.expovariate(1 / self.conditions.failures.node_mtbf_hours)
        self.events.enter(self.now + max(1, round(hours * 3_600_000)), Turn(node.id, fails=True))

    # --- running --------------------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> None:
        """Until every job is over."""
        total = len(self.trace.arrivals)
        until = self.begin + self.scenario.until_ms if self.scenario.until_ms else None
        while self.over < total:
            if not self.events:
                if until is not None:
                    break
                raise StuckError(self._stuck())
            if until is not None and self.events.next_ms() > until:
                self.now = until
                break
            self._live(self.events.take())
            if progress is not None:
                progress(self.over, total)
        self.collector.finish(self.agents.runs, self.now)

    def _live(self, moment: Moment) -> None:
        """One moment: the world turns, machines speak, jobs arrive, and everything due is decided."""
        self.now = moment.at
        for turn in moment.turns:
            self._turn(turn)
        told = [self.scenario.inputs[index] for index in moment.tells]
        for one in told:
            if not hasattr(one.fact, "job"):
                self._hear(one)
        said: list[f.Fact] = []
        for end in moment.ends:
            said += self.agents.ended(end)
        said += self.agents.stopped(moment.stops) + self.agents.started(moment.starts)
        said += self.agents.stand_still(moment.stills)
        if said:
            self.tell(f"agent.{AGENT}", said)
        if moment.arrivals:
            self._arrive(moment.arrivals)
        for one in told:
            if hasattr(one.fact, "job"):
                self._hear_of_job(one)
        for index in moment.cancels:
            self._cancel(index)
        self.tell("admission", told_anew(self.state, self.agents.runs, self.now, self.conditions))
        if self.state.kept.uncharged:
            self.tell("accounting", accounting.charge(self.state, self.now))
        for pool in sorted(self.state.kept.pools):
            self._decide(pool)

    def _turn(self, turn: Turn) -> None:
        node = self._nodes[turn.node]
        repair_ms = 1000 * self.conditions.failures.repair_s
        if turn.fails:
            self.tell("telemetry", [f.NodeLost(node=NodeId(turn.node), silent_ms=30_000)])
            self.events.enter(self.now + repair_ms, Turn(turn.node, fails=False))
            is_foreseen = bool(self.scenario.inputs) or any(at > self.now for at in self._looks.values())
            if why := self._patience.spent(left=len(self.trace.arrivals) - self.over, is_foreseen=is_foreseen):
                raise StuckError(why)
        else:
            self.tell(f"agent.{AGENT}", [f.NodeSeen(node=node)])
            self._foresee_failure(node)

    def _hear(self, told: Input) -> None:
        """Something from outside; the simulated agent speaks for whoever carried a node."""
        fact = told.fact
        lane = told.kind
        if isinstance(fact, f.NodeSeen):
            lane, fact = f"agent.{AGENT}", f.NodeSeen(node=replace(fact.node, agent=AGENT))
            self._nodes[fact.node.id] = fact.node
        if isinstance(fact, f.GroupRemoved | f.UserRemoved) and is_in_use(self.state, fact):
            return
        self.tell(lane, [fact])

    def _hear_of_job(self, told: Input) -> None:
        """The same of a job, if it is there and not over; what only a waiting job can be told is told to those."""
        fact = told.fact
        name = self.door.numbers.get(getattr(fact, "job", 0))
        job = self.state.job(name) if name is not None else None
        if name is None or job is None or job.state in ENDS:
            return
        if isinstance(fact, f.JobEdited) and given(fact.edit).keys() & WAITING_ONLY and job.state != JobState.WAITING:
            return
        self.tell(told.kind, [replace(fact, job=name)])

    def _cancel(self, index: int) -> None:
        job = self.state.job(self._ids.pop(index))
        if job is not None and not job.attempt:
            self.tell("admission", [f.CancelRequested(job=job.id, by=job.spec.user, why="as recorded")])

    def _arrive(self, indexes: list[int]) -> None:
        draft = admission.Draft()
        facts: list[f.Fact] = []
        entered: list[tuple[JobId, int]] = []
        for index in indexes:
            judged = self.door.judge(draft, index, self.now)
            facts += judged.facts
            if judged.jobs:
                entered.append((judged.jobs[0], index))
            else:
                self.over += 1
        for job, index in entered:
            work = self.trace.arrivals[index].work
            self.agents.expect(job, work)
            self.collector.expect(job, index, work, self.now)
            if work.cancel_ms:
                self._ids[index] = job
                self.events.enter(self.now + work.cancel_ms, Cancel(index))
        self.tell("admission", facts)

    # --- deciding -------------------------------------------------------------------------------------------

    def _decide(self, pool: str) -> None:
        """All rounds of this moment, and the sizes proposed when the pool has come to rest."""
        grid_ms = 1000 * self.conditions.round_s
        if grid_ms and (self.now - self.begin) % grid_ms:
            if cycle.round_due(self.state, pool) or elasticity.is_stirred(self.state, pool, self.now):
                self.events.look(self.now + grid_ms - (self.now - self.begin) % grid_ms)
            return
        is_foreseen = self._looks.get(pool, self.now + 1) <= self.now
        for _ in range(ROUNDS_MAX):
            if is_foreseen or cycle.round_due(self.state, pool):
                is_foreseen = False
                if self._round(pool):
                    continue
            proposals = elasticity.propose(self.state, pool, self.now)
            if not proposals:
                break
            self.tell(f"elastic.{pool}", proposals)
        else:
            raise StuckError(f"{ROUNDS_MAX} rounds of pool {pool} in one moment: its policy never comes to rest")
        self._foresee_look(pool)

    def _round(self, pool: str) -> bool:
        opened = cycle.open_round(self.state, pool, self.now, foresees=self.journal.is_kept)
        if opened is None:
            return False
        self.tell(f"queue.{pool}", (opened,))
        # Several schedulers decide their shares at the same time, so all of them see the round and none another's.
        seen, numbers = self.state.kept.seq, sorted(parsync.asked(self.state, pool))
        for number, share in [(number, parsync.decide_share(self.state, pool, number)) for number in numbers]:
            self.tell(f"scheduler.{pool}.{number}", () if share is None else (share,), seen=seen)
        self.tell(f"placement.{pool}", (cycle.decide_round(self.state, pool, self.now),))
        return True

    def _foresee_look(self, pool: str) -> None:
        times = next_wake_ms(self.state, pool, self.now), elasticity.next_move_ms(self.state, pool, self.now)
        due = min((time for time in times if time is not None), default=None)
        self._looks.pop(pool, None)
        if due is not None:
            grid_ms = 1000 * self.conditions.round_s or 1
            due = self.begin - (self.begin - due) // grid_ms * grid_ms
            self._looks[pool] = due
            self.events.look(due)

    # --- the log --------------------------------------------------------------------------------------------

    def tell(self, lane: str, facts: "list[f.Fact] | tuple[f.Fact, ...]", *, seen: int | None = None) -> None:
        """Append facts, fold them, and let machines and the collector see what changed."""
        if not facts:
            return
        own = tuple(facts)
        step = self.journal.tell(lane, own, self.now, seen=seen)
        self.agents.note(step)
        ended: dict[JobId, Run | None] = {}
        for moved in step.moves:
            if moved.after in ENDS:
                ended[moved.job] = self.agents.settle(moved.job)
        self.over += len(ended)
        self.collector.hear(own, step, ended)

    # --- ending ---------------------------------------------------------------------------------------------

    def _stuck(self) -> str:
        waiting = [
            self.state.kept.jobs[job]
            for pool in sorted(self.state.kept.pools)
            for job in self.state.waiting.get(pool, {})
        ]
        if not waiting:
            return singular(f"{len(self.trace.arrivals) - self.over} jobs are not over, but nothing is going to happen")
        first = min(waiting, key=lambda job: job.id)
        why = first.reason.code if first.reason else "no reason"
        return f"{counted(len(waiting), 'job')} would wait for ever; the first, {first.spec.name}, for {why}"

    def result(self) -> RunResult:
        """What the run came to."""
        kept = self.state.kept
        budgets = {
            path: group.budget_gpu_hours for path, group in sorted(kept.groups.items()) if group.budget_gpu_hours
        }
        used = accounting.at_renewal(self.state, spent(self.state, self.now), self.now)
        return RunResult(
            trace=self.trace.name,
            seed=self.scenario.seed,
            gpus=self.scenario.fleet.kinds,
            policies={name: kept.pools[name].policy for name in sorted(kept.pools)},
            jobs=tuple(self.collector.records),
            points=self.collector.usage.points(),
            rejected=len(self.door.refused),
            rounds=self.collector.rounds,
            verdicts=self.collector.verdicts,
            preemptions=self.collector.preemptions,
            messages=self.journal.messages,
            end_ms=self.now - self.begin,
            budgets=budgets,
            use=self.collector.use,
            refused=tuple(self.door.refused),
            spent={path: used.of_budget(path) / GPU_HOUR for path in budgets},
            conditions=self.conditions,
            part=self.trace.part,
            untied=self.door.untied,
        )
