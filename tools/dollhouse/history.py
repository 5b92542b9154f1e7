"""What must be true of the way from state to state: who may write, who may give room back, for whom somebody has to go.

One `History` looks on at every folded message of a run. It remembers no more than its promises need and tells each
broken one once, as a sentence.
"""

from collections.abc import Callable, Iterator

from dollhouse.lease_moves import LeaseMoves
from dollhouse.yields import Policies, yields
from gangline_core import facts as f
from gangline_core.cluster import Policy, Pool
from gangline_core.fold import Message
from gangline_core.groups import ancestors, holders, user_key
from gangline_core.ids import JobId, NodeId, TaskId, task_id
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.limits.calendar import next_change_ms
from gangline_core.limits.rungs import folded, group_limit, seasons_of, user_limit
from gangline_core.making_room.claims import gives_up_ms
from gangline_core.making_room.losses import BY_SERVICE, BY_SLICE, effective_priority
from gangline_core.room.away import is_unspoken_for
from gangline_core.scoring.attained import GPU_SECOND
from gangline_core.scoring.yield_queue import BY_YIELD
from gangline_core.sharing.regroup import BY_LEASE
from gangline_core.spec import JobSpec, ServiceClass
from gangline_core.state import State
from gangline_core.step import Step
from gangline_wire.lanes import kind_of

DECIDING = ("queue", "placement", "scheduler", "elastic")
MESSAGES_IN_A_ROW_MAX = 300
"""Decisions in a row without anything happening outside; more mean that changes do not end."""
PLAIN = f.JobAdmitted | f.JobRejected | f.LeadershipTaken | f.TokenIssued | f.TokenRevoked
"""What is written at the door that changes nothing for a plan already made."""
ON_NODES = f.NodeSeen | f.NodeLost | f.NodeQuarantined | f.GpuFailed
"""What takes a node, or part of it, away from whoever counted on it."""
IN_TURN = (BY_LEASE, BY_SERVICE, BY_SLICE, BY_YIELD)
"""Rules by which jobs take turns: what one had so far decides, so that each goes for the other in time."""
GOES_ON = (JobState.RUNNING, JobState.RESIZING)

Tell = Callable[[str], None]


