"""A real nats-server, the log on it, and a hand that writes what the scheduler would: agents do the rest."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace
from tests.make import spec
from tests.patience import LONG_S, free_port

from gangline_agent.app import run
from gangline_agent.config import Config
from gangline_core import facts as f
from gangline_core.fold import Message
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, JobState
from gangline_core.spec import JobSpec, Resources, Role
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.config import KitConfig
from gangline_kit.nats_server import NatsServer, NatsUser
from gangline_kit.service import Site, open_site
from gangline_wire import output, subjects
from gangline_wire.codec import encode
from gangline_wire.envelope import Batch
from gangline_wire.streams import OUTPUT


class Cluster:
    """The scheduler's side of the bus."""

    def __init__(self, server: NatsServer, site: Site) -> None:
        self.server = server
        self.site = site
        self.facts: list[f.Fact] = []
        site.follower.listen(self.note)

    @property
    def state(self) -> State:
        return self.site.follower.state

    def note(self, message: Message, step: Step) -> None:
        """Keep every fact of the log."""
        assert not step.alarms, step.alarms
        self.facts.extend(message.facts)

    def count(self, kind: type[f.Fact]) -> int:
        """How many facts of a kind the log has."""
        return sum(isinstance(fact, kind) for fact in self.facts)

    async def tell(self, lane: str, *facts: f.Fact) -> None:
        """Append one message and wait until it is folded."""
        batch = Batch(lane=lane, epoch=1, seq_seen=self.state.kept.seq, at=self.site.now_ms(), facts=facts)
        seq = await self.site.bus.append(subjects.log(lane), encode(batch))
        await self.site.follower.reached(seq, timeout_s=LONG_S)

    async def submit(self, *specs: JobSpec) -> list[JobId]:
        """Admit jobs."""
        first = self.state.kept.next_job
        await self.tell(
            "admission",
            *(
                f.JobAdmitted(job=JobId(first + k), spec=one, submit_id=f"s{first + k}", by="ada")
                for k, one in enumerate(specs)
            ),
        )
        return [JobId(first + k) for k in range(len(specs))]

    def placement(self, job: JobId, nodes: list[str], *, port: int = 29_511) -> f.Placement:
        """All tasks of a job, on these nodes in turn."""
        known = self.job(job)
        role = known.spec.roles[0]
        places = tuple(
            f.TaskPlacement(
                role=role.name,
                index=k,
                node=NodeId(nodes[k % len(nodes)]),
                cpu_milli=role.resources.cpu_milli,
                memory_mib=role.resources.memory_mib,
            )
            for k in range(role.count)
        )
        return f.Placement(job=job, attempt=known.attempt + 1, tasks=places, port=port)

    async def place(self, *placements: f.Placement) -> None:
        """Decide a round that places these."""
        await self.tell("placement.default", f.RoundDecided(pool="default", round=1, placements=placements))

    async def start(self, asked: JobSpec, *nodes: str, port: int = 29_511) -> JobId:
        """Admit a job and place it."""
        await self.until(lambda: all(NodeId(node) in self.state.kept.nodes for node in nodes))
        (job,) = await self.submit(asked)
        await self.place(self.placement(job, list(nodes), port=port))
        return job

    def job(self, job: JobId) -> Job:
        return self.state.kept.jobs[job]

    async def until(self, holds: Callable[[], bool], *, within_s: float = LONG_S) -> None:
        """Wait until the fold makes it true."""
        await self.site.follower.wait_change(holds, within_s)

    async def ended(self, job: JobId) -> JobState:
        """Wait until the job has ended; nothing may be left booked for it."""
        await self.until(lambda: self.job(job).ended_ms > 0)
        return self.job(job).state

    async def output(self, job: JobId, task: str) -> str:
        """Everything a task wrote, up to its end."""
        said = b""
        async with asyncio.timeout(LONG_S):
            async for message in self.site.bus.read_subject(OUTPUT.name, subjects.output(job, task)):
                said += message.data
                if output.is_end(message.headers):
                    return said.decode()
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def agent(self, name: str, folder: Path, **fields: object) -> AsyncIterator[None]:
        """An agent in this process; leaving it is its clean stop."""
        config = Config(name=name, data_dir=str(folder / name), **fields)
        async with open_site("agent", kit(self.server)) as site, asyncio.TaskGroup() as group:
            running = group.create_task(run(site, config))
            yield
            running.cancel()


@asynccontextmanager
async def cluster(folder: Path, *, users: tuple[NatsUser, ...] = ()) -> AsyncIterator[Cluster]:
    """A server with an empty log."""
    server = NatsServer(folder / "nats", port=free_port(), users=users)
    await server.start()
    try:
        async with open_site("test", kit(server, users[0] if users else None)) as site:
            yield Cluster(server, site)
    finally:
        await server.stop()


def kit(server: NatsServer, user: NatsUser | None = None) -> KitConfig:
    """How a process finds the server."""
    config = KitConfig(nats_url=server.url)
    return config if user is None else replace(config, nats_user=user.name, nats_password=user.password)


def asks(*command: str, tasks: int = 1, env: Mapping[str, str] | None = None, **fields: object) -> JobSpec:
    """A job of equal tasks without GPUs."""
    role = Role(
        name="worker",
        count=tasks,
        min_count=tasks,
        max_count=tasks,
        resources=Resources(cpu_milli=100, memory_mib=16),
        command=command,
        environment=dict(env or {}),
    )
    return spec("test", roles=[role], **{"grace_s": 5, **fields})


async def agent_process(url: str, name: str, folder: Path, **environ: str) -> asyncio.subprocess.Process:
    """An agent in a process of its own, as the platform starts it."""
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    with await asyncio.to_thread((folder / f"{name}.log").open, "ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gangline_agent.main",
            stdout=log,
            stderr=log,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("GANGLINE_")},
                "GANGLINE_NATS_URL": url,
                # A test that fails leaves no agent behind.
                "GANGLINE_PARENT_PID": str(os.getpid()),
                "GANGLINE_AGENT_NAME": name,
                "GANGLINE_AGENT_DATA_DIR": str(folder / name),
                **environ,
            },
        )
