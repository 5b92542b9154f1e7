"""Who is on a GPU that the log gave to somebody else, or to nobody, told from the processes on it. Pure.

On bare metal `CUDA_VISIBLE_DEVICES` is all that stands between a job and its neighbour's GPU, and the job may set it
anew. Nobody can be kept away by that, but nobody goes unseen either.
"""

from msgspec import Struct

from gangline_core.facts import Fact, GpuTrespassed
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Task
from gangline_core.state import State
from gangline_wire.samples import NodeSample

LOOKS = 3
"""So many samples in a row must show it: processes and the log are not looked at in the same moment."""

Key = tuple[NodeId, int, TaskId]


class Seen(Struct):
    """How often a task was seen where it has no business."""

    looks: int = 0
    is_told: bool = False


class Trespass:
    """What was seen of all nodes."""

    def __init__(self) -> None:
        """Nothing yet; a new leader sees again, and says again, what goes on."""
        self.seen: dict[Key, Seen] = {}

    def hear(self, state: State, sample: NodeSample) -> None:
        """Take in one sample."""
        node = NodeId(sample.node)
        for gpu in sample.gpus:
            found = {
                task for name in gpu.tasks if (task := TaskId(name)) and _has_no_business(state, task, node, gpu.index)
            }
            for key in [key for key in self.seen if key[:2] == (node, gpu.index) and key[2] not in found]:
                del self.seen[key]
            for task in found:
                self.seen.setdefault((node, gpu.index, task), Seen()).looks += 1

    def judge(self, state: State) -> list[Fact]:
        """What goes on and is not told yet; what belongs to tasks that are gone is forgotten."""
        for key in [key for key in self.seen if key[2] not in state.kept.tasks]:
            del self.seen[key]
        told: list[Fact] = []
        for (node, gpu, name), seen in sorted(self.seen.items()):
            if seen.looks >= LOOKS and not seen.is_told:
                seen.is_told = True
                task = state.kept.tasks[name]
                told.append(GpuTrespassed(job=task.job, attempt=task.attempt, task=name, node=node, gpu=gpu))
        return told


def _has_no_business(state: State, name: TaskId, node: NodeId, gpu: int) -> bool:
    """True for a task of this node that has no part of the GPU; of one that is gone nothing is known any more."""
    task = state.kept.tasks.get(name)
    return task is not None and task.node == node and gpu not in _held(task)


def _held(task: Task) -> set[int]:
    """GPUs that the task has a part of, also those it left while it is paused: its memory is still there."""
    return {share.index for part in (task, task.working) if part is not None for share in part.gpus}