class History:
    """Everything seen so far that later messages are measured against."""

    def __init__(self, writer_of: Callable[[int], str] | None, tell: Tell) -> None:
        """`writer_of` gives the process that stored a message, `tell` hears of broken promises.

        A run without processes has nobody whose pen could be looked at.
        """
        self.accepted: dict[JobId, None] = {}
        """Jobs whose submitter was told that they exist."""
        self.used_milli_ms = 0
        """What all ended tasks held, times how long, by our own count."""
        self.evictions = 0
        self._writer_of = writer_of
        self._tell = tell
        self._writers: dict[tuple[str, int], str] = {}
        self._epochs: dict[str, int] = {}
        self._rounds: dict[tuple[str, str, int], None] = {}
        self._started: dict[tuple[TaskId, int], None] = {}
        self._tasks: dict[TaskId, Task] = {}
        self._unspoken: frozenset[NodeId] = frozenset()
        self._claims: dict[JobId, tuple[f.Claim, int]] = {}
        self._give_up: dict[JobId, int] = {}
        """When each claim stops waiting, as it was known before the message that is looked at."""
        """Claim and the sequence at which it was made."""
        self._usage: dict[str, dict[str, int]] = {}
        self._leases = LeaseMoves()
        self._policies = Policies()
        self._disturbed_seq = 0
        self._turns_ms: int | None = None
        """When the next season begins or ends."""
        """Last message that may have spoilt a plan."""
        self._evicted: dict[tuple[JobId, JobId], None] = {}
        self._ended_well: dict[tuple[JobId, int], int] = {}
        """When a member that counts had ended well: the sequence of the message that said so, by attempt."""
        self._in_a_row = 0

    def look(self, state: State, message: Message, step: Step) -> None:
        """One message was folded; `state` is what it is now."""
        for fault in self._faults(state, message, step):
            self._tell(f"message {message.seq} of {message.lane}: {fault}")

    def _faults(self, state: State, message: Message, step: Step) -> Iterator[str]:
        yield from (f"parked: {alarm}" for alarm in step.alarms)
        yield from self._who_writes(message)
        yield from self._once(message, state)
        yield from self._gone(state, message)
        self._note_disturbance(state, message)
        self._policies.note(state, message)
        yield from self._claims_end_well(state, message)
        yield from self._leases.opened(state, message, self._disturbed_seq)
        for fact in message.facts:
            if isinstance(fact, f.RoundDecided):
                # Where nobody says what was seen, it was all that came before.
                seen = message.seen if message.seen >= 0 else message.seq - 1
                yield from self._has_beneficiaries(state, fact, seen)
        yield from self._winds_down(state, message)
        yield from self._within_limits(state, step)
        yield from self._ends(message, step)
        yield from (f"job {job} was accepted and is not there" for job in self._missing(state))
        self._tasks = dict(state.kept.tasks)
        self._unspoken = frozenset(name for name, node in state.kept.nodes.items() if is_unspoken_for(node))
        self._claims = {job: self._made(claim, message.seq) for job, claim in state.kept.claims.items()}
        self._give_up = {job: gives_up_ms(state, claim) for job, claim in state.kept.claims.items()}
        self._usage = {holder: dict(used) for holder, used in state.usage.items()}

    def _missing(self, state: State) -> Iterator[JobId]:
        for job in self.accepted:
            if job not in state.kept.jobs and job not in state.kept.arrays and job < state.kept.next_job:
                yield job

    # --- who may write ------------------------------------------------------------------------------------

    def _who_writes(self, message: Message) -> Iterator[str]:
        """One process writes each lane in each epoch, and epochs never go back."""
        if self._writer_of is None:
            return
        writer = self._writer_of(message.seq)
        before = self._epochs.get(message.lane, 0)
        if message.epoch < before:
            yield f"{writer} writes in epoch {message.epoch} after epoch {before} had begun"
        if message.epoch > before and not any(isinstance(fact, f.LeadershipTaken) for fact in message.facts):
            yield f"{writer} begins epoch {message.epoch} without taking the lane"
        self._epochs[message.lane] = max(before, message.epoch)
        known = self._writers.setdefault((message.lane, message.epoch), writer)
        if known != writer:
            yield f"{writer} writes in epoch {message.epoch}, which is {known}'s"

    def _once(self, message: Message, state: State) -> Iterator[str]:
        """A round is opened once and decided once, a task starts once."""
        for fact in message.facts:
            if isinstance(fact, f.RoundOpened | f.RoundDecided):
                key = (type(fact).__name__, fact.pool, fact.round)
                if key in self._rounds:
                    yield f"round {fact.round} of {fact.pool}: a second {type(fact).__name__}"
                self._rounds[key] = None
            elif isinstance(fact, f.TaskStarted) and fact.task in state.kept.tasks:
                started = (fact.task, state.kept.tasks[fact.task].placed_ms)
                if started in self._started:
                    yield f"task {fact.task} starts a second time"
                self._started[started] = None

    def _winds_down(self, state: State, message: Message) -> Iterator[str]:
        """A gang of which a member has ended well gets no more members: nobody asks for them, or they do not come."""
        for fact in message.facts:
            if isinstance(fact, f.TaskExited) and fact.cause == f.ExitCause.EXITED and fact.exit_code == 0:
                task = self._tasks.get(fact.task)
                if task is not None and task.job in state.kept.jobs:
                    roles = state.kept.jobs[task.job].spec.roles
                    if task.role not in {role.name for role in roles if role.serves}:
                        self._ended_well.setdefault((task.job, task.attempt), message.seq)
            elif isinstance(fact, f.RoundDecided):
                for growth in fact.growths:
                    ended_seq = self._ended_well.get((growth.job, growth.attempt))
                    came = (
                        task_id(growth.job, attempt=growth.attempt, role=place.role, index=place.index)
                        for place in growth.tasks
                    )
                    if ended_seq is None:
                        continue
                    if not 0 <= message.seen < ended_seq or not state.kept.tasks.keys().isdisjoint(came):
                        yield f"job {growth.job} grows although a member has ended well"

    # --- who gives room back ------------------------------------------------------------------------------

    def _gone(self, state: State, message: Message) -> Iterator[str]:
        """Room comes back when the node's own agent saw it empty, or by the word that an untold machine is gone."""
        seen, said = set[TaskId](), set[TaskId]()
        for fact in message.facts:
            if isinstance(fact, f.GpusEmpty):
                seen |= set(fact.tasks)
            elif isinstance(fact, f.NodeForgotten):
                said |= set(fact.tasks)
            elif isinstance(fact, f.NodeSeen):
                seen |= {
                    name
                    for name, task in self._tasks.items()
                    if task.node == fact.node.id and task.state == TaskState.LOST and name not in fact.alive
                }
        for name, task in self._tasks.items():
            if name in state.kept.tasks:
                continue
            node = state.kept.nodes.get(task.node)
            is_untold = task.state == TaskState.LOST or task.node in self._unspoken
            is_said = name in said and node is None and is_untold and message.lane == "admission"
            if not is_said and (
                name not in seen or node is None or message.lane not in (f"agent.{node.agent}", node.agent)
            ):
                yield f"the room of {name} on {task.node} came back though nobody saw it empty"
            yield from self._leaves_a_whole_gang(state, message, task)
            end = task.stop_ms if task.state == TaskState.LOST else message.at
            self.used_milli_ms += task.used_until(end)

    @staticmethod
    def _leaves_a_whole_gang(state: State, message: Message, task: Task) -> Iterator[str]:
        """A gang goes on without who ended well, was told to leave, is missed, or whose role may be smaller."""
        job = state.kept.jobs.get(task.job)
        if job is None or job.attempt != task.attempt or job.state not in (*GOES_ON, JobState.STARTING):
            return
        told = [fact for fact in message.facts if isinstance(fact, f.TaskExited) and fact.task == task.id]
        code = told[0].exit_code if told else task.exit_code
        may_shrink = any(role.name == task.role and role.is_elastic for role in job.spec.roles)
        if not (task.stop or code == 0 or may_shrink or job.missing.get(task.role)):
            yield f"job {job.id} goes on without {task.id}, which ended with {code}"

    # --- for whom somebody has to go ----------------------------------------------------------------------

    def _note_disturbance(self, state: State, message: Message) -> None:
        kind = kind_of(message.lane)
        if kind == "admission":
            spoils = any(not isinstance(fact, PLAIN) for fact in message.facts)
        else:
            spoils = any(isinstance(fact, ON_NODES) for fact in message.facts)
            spoils = spoils or any(isinstance(fact, f.BudgetExhausted) for fact in message.facts)
        if self._season_turned(state, message.at) or spoils:
            self._disturbed_seq = message.seq

    def _season_turned(self, state: State, at: int) -> bool:
        """True when other limits hold than at the message before, since a season began or ended."""
        has_turned = self._turns_ms is not None and self._turns_ms <= at
        self._turns_ms = next_change_ms(seasons_of(state), at)
        return has_turned

    def _has_beneficiaries(self, state: State, decided: f.RoundDecided, seen: int) -> Iterator[str]:
        """Nobody has to go but for a job that gets the very room, in the same decision."""
        claims = {claim.job: set(claim.victims) for claim in decided.claims}
        policy = self._policies.read_at(decided.pool, seen)
        for eviction in decided.evictions:
            self.evictions += 1
            if eviction.rule == BY_LEASE and eviction.beneficiary not in claims:
                yield from self._leases.moves(state, decided, eviction, policy)
                continue
            if self._makes_way(state, eviction.job, eviction.beneficiary):
                continue
            # By name, since a member may have gone between the decision and now.
            if not any(name.startswith(f"{eviction.job}-") for name in claims.get(eviction.beneficiary, ())):
                yield f"job {eviction.job} is evicted for job {eviction.beneficiary}, which does not get its room"
            if eviction.rule == BY_YIELD:
                yield from yields(state, eviction, policy)
            if eviction.rule in IN_TURN:
                continue
            if (eviction.beneficiary, eviction.job) in self._evicted:
                yield f"jobs {eviction.job} and {eviction.beneficiary} evict each other"
            self._evicted[eviction.job, eviction.beneficiary] = None
        for less in decided.shrinks:
            has_claim = not less.beneficiary or set(less.tasks) & claims.get(less.beneficiary, set())
            if not has_claim and not self._makes_way(state, less.job, less.beneficiary):
                yield f"job {less.job} shrinks for job {less.beneficiary}, which does not get its room"

    def _makes_way(self, state: State, goes: JobId, beneficiary: JobId) -> bool:
        """True when whoever goes stands in the very place of a paused job, which keeps that and needs no claim."""
        job = state.kept.jobs.get(beneficiary)
        if job is None or job.state != JobState.PAUSED:
            return False
        nodes = {task.node for task in state.tasks_of(job)}
        place = {(task.node, share.index) for task in state.tasks_of(job) for share in task.gpus}
        own = [task for task in self._tasks.values() if task.job == goes]
        if not own:
            return True  # It had gone by itself meanwhile, and nobody is told.
        if any((task.node, share.index) in place for task in own for share in task.gpus):
            return True
        # Members without GPUs may be in the way of its CPUs.
        return any(task.node in nodes for task in own if not (task.gpus and place))

    def _made(self, claim: f.Claim, seq: int) -> tuple[f.Claim, int]:
        """The claim and which message made it; a job may lose one and get another in the same decision."""
        known = self._claims.get(claim.job)
        return known if known is not None and known[0].made_ms == claim.made_ms else (claim, seq)

    def _claims_end_well(self, state: State, message: Message) -> Iterator[str]:
        """Room that was cleared for a job becomes its room, unless something came in between."""
        for job_id, (claim, made_seq) in self._claims.items():
            job = state.kept.jobs.get(job_id)
            is_kept = job_id in state.kept.claims and state.kept.claims[job_id].made_ms == claim.made_ms
            if is_kept or (job is not None and job.state != JobState.WAITING):
                continue
            has_given_up = any(name in self._tasks for name in claim.victims) and message.at >= self._give_up[job_id]
            if self._disturbed_seq < made_seq and not has_given_up and not _is_overtaken(state, message, claim):
                yield f"job {job_id} lost the room that others had to leave for it"

    # --- how much -----------------------------------------------------------------------------------------

    def _within_limits(self, state: State, step: Step) -> Iterator[str]:
        """Nothing is booked beyond a limit; what was booked before a limit was lowered may stay."""
        if not step.decided:
            return
        for holder in {path for job in step.moves for path in self._holders(state, job.job)}:
            limit = _limit_of(state, holder)
            used, before = folded(state.usage.get(holder, {})), folded(self._usage.get(holder, {}))
            for dimension, most in limit.items():
                if used.get(dimension, 0) > max(most, before.get(dimension, 0)):
                    yield f"{holder or 'the root'} uses {used[dimension]} {dimension} of {most}"

    @staticmethod
    def _holders(state: State, job_id: JobId) -> tuple[str, ...]:
        job = state.kept.jobs.get(job_id)
        return () if job is None else (*ancestors(job.spec.group), user_key(job.spec.group, job.spec.user))

    def _ends(self, message: Message, step: Step) -> Iterator[str]:
        """Without anything happening outside, changes end."""
        if kind_of(message.lane) not in DECIDING:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row == MESSAGES_IN_A_ROW_MAX:
            yield f"{MESSAGES_IN_A_ROW_MAX} decisions in a row, and nothing happened outside"


