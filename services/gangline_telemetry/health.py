"""From samples to facts: which nodes are lost, which GPUs failed or recovered, how busy they were. Pure."""

from msgspec import Struct

from gangline_core.facts import Fact, GpuFailed, GpuHealthy, NodeLost, UtilisationSummary
from gangline_core.ids import NodeId
from gangline_core.state import State
from gangline_telemetry.config import Config
from gangline_wire.requests import GpuSample, NodeSample


class Busy(Struct):
    """Sums since the last summary; only values that were there count."""

    percent_sum: int = 0
    percent_count: int = 0
    memory_mib: int | None = None
    samples: int = 0


class Watch:
    """What was heard of every node; silence is measured on the monotonic clock."""

    def __init__(self, config: Config, now_s: float) -> None:
        """A watch that begins at `now_s`: nothing counts as silent before."""
        self.config = config
        self.began_s = now_s
        self.heard_s: dict[NodeId, float] = {}
        self.good: dict[tuple[NodeId, int], int] = {}
        self.bad: dict[tuple[NodeId, int], str] = {}
        self.busy: dict[NodeId, Busy] = {}
        self.summed_s = now_s

    def forgive(self, now_s: float) -> None:
        """We were frozen ourselves: let every node speak again before judging its silence."""
        self.began_s = now_s
        self.heard_s.clear()

    def hear(self, sample: NodeSample, now_s: float) -> None:
        """Take in one sample."""
        node = NodeId(sample.node)
        self.heard_s[node] = now_s
        busy = self.busy.setdefault(node, Busy())
        busy.samples += 1
        used = [gpu.memory_used_mib for gpu in sample.gpus if gpu.memory_used_mib is not None]
        busy.memory_mib = sum(used) if used else busy.memory_mib
        for gpu in sample.gpus:
            self._hear_gpu(node, gpu, busy)

    def _hear_gpu(self, node: NodeId, gpu: GpuSample, busy: Busy) -> None:
        if gpu.utilisation_percent is not None:
            busy.percent_sum += gpu.utilisation_percent
            busy.percent_count += 1
        key = (node, gpu.index)
        if gpu.problem:
            self.bad[key] = gpu.problem
            self.good.pop(key, None)
        elif key in self.bad or key in self.good:
            self.bad.pop(key, None)
            self.good[key] = self.good.get(key, 0) + 1
        else:
            self.good[key] = 1

    def judge(self, state: State, now_s: float) -> tuple[Fact, ...]:
        """Facts that follow from what was (not) heard and that the log does not know yet."""
        return (*self._losses(state, now_s), *self._gpu_changes(state), *self._summaries(state, now_s))

    def _losses(self, state: State, now_s: float) -> list[Fact]:
        lost: list[Fact] = []
        for node_id, node in sorted(state.kept.nodes.items()):
            silent_s = now_s - max(self.heard_s.get(node_id, self.began_s), self.began_s)
            if not node.lost and not node.is_watched and silent_s > self.config.loss_s:
                lost.append(NodeLost(node=node_id, silent_ms=int(silent_s * 1000)))
        return lost

    def _gpu_changes(self, state: State) -> list[Fact]:
        changes: list[Fact] = []
        for (node_id, index), problem in sorted(self.bad.items()):
            if self._known_healthy(state, node_id, index) is True:
                changes.append(GpuFailed(node=node_id, gpu=index, problem=problem))
        for (node_id, index), count in sorted(self.good.items()):
            if count >= self.config.healthy_samples and self._known_healthy(state, node_id, index) is False:
                changes.append(GpuHealthy(node=node_id, gpu=index))
        return changes

    @staticmethod
    def _known_healthy(state: State, node_id: NodeId, index: int) -> bool | None:
        node = state.kept.nodes.get(node_id)
        if node is None:
            return None
        return next((gpu.healthy for gpu in node.gpus if gpu.index == index), None)

    def _summaries(self, state: State, now_s: float) -> list[Fact]:
        if now_s - self.summed_s < self.config.summary_s:
            return []
        self.summed_s = now_s
        summaries: list[Fact] = []
        for node_id, busy in sorted(self.busy.items()):
            percent = busy.percent_sum // busy.percent_count if busy.percent_count else None
            if node_id in state.kept.nodes:
                summaries.append(
                    UtilisationSummary(
                        node=node_id, gpu_percent=percent, memory_mib=busy.memory_mib, samples=busy.samples
                    )
                )
        self.busy.clear()
        return summaries
