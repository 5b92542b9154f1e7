"""How each fact changes the state: one function per fact, in one table.

`apply` is the only thing that changes a `State`. It tells what it changed (`Step`), so that services can wake up and
agents can act without comparing pictures.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.cluster import Policy, Pool
from gangline_core.door.sealed import DOOR
from gangline_core.facts.size import BY_HAND
from gangline_core.fold import door as fold_door
from gangline_core.fold import health as fold_health
from gangline_core.fold import pause as fold_pause
from gangline_core.fold import resize as fold_resize
from gangline_core.fold import rounds as fold_rounds
from gangline_core.fold import shares as fold_shares
from gangline_core.fold.arrays import tend_arrays
from gangline_core.fold.budgets import note_period, renew_budgets, stop_for_budget
from gangline_core.fold.edits import recorded
from gangline_core.fold.jobs import (
    admit,
    cancel,
    forget_ended,
    hold,
)
from gangline_core.fold.learnt import learn_anew
from gangline_core.fold.own_nodes import CARRIED, stranger
from gangline_core.fold.removal import finish_removals, group_removed, user_removed
from gangline_core.fold.tasks import task_exited, task_started, tasks_empty
from gangline_core.groups import ancestors, holders, user_key
from gangline_core.job import ENDS, IllegalMoveError, JobState
from gangline_core.room.troubles import forget_closures
from gangline_core.sizes.causes import fault as proof_fault
from gangline_core.sizes.causes import is_from_outside
from gangline_core.spec import is_elastic
from gangline_core.state import SUBMITS_KEPT, PoolState, State, count
from gangline_core.step import Step


class Message(Struct, frozen=True, gc=False):
    """One message of the log as the fold sees it."""

    seq: int
    lane: str
    epoch: int
    at: int
    facts: tuple[f.Fact, ...]
    raw: bytes
    """The bytes as stored, for the hash chain."""
    seen: int = -1
    """Log sequence its writer had folded when deciding; -1 is everything before it."""
    parked: str = ""
    """Why nothing of it counts; empty for messages that belong."""
    note: str = ""
    """What was found out about it beside its bytes, as it goes into the hash chain; empty where nothing was."""


def chain(digest: str, raw: bytes, note: str = "") -> str:
    """The next head of the hash chain: blake2b-128 over the previous head, the stored bytes and a note, hexadecimal."""
    return blake2b(digest.encode() + raw + (b"\n" + note.encode() if note else b""), digest_size=16).hexdigest()


def apply(state: State, message: Message, *, strict: bool = False) -> Step:
    """Fold one message into the state and tell what changed.

    A message of an older epoch than its lane has seen is chained but changes nothing. An event that does not belong
    is parked in `Step.alarms`, or raised when `strict`.

    Raises:
        ValueError: the message does not follow the last applied one.
        Exception: only when `strict`, whatever a fact's handler raised.
    """
    kept = state.kept
    if message.seq <= kept.seq:
        raise ValueError(f"log message {message.seq} was already applied; the state is at {kept.seq}")
    kept.digest = chain(kept.digest, message.raw, message.note)
    kept.seq = message.seq
    kept.lane_seqs[message.lane] = message.seq
    step = Step(seq=message.seq, at=message.at, seen=message.seq - 1 if message.seen < 0 else message.seen)
    if message.parked:
        step.alarms.append(f"message {message.seq} of lane {message.lane}: {message.parked}")
        return step
    if message.epoch < kept.epochs.get(message.lane, 0):
        step.alarms.append(f"message {message.seq} of lane {message.lane} is of old epoch {message.epoch}")
        return step
    kept.epochs[message.lane] = message.epoch
    kept.at = max(kept.at, message.at)
    if state.door.next_renewal_ms and kept.at >= state.door.next_renewal_ms:
        renew_budgets(state, kept.at)
        step.renewed = True
    is_carried = message.lane.startswith(CARRIED)
    for fact in message.facts:
        if is_carried and (why := stranger(state, message.lane, fact)) is not None:
            step.alarms.append(f"message {message.seq}, {type(fact).__name__}: {why}")
            continue
        try:
            HANDLERS[type(fact)](state, fact, step)
        except Exception as error:
            # Whoever folds the log meets the same message again and again: it must not end there. What the fact did
            # before it failed is the same in every fold.
            if strict:
                raise
            what = str(error) if isinstance(error, IllegalMoveError) else f"{type(error).__name__}: {error}"
            step.alarms.append(f"message {message.seq}, {type(fact).__name__}: {what}")
    tend_arrays(state, step)
    forget_ended(state)
    if state.door.closing_groups or state.door.closing_users:
        finish_removals(state, step)
    state.live_index.rules += 1 if step.settings else 0
    if _stirs(state, step):
        kept.changed_seq = message.seq
    if is_from_outside(state, step):
        kept.outside_seq = message.seq
    return step


def _stirs(state: State, step: Step) -> bool:
    """True when a round may come out differently after this than before."""
    if step.freed or step.nodes or step.settings or step.voided or step.undated or step.arrays or step.renewed:
        return True
    if step.measured:
        return True
    for moved in step.moves:
        # Who is held gives back what was kept for it: room of a reservation, what comes back below a limit, a place.
        if moved.after in (JobState.WAITING, JobState.HELD) or moved.after in ENDS:
            return True
        if moved.after == JobState.RUNNING and is_elastic(state.kept.jobs[moved.job].spec):
            return True
    return False


def _leadership_taken(state: State, fact: f.LeadershipTaken, step: Step) -> None:
    step.touched = True


def _job_admitted(state: State, fact: f.JobAdmitted, step: Step) -> None:
    admit(state, fact, step)
    if fact.spec.secrets:
        state.kept.sealed[fact.job] = state.kept.epochs.get(DOOR, 0)
    _remember_submit(state, fact.submit_id, (*state.kept.submits.get(fact.submit_id, ()), fact.job))
    minute_ago = step.at - 60_000
    for path in holders(fact.spec.group, fact.spec.user):
        if has_rate(state, fact.spec.group, path):
            _note_submit(state, path, step.at, minute_ago)


def _note_submit(state: State, path: str, at: int, minute_ago: int) -> None:
    """Remember the time of a submission."""
    times = state.kept.recent_submits.get(path, ())
    state.kept.recent_submits[path] = (*(time for time in times if time > minute_ago), at)


def has_rate(state: State, group: str, holder: str) -> bool:
    """True when a holder on the way from a user of this group up to the root has a rate limit."""
    known = state.kept.groups.get(holder)
    if known is not None:
        return known.submits_per_minute > 0
    user, nearest = state.user(holder), state.kept.groups.get(group)
    return bool(user and user.submits_per_minute) or bool(nearest and nearest.user_submits_per_minute)


def _remember_submit(state: State, submit_id: str, jobs: tuple[Any, ...]) -> None:
    submits = state.kept.submits
    submits[submit_id] = jobs
    while len(submits) > SUBMITS_KEPT:
        del submits[next(iter(submits))]


def _job_rejected(state: State, fact: f.JobRejected, step: Step) -> None:
    step.touched = True
    if fact.ask:
        _remember_submit(state, fact.ask, ())


def _cancel_requested(state: State, fact: f.CancelRequested, step: Step) -> None:
    cancel(state, fact, step)


def _hold_set(state: State, fact: f.HoldSet, step: Step) -> None:
    hold(state, fact, step)


def _group_set(state: State, fact: f.GroupSet, step: Step) -> None:
    state.put_group(fact.group)
    note_period(state, fact.group.path, step.at)
    step.settings = True


def _user_set(state: State, fact: f.UserSet, step: Step) -> None:
    state.put_user(fact.user)
    step.settings = True


def _pool_set(state: State, fact: f.PoolSet, step: Step) -> None:
    known = state.kept.pools.get(fact.pool.name)
    if known is None:
        state.kept.pools[fact.pool.name] = PoolState(pool=fact.pool, policy=Policy())
    else:
        known.pool = fact.pool
    step.settings = True


def _policy_set(state: State, fact: f.PolicySet, step: Step) -> None:
    pool = state.kept.pools.get(fact.pool)
    if pool is not None:
        if pool.policy.node_tasks_max != fact.policy.node_tasks_max:
            state.forget_room(fact.pool)
        is_same_model = (pool.policy.predictor, pool.policy.model) == (fact.policy.predictor, fact.policy.model)
        pool.policy = fact.policy
        if not is_same_model:
            learn_anew(state, fact.pool, step.at)
        half_life_ms = fact.policy.half_life_s * 1000
        if pool.past.half_life_ms != half_life_ms:
            pool.past.reset(half_life_ms, state.rates.get(fact.pool, {}), step.at)
    step.settings = True


def _drain_set(state: State, fact: f.DrainSet, step: Step) -> None:
    node = state.kept.nodes.get(fact.node)
    if node is not None:
        if not fact.drained:
            node = replace(node, quarantine="", quarantined_ms=0)
            forget_closures(state.kept.troubles, fact.node)
        state.put_node(replace(node, drained=fact.drained, drain_why=fact.why if fact.drained else ""))
        step.nodes.append(fact.node)


def _token_issued(state: State, fact: f.TokenIssued, step: Step) -> None:
    state.kept.tokens[fact.token.digest] = fact.token
    step.settings = True


def _token_revoked(state: State, fact: f.TokenRevoked, step: Step) -> None:
    token = state.kept.tokens.get(fact.digest)
    if token is not None:
        state.kept.tokens[fact.digest] = replace(token, revoked=True)
    step.settings = True


def _resize_proposed(state: State, fact: f.ResizeProposed, step: Step) -> None:
    pool = state.kept.pools.get(fact.pool)
    if pool is None or fact.job not in state.kept.jobs:
        return
    if (fault := proof_fault(state, pool, fact)) is not None:
        step.alarms.append(fault)
        return
    step.touched = True
    pool.proposals[fact.job] = fact
    if pool.later.get(fact.job) == fact:
        # The second half of a decision: what happened meanwhile is still to be looked at.
        return
    if fact.why == BY_HAND:
        pool.asked_seq = step.seen
    else:
        pool.proposed_seq, pool.proposed_at = step.seen, step.at


def _nodes_wanted(state: State, fact: f.NodesWanted, step: Step) -> None:
    pool = state.kept.pools.get(fact.pool)
    if pool is not None:
        pool.nodes_wanted, pool.utility_permille = fact.nodes, fact.utility_permille


def _node_seen(state: State, fact: f.NodeSeen, step: Step) -> None:
    known = state.kept.nodes.get(fact.node.id)
    node = fold_health.as_seen(fact.node, known)
    if node.pool not in state.kept.pools:
        # A node may be the first of its pool, which then has the usual settings.
        state.kept.pools[node.pool] = PoolState(pool=Pool(name=node.pool), policy=Policy())
        step.settings = True
    fold_health.put_seen(state, replace(node, lost=False, seen_ms=step.at), step)
    alive = set(fact.alive)
    ghosts = [task for task in state.lost_tasks(node.id) if task not in alive]
    tasks_empty(state, ghosts, step)
    step.nodes.append(node.id)


def _task_started(state: State, fact: f.TaskStarted, step: Step) -> None:
    task_started(state, fact, step)


def _task_exited(state: State, fact: f.TaskExited, step: Step) -> None:
    task_exited(state, fact, step)


def _gpus_empty(state: State, fact: f.GpusEmpty, step: Step) -> None:
    tasks_empty(state, fact.tasks, step)


def _usage_charged(state: State, fact: f.UsageCharged, step: Step) -> None:
    if state.kept.uncharged.pop(fact.task, None) is None:
        return
    for path in (*ancestors(fact.group), user_key(fact.group, fact.user)):
        count(state.kept.charged, path, fact.gpu_milli_ms)
        if fact.cost >= 0:
            count(state.kept.surcharge, path, fact.cost - fact.gpu_milli_ms)


def _budget_exhausted(state: State, fact: f.BudgetExhausted, step: Step) -> None:
    if fact.exhausted:
        state.kept.exhausted[fact.group] = None
        stop_for_budget(state, fact.group, step)
    else:
        state.kept.exhausted.pop(fact.group, None)
    step.settings = True


HANDLERS: dict[type[f.Fact], Callable[[State, Any, Step], None]] = {
    f.LeadershipTaken: _leadership_taken,
    f.JobAdmitted: _job_admitted,
    f.JobRejected: _job_rejected,
    f.CancelRequested: _cancel_requested,
    f.HoldSet: _hold_set,
    f.JobEdited: fold_door.job_edited,
    f.JobTopped: fold_door.job_topped,
    f.WindowSet: recorded(fold_door.window_set),
    f.WindowRemoved: recorded(fold_door.window_removed),
    f.PricesSet: recorded(fold_door.prices_set),
    f.ClassSet: recorded(fold_door.class_set),
    f.GroupSet: recorded(_group_set),
    f.UserSet: recorded(_user_set),
    f.GroupRemoved: group_removed,
    f.UserRemoved: user_removed,
    f.PoolSet: recorded(_pool_set),
    f.PolicySet: recorded(_policy_set),
    f.DrainSet: _drain_set,
    f.TokenIssued: recorded(_token_issued),
    f.TokenRevoked: recorded(_token_revoked),
    f.ResizeProposed: _resize_proposed,
    f.NodesWanted: _nodes_wanted,
    f.NodeSeen: _node_seen,
    f.TaskStarted: _task_started,
    f.TaskExited: _task_exited,
    f.GpusEmpty: _gpus_empty,
    f.UsageCharged: _usage_charged,
    f.BudgetExhausted: _budget_exhausted,
    **fold_resize.HANDLERS,
    **fold_health.HANDLERS,
    **fold_pause.HANDLERS,
    **fold_rounds.HANDLERS,
    **fold_shares.HANDLERS,
}
"""One handler per fact; a test compares the keys with the union."""