def _is_overtaken(state: State, message: Message, claim: f.Claim) -> bool:
    """True when who would have the job go gets the room, its victims, or what a limit leaves both, in that decision."""
    loser = state.kept.jobs.get(claim.job)
    nodes = {place.node for place in claim.placement.tasks}
    for decided in message.facts:
        if not isinstance(decided, f.RoundDecided) or claim.job not in decided.claims_dropped or loser is None:
            continue
        pool = state.kept.pools[decided.pool].pool
        placed = [*decided.placements, *(other.placement for other in decided.claims)]
        shared = {other.job: set(other.victims) & set(claim.victims) for other in decided.claims}
        for placement in placed:
            heir = state.kept.jobs.get(placement.job)
            # Whoever waited below a limit alone has victims on nodes where it does not go.
            own = {state.kept.tasks[name].node for name in shared.get(placement.job, ()) if name in state.kept.tasks}
            is_there = any(place.node in nodes | own for place in placement.tasks)
            is_there = is_there or (heir is not None and _shares_a_limit(state, heir.spec, loser.spec))
            if is_there and heir and _would_send_away(state, pool, heir, loser):
                return True
    return False


def _would_send_away(state: State, pool: Pool, heir: Job, loser: Job) -> bool:
    """True when priority, class, service or a guarantee might have the loser go for the heir if it worked."""
    if effective_priority(pool, heir.spec) > effective_priority(pool, loser.spec):
        return True
    if loser.service_class == ServiceClass.OPPORTUNISTIC:
        return heir.spec.service_class != ServiceClass.OPPORTUNISTIC
    policy = state.kept.pools[pool.name].policy
    if policy.ordering == "least_attained" and _had_less(policy, heir, loser):
        return True
    promised = (
        state.kept.groups.get(path) for path in set(ancestors(heir.spec.group)) - set(ancestors(loser.spec.group))
    )
    return any(group is not None and group.guaranteed for group in promised)


