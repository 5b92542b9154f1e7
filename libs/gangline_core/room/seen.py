"""What several schedulers of one pool saw of its nodes, each at another time, kept where it differs from what is.

A node's use is copied for a scheduler the first time it changes after that scheduler synchronised the node. So the
version that a scheduler saw is the present one exactly where nothing is kept, and a commit compares by looking here.
"""

from collections.abc import Iterable

from msgspec import Struct

from gangline_core.cluster import NodeUse
from gangline_core.ids import NodeId, TaskId


class Seen(Struct, frozen=True, array_like=True, gc=False):
    """What was taken on a node when a scheduler last synchronised it."""

    cpu_milli: int
    memory_mib: int
    gpu_milli: tuple[int, ...]
    gpu_memory_mib: tuple[int, ...]
    gpu_slots: tuple[int, ...]
    devices: dict[str, int]
    tasks: int

    def use(self, gpu_count: int) -> NodeUse:
        """The same as a node's use."""
        found = NodeUse(0)
        found.cpu_milli, found.memory_mib = self.cpu_milli, self.memory_mib
        found.gpu_milli, found.gpu_memory_mib = list(self.gpu_milli), list(self.gpu_memory_mib)
        found.gpu_slots, found.devices = list(self.gpu_slots), dict(self.devices)
        for taken in (found.gpu_milli, found.gpu_memory_mib, found.gpu_slots):
            taken.extend([0] * (gpu_count - len(taken)))
        found.tasks = {TaskId(f"seen-{k}"): None for k in range(self.tasks)}
        return found


class SchedulerState(Struct):
    """One of several schedulers of a pool, as the log tells it."""

    view: dict[NodeId, Seen] = {}
    """Nodes that changed since it synchronised them, as it saw them then; the others it sees as they are."""
    commits: int = 0
    """Gangs that it placed."""
    conflicts: int = 0
    """Gangs whose room, limit or job was another one by the time of the commit."""
    delay_ms: int = 0
    """How long the gangs that it placed had waited, smoothed."""
    asked: int = 0
    """The last round that had candidates for it."""
    asked_before: int = 0
    """The one before."""
    answered: int = 0
    """The last round of which it decided its share, in time or late."""


def keep_seen(schedulers: Iterable[SchedulerState], node: NodeId, use: NodeUse) -> None:
    """The node's use is about to change: schedulers that saw it as it is remember that."""
    seen: Seen | None = None
    for scheduler in schedulers:
        if node in scheduler.view:
            continue
        if seen is None:
            seen = _copy(use)
        scheduler.view[node] = seen


def _copy(use: NodeUse) -> Seen:
    """The use as a value: equal for equal uses, whichever way they came about."""
    return Seen(
        cpu_milli=use.cpu_milli,
        memory_mib=use.memory_mib,
        gpu_milli=_until_last(use.gpu_milli),
        gpu_memory_mib=_until_last(use.gpu_memory_mib),
        gpu_slots=_until_last(use.gpu_slots),
        devices={name: count for name, count in sorted(use.devices.items()) if count},
        tasks=len(use.tasks),
    )


def _until_last(taken: list[int]) -> tuple[int, ...]:
    """The same without zeros at its end: how long a list is says only what the node once reported."""
    end = len(taken)
    while end and not taken[end - 1]:
        end -= 1
    return tuple(taken[:end])
