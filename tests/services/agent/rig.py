"""A process runner on a folder of its own, without a bus: what it would tell is kept in lists."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.make import World, node, spec
from tests.patience import LONG_S

from gangline_agent import proc
from gangline_agent.cgroups import Cgroups
from gangline_agent.journal import Journal
from gangline_agent.lives import Surroundings
from gangline_agent.output import Caps
from gangline_agent.processes import ProcessRunner
from gangline_agent.runner import Local, Order, Phase
from gangline_core.ids import JobId, TaskId
from gangline_core.spec import Resources, Role
from gangline_kit.carrying.orders import orders
from gangline_kit.clock import SystemClock
from gangline_kit.errors import TemporaryError
from gangline_wire import output

SECRETS = {"API_TOKEN": "s3cr3t-123"}
SMALL = Caps(head_bytes=1000, tail_bytes=500, piece_bytes=300)


class Rig:
    """One runner, the world its tasks come from, and what was told of their output."""

    def __init__(self, root: Path, *, caps: Caps, lease_s: float, cgroup: Path | None) -> None:
        self.told: dict[str, bytes] = {}
        self.ended: dict[str, str] = {}
        self.seen: set[str] = set()
        self.unable: list[str] = []
        """Why the machine could not start tasks."""
        self.bus_is_away = False
        self.event = asyncio.Event()
        around = Surroundings(
            clock=SystemClock(),
            append=self.append,
            secrets=self.secrets,
            changed=lambda task: self.event.set(),
            devices=lambda order: tuple(str(share.index) for share in order.task.gpus),
            unable=self.unable.append,
        )
        cgroups = Cgroups("rig", home=cgroup, state=root)
        self.runner = ProcessRunner(Journal(root), cgroups, around, caps=caps, lease_s=lease_s)

    async def append(self, subject: str, data: bytes, name: str, headers: dict[str, str]) -> None:
        """Store output once per message id, as the bus does."""
        if name in self.seen:
            return
        self.seen.add(name)
        task = subject.rpartition(".")[2]
        assert task not in self.ended, "nothing may follow the end"
        self.told[task] = self.told.get(task, b"") + data
        if output.is_end(headers):
            self.ended[task] = headers[output.END]
        self.event.set()

    async def secrets(self, job: JobId) -> Mapping[str, str]:
        if self.bus_is_away:
            raise TemporaryError("the bus is away", retry_after_s=0.01)
        return SECRETS

    async def until(self, holds: Callable[[], bool], *, within_s: float = LONG_S) -> None:
        """Wait until it holds, woken by every change the runner tells."""
        async with asyncio.timeout(within_s):
            while not holds():
                self.event.clear()
                await self.event.wait()

    async def until_true(self, holds: Callable[[], bool], *, within_s: float = LONG_S) -> None:
        """Wait until it holds on the machine, of which the runner tells nothing."""
        async with asyncio.timeout(within_s):
            while not holds():
                await SystemClock().sleep(0.01)

    async def phase(self, order: Order, *phases: Phase) -> Local:
        """Wait until the task is in one of these phases."""
        await self.until(lambda: self.runner.known[order.task.id].phase in phases)
        return self.runner.known[order.task.id]

    async def finish(self, order: Order) -> Local:
        """Start a task and wait until nothing of it is left."""
        self.runner.start(order)
        return await self.phase(order, Phase.EMPTY)

    async def heard(self, order: Order, word: str) -> None:
        """Wait until the task was heard to say this."""
        await self.until(lambda: word in self.output(order))

    def kill_everything(self) -> None:
        """Leave nothing behind when a test failed."""
        for live in self.runner.lives.values():
            for pid in proc.members(proc.everything(), live.life.pid) if live.life.pid else ():
                proc.signal(pid, signal.SIGKILL)

    def output(self, order: Order) -> str:
        """Everything the task was heard to write."""
        return self.told.get(order.task.id, b"").decode(errors="replace")


@asynccontextmanager
async def rig(
    root: Path,
    *,
    caps: Caps | None = None,
    lease_s: float = 0,
    cgroup: Path | None = None,
    has: Iterable[Order] = (),
) -> AsyncIterator[Rig]:
    """A running rig, for which the log has these tasks; leaving it is like the agent's clean stop: tasks go on."""
    made = Rig(root, caps=caps or Caps(), lease_s=lease_s, cgroup=cgroup)
    await made.runner.recover(has)
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(made.runner.run())
            yield made
            running.cancel()
    except BaseException:
        made.kill_everything()
        raise


def an_order(
    *command: str, env: Mapping[str, str] | None = None, tasks: int = 1, gpus: float = 0, **fields: object
) -> Order:
    """An order for the first task of a new job that runs this command."""
    return some_orders(*command, env=env, tasks=tasks, gpus=gpus, **fields)[0]


def some_orders(
    *command: str, env: Mapping[str, str] | None = None, tasks: int = 1, gpus: float = 0, **fields: object
) -> list[Order]:
    """Orders for all tasks of a new job."""
    world = World(node("n1"), node("n2"))
    role = Role(
        name="worker",
        count=tasks,
        min_count=tasks,
        max_count=tasks,
        resources=Resources(gpu_milli=round(gpus * 1000), cpu_milli=100, memory_mib=16),
        command=command,
        environment=dict(env or {}),
    )
    job = world.submit(spec("rig", roles=[role], **{"grace_s": 5, **fields}))
    world.place(job, "n1")
    return orders(world.state, [TaskId(task) for task in world.job(job).tasks])