def _had_less(policy: Policy, heir: Job, loser: Job) -> bool:
    """True when service might put the heir first: it had less, or as much and is older, where that counts."""
    if heir.attained < loser.attained or (policy.promote_after and heir.attempt):
        return True
    had, others = ([job.attained >= bound * GPU_SECOND for bound in policy.service_thresholds] for job in (heir, loser))
    return policy.oldest_preempts and had == others and heir.submitted_ms < loser.submitted_ms


def _shares_a_limit(state: State, one: JobSpec, other: JobSpec) -> bool:
    """True when a limit, or what may be borrowed, counts for both."""
    shared = set(holders(one.group, one.user)) & set(holders(other.group, other.user))
    groups = [state.kept.groups[path] for path in shared if path in state.kept.groups]
    return any(_limit_of(state, holder) for holder in shared) or any(group.borrow_limit for group in groups)


def _limit_of(state: State, holder: str) -> dict[str, int]:
    """The limit that holds at this moment, seasons counted, whatever names of models and devices are written like."""
    group, _, user = holder.partition(":")
    known = state.kept.groups.get(group)
    if user:
        found = folded(user_limit(known, state.user(holder), state.kept.at))
    else:
        found = group_limit(known, state.kept.at)[0] if known is not None else {}
    return {dimension: most for dimension, most in found.items() if dimension != "jobs"}
