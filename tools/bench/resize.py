"""What one change of size costs: proposed, granted, started, confirmed, all by the production decisions."""

import time

import msgspec

from gangline_core import cycle, elasticity
from gangline_core import facts as f
from gangline_core.cluster import Gpu, Node
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.spec import Elastic, JobSpec, ResizeKind, Resources, Role
from gangline_core.state import State

POOL = "default"
NODES, GPUS = 32, 8
BEGIN_MS = 1_700_000_000_000


class Stage:
    """A state and its log, to which facts are told as services do."""

    def __init__(self) -> None:
        """A cluster of empty nodes."""
        self.state = State()
        for number in range(NODES):
            gpus = tuple(Gpu(index=k, model="H100", memory_mib=81_920, uuid=f"{number}-{k}") for k in range(GPUS))
            name = NodeId(f"n{number}")
            self.tell("agent.sim", f.NodeSeen(node=Node(name, "sim", 64_000, 1 << 20, gpus=gpus)))

    def tell(self, lane: str, *facts: f.Fact) -> None:
        """Fold one message."""
        seq = self.state.kept.seq + 1
        raw = msgspec.json.encode(facts)
        apply(self.state, Message(seq, lane, 1, BEGIN_MS + seq, facts, raw), strict=True)

    def round(self) -> None:
        """Open and decide one round."""
        opened = cycle.open_round(self.state, POOL, BEGIN_MS)
        assert opened is not None
        self.tell(f"queue.{POOL}", opened)
        self.tell(f"placement.{POOL}", cycle.decide_round(self.state, POOL, BEGIN_MS))

    def start(self, job: JobId) -> None:
        """All members that were placed start, told in one message as an agent does."""
        tasks = self.state.tasks_of(self.state.kept.jobs[job])
        self.tell("agent.sim", *(f.TaskStarted(task=task.id) for task in tasks if task.state == "placed"))


def resize_ms(members: int) -> float:
    """CPU ms from the proposal to the confirmed change of a gang that grows from half of its members to all."""
    stage = Stage()
    need = Resources(gpu_milli=1000)
    role = Role("worker", members // 2, members // 4, members, need, sizes=(members // 4, members // 2, members))
    elastic = Elastic(kind=ResizeKind.TORCHRUN, confirm_s=60)
    spec = JobSpec(name="gang", group="", user="ada", roles=(role,), elastic=elastic)
    job = JobId(1)
    stage.tell("admission", f.JobAdmitted(job=job, spec=spec, submit_id="1", by="ada"))
    stage.round()
    stage.start(job)
    begun = time.process_time()
    stage.tell(f"elastic.{POOL}", *elasticity.propose(stage.state, POOL, BEGIN_MS))
    stage.round()
    stage.start(job)
    resize = stage.state.kept.jobs[job].resize
    assert resize is not None
    stage.tell("agent.sim", f.ResizeConfirmed(job=job, number=resize.number, size=members))
    spent_ms = 1000 * (time.process_time() - begun)
    assert stage.state.kept.jobs[job].state == JobState.RUNNING
    assert stage.state.kept.jobs[job].sizes == {"worker": members}
    return spent_ms
