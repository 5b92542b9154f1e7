"""Queue levels with rules: where a job moves by itself, and who must wait behind the first of a strict level.

A level without a rule is best-effort: whoever fits may start. In a strict level nobody starts before the one in front
of it, until that one has been in front, blocked, for `head_wait_s`: then it loses its place and the others go on, while
it still has its turn and its reservation. Jobs that a limit, a hold or a dependency keeps out block nobody, and who
waits for machines that another could not use anyway is not in its way: strict order holds among those that compete.
Nor does one stand in front that the machines there are could not hold if they were empty: it waits for others to come.
"""

import msgspec

from gangline_core.cluster import LevelRule, NodeUse, Policy, gpu_span
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.reserving.reserve import usable_nodes
from gangline_core.room.capacity import Flags, Room
from gangline_core.scoring.ageing import wait_since_ms
from gangline_core.scoring.attained import GPU_SECOND
from gangline_core.state import State
from gangline_core.table import Table

HOPS_MAX = 8
"""Levels through which a job may move at one look."""


def level_after(level: str, policy: Policy, *, attained: int, waited_ms: int) -> str:
    """The level of a job that was submitted to `level`: moved on by service attained, or by the time it has waited."""
    for _ in range(HOPS_MAX):
        rule = policy.levels.get(level)
        if rule is None or not rule.to or not _moves(rule, attained=attained, waited_ms=waited_ms):
            break
        level = rule.to
    return level


def level_now(state: State, job: Job, policy: Policy, now: int) -> str:
    """The level in which a waiting job stands at this moment."""
    waited_ms = max(0, now - wait_since_ms(state, job)) if policy.levels else 0
    return level_after(job.spec.level, policy, attained=job.attained - job.forgiven, waited_ms=waited_ms)


def waits_that_move(level: str, policy: Policy) -> list[int]:
    """After which waits, in ms, a job that was submitted to this level may move on from it or from a later one."""
    waits: list[int] = []
    for _ in range(HOPS_MAX):
        rule = policy.levels.get(level)
        if rule is None or not rule.to:
            break
        if rule.after_wait_s:
            waits.append(rule.after_wait_s * 1000)
        level = rule.to
    return waits


def _moves(rule: LevelRule, *, attained: int, waited_ms: int) -> bool:
    by_service = 0 < rule.after_gpu_s * GPU_SECOND <= attained
    return by_service or 0 < rule.after_wait_s * 1000 <= waited_ms


class Front:
    """One who stands in front of a strict level, and the nodes that it or somebody behind it waits for."""

    def __init__(self, level: str, job: JobId, nodes: Flags, *, blocks: bool) -> None:
        """It blocks those behind it unless it has lost its place."""
        self.level = level
        self.job = job
        self.nodes = nodes
        self.blocks = blocks


class Heads:
    """Who stands in front of each strict level in one round: one for each set of machines that others do not use."""

    def __init__(self, table: Table) -> None:
        """Who stood there before, and since when, is told by the pool."""
        self._table = table
        self._rules = {level: rule for level, rule in table.policy.levels.items() if rule.strict}
        self._fronts: list[Front] = []

    def in_the_way(self, job: Job) -> Reason | None:
        """Why the job must wait behind another of its level; None when it need not."""
        if not self._fronts:
            return None
        level, nodes = self._level(job), self._nodes(job)
        first = next((front for front in self._competing(level, nodes) if front.blocks), None)
        if first is None:
            return None
        # Who stands behind it holds up those that come later, too.
        first.nodes = first.nodes | nodes
        return Reason(ReasonCode.BEHIND_HEAD, {"job": first.job, "level": level})

    def refused(self, job: Job) -> None:
        """The job found no room: it stands in front of its level, unless it is behind one that lost its place there."""
        if not self._rules:
            return
        level = self._level(job)
        rule = self._rules.get(level)
        if rule is None:
            return
        nodes, now = self._nodes(job), self._table.now
        if self._competing(level, nodes) or not _could_fit(self._table, job):
            return
        where, since_ms = self._table.pool.heads.get(job.id, ("", now))
        has_lost_place = where == level and 0 < rule.head_wait_s * 1000 <= now - since_ms
        self._fronts.append(Front(level, job.id, nodes, blocks=not has_lost_place))

    def recorded(self) -> tuple[tuple[str, JobId], ...]:
        """Who stood in front of which level, for the fold to remember since when."""
        return tuple(sorted((front.level, front.job) for front in self._fronts)) if self._fronts else ()

    def _competing(self, level: str, nodes: Flags) -> list[Front]:
        return [front for front in self._fronts if front.level == level and bool((front.nodes & nodes).any())]

    def _level(self, job: Job) -> str:
        return level_now(self._table.state, job, self._table.policy, self._table.now)

    def _nodes(self, job: Job) -> Flags:
        return usable_nodes(self._table.room, self._table.seating.least(job).gang)


def _could_fit(table: Table, job: Job) -> bool:
    """True when the machines that take work would hold the job if they were empty; worked out once for equal asks."""
    if table.pool.pool.cells or table.pool.pool.pinned:
        return True
    layout, gang = table.frozen.layout, table.seating.least(job).gang
    seating = table.seating
    return layout.remember(
        ("could fit", msgspec.msgpack.encode(gang)),
        lambda: seating.placer(layout.remember(("empty",), lambda: _emptied(table.frozen)), gang) is not None,
    )


def _emptied(room: Room) -> Room:
    """The same machines with nothing on them."""
    empty = Room.of(room.nodes, room.tasks_max)
    for node in empty.nodes:
        empty.refresh(node, NodeUse(gpu_span(node)))
    return empty


def remembered(
    known: dict[JobId, tuple[str, int]], heads: tuple[tuple[str, JobId], ...], at: int
) -> dict[JobId, tuple[str, int]]:
    """Who stands in front of which level since when, after a round."""
    fresh = ("", at)
    return {job: known[job] if known.get(job, fresh)[0] == level else (level, at) for level, job in heads}


def losing_place_ms(policy: Policy, known: dict[JobId, tuple[str, int]]) -> list[int]:
    """When those in front of strict levels lose their places."""
    waits = {level: rule.head_wait_s for level, rule in policy.levels.items() if rule.strict and rule.head_wait_s}
    return [since_ms + waits[level] * 1000 for level, since_ms in known.values() if level in waits]
