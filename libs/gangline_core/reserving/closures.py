"""Which nodes dated capacity closes to a job now, and how that is told."""

from gangline_core.door.terms import limit_s
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, JobState
from gangline_core.pauses.pausing import stood_ms
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import Reason, ReasonCode, sentence, utc
from gangline_core.reserving.windows import Window
from gangline_core.spec import GPU_MILLI, JobSpec
from gangline_core.state import State


def windows_in_way(state: State, spec: JobSpec, now: int, *, started_ms: int = 0) -> list[Window]:
    """Windows of the job's pool that it would run into if it started now (or runs into, since it started then)."""
    windows = state.kept.windows
    if not windows:
        return []
    began = started_ms or now
    length = limit_s(spec, began)
    end_ms = int(began + (length + spec.grace_s) * 1000) if length else None
    in_pool = (window for _, window in sorted(windows.items()) if window.pool == spec.pool)
    return [window for window in in_pool if window.hits(now, end_ms) and not window.admits(spec)]


class Closures:
    """Closed nodes as one decision sees them; worked out once for jobs with the same windows in their way."""

    def __init__(self, state: State, now: int) -> None:
        """On the frozen state."""
        self._state = state
        self._now = now
        self._known: dict[tuple[str, ...], tuple[NodeId, ...]] = {}
        self._open_gpus: dict[tuple[NodeId, ...], int] = {}
        """GPUs of the pool's other nodes."""

    def nodes(self, spec: JobSpec, *, started_ms: int = 0) -> tuple[NodeId, ...]:
        """Nodes on which the job may not start now, in id order."""
        windows = windows_in_way(self._state, spec, self._now, started_ms=started_ms)
        if not windows:
            return ()
        key = tuple(window.name for window in windows)
        if key not in self._known:
            self._known[key] = self._closed(windows, spec.pool)
        return self._known[key]

    def needs_closed(self, spec: JobSpec) -> bool:
        """True when the nodes that are open to the job have too few GPUs for it, even empty and well."""
        closed = self.nodes(spec)
        if not closed:
            return False
        if closed not in self._open_gpus:
            shut, nodes = set(closed), self._state.kept.nodes.values()
            open_nodes = (node for node in nodes if node.pool == spec.pool and node.id not in shut)
            self._open_gpus[closed] = sum(len(node.gpus) for node in open_nodes)
        least = sum(role.min_count * role.resources.gpu_milli for role in spec.roles)
        return least > self._open_gpus[closed] * GPU_MILLI

    def _closed(self, windows: list[Window], pool: str) -> tuple[NodeId, ...]:
        if any(not window.nodes for window in windows):
            return tuple(sorted(node.id for node in self._state.kept.nodes.values() if node.pool == pool))
        return tuple(sorted({node for window in windows for node in window.nodes}))


def window_reason(state: State, spec: JobSpec, now: int) -> Reason:
    """The window in the job's way on the node that is free longest, and the time limit that would pass there."""
    windows = windows_in_way(state, spec, now)
    in_pool = sorted(node.id for node in state.kept.nodes.values() if node.pool == spec.pool)
    by_node = [[window for window in windows if not window.nodes or node in window.nodes] for node in in_pool]
    firsts = [min(own, key=lambda one: (one.start_ms, one.name)) for own in by_node if own]
    window = max(firsts or windows, key=lambda one: (one.start_ms, one.name))
    later = [other for _, other in sorted(state.kept.windows.items()) if other.pool == spec.pool]
    closed = [
        [other for other in later if (not other.nodes or node in other.nodes) and not other.admits(spec)]
        for node, own in zip(in_pool, by_node, strict=True)
        if own
    ]
    # Nodes that no window keeps are not enough for it, or none would be in its way.
    free_ms = min(_free_ms(spec, own, now) for own in closed or [windows])
    last = next((other.name for other in later if other.end_ms == free_ms), window.name)
    numbers: dict[str, int | str] = {
        "window": window.name,
        "nodes": len(window.nodes) or len(in_pool),
        "from_ms": window.start_ms,
        "to_ms": window.end_ms,
        "fits_s": max(0, (window.start_ms - now) // 1000 - spec.grace_s),
        "free_ms": free_ms,
        "last": last,
    }
    return Reason(ReasonCode.WINDOW, numbers)


def window_note(state: State, job: Job, now: int) -> str | None:
    """What dated capacity is in the way of a job that waits for room, beside what it waits for."""
    code = job.reason.code if job.reason is not None else None
    if job.state != JobState.WAITING or code not in ROOM_CODES or not windows_in_way(state, job.spec, now):
        return None
    return sentence(window_reason(state, job.spec, now))


def after_windows(reason: Reason) -> str:
    """When no window is in the way any more, for people; reasons of older builds know one window only."""
    free_ms = reason.numbers.get("free_ms", reason.numbers.get("to_ms", 0))
    last = reason.numbers.get("last", reason.numbers.get("window", "?"))
    return f"Not before {utc(int(free_ms))}, when {last} is over."


def _free_ms(spec: JobSpec, windows: list[Window], now: int) -> int:
    """From when on none of these windows is in the job's way."""
    begin = now
    while True:
        length = limit_s(spec, begin)
        end_ms = int(begin + (length + spec.grace_s) * 1000) if length else None
        ends = [window.end_ms for window in windows if window.hits(begin, end_ms)]
        if not ends:
            return begin
        begin = max(ends)


def window_fault(state: State, spec: JobSpec, nodes: set[NodeId]) -> str | None:
    """Which window one of these nodes is kept for, at the log's latest time; None when none is in the way."""
    for window in windows_in_way(state, spec, state.kept.at):
        if not window.nodes or nodes & set(window.nodes):
            return f"nodes are kept for {window.name}"
    return None


def overlapping(state: State, window: Window, now: int) -> list[JobId]:
    """Jobs that run on the window's nodes now and may still do so when it begins."""
    found = []
    for job in state.live_jobs():
        if job.spec.pool != window.pool or window.admits(job.spec):
            continue
        started = (job.started_ms or now) + stood_ms(state, job, now)
        length = limit_s(job.spec, started)
        end_ms = int(started + (length + job.spec.grace_s) * 1000) if length else None
        nodes = {task.node for task in state.tasks_of(job)}
        if window.hits(now, end_ms) and (not window.nodes or nodes & set(window.nodes)):
            found.append(job.id)
    return found
