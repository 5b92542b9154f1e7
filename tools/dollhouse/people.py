"""Those who use the platform in a dollhouse: they submit, change their minds, and edit settings mid-round."""

from collections.abc import Awaitable, Callable

from dollhouse.plan import Ask, Event
from dollhouse.town import Town
from gangline_core.cluster import Policy
from gangline_core.groups import Group, User
from gangline_core.job import ENDS, JobState
from gangline_core.spec import Dependency, JobSpec, Pausing, Resources, Role, ServiceClass, TopologyWish
from gangline_kit.errors import TemporaryError
from gangline_wire.requests import (
    Admitted,
    CancelJob,
    Refused,
    Reply,
    Request,
    SetDrain,
    SetGroup,
    SetHold,
    SetPolicy,
    SetUser,
    SubmitJobs,
    Unavailable,
)

GROUPS = ("lab", "lab/x", "shop")
ORDERINGS = ("weighted", "fifo", "priority")
PLACERS = ("best_fit", "spread", "topology")
PATIENCE_S = 1200.0
POLL_S = 0.4
ADMIN = "admin"

Act = Callable[["People", Event], Awaitable[None]]


class People:
    """Everybody outside; they ask until they are answered."""

    def __init__(self, town: Town) -> None:
        """Nobody has asked for anything yet."""
        self.town = town
        self.jobs: list[int] = []
        self.refused = 0
        self._asked = 0

    async def ask(self, request: Request) -> Reply:
        """Ask the door until somebody can answer.

        Raises:
            TimeoutError: nobody can, for much too long.
        """
        deadline_s = self.town.clock.monotonic_s() + PATIENCE_S
        while True:
            try:
                reply = await self.town.ask(request, within_s=PATIENCE_S)
            except TemporaryError:
                reply = Unavailable(retry_after_s=1.0)
            if not isinstance(reply, Unavailable):
                return reply
            if self.town.clock.monotonic_s() > deadline_s:
                raise TimeoutError(f"nobody answers {type(request).__name__}")
            await self.town.clock.sleep(reply.retry_after_s)

    async def settle_in(self) -> None:
        """The groups of the town and their users."""
        for path in GROUPS:
            if path not in self.town.state.kept.groups:
                await self.ask(SetGroup(group=Group(path=path), by=ADMIN))
            await self.ask(SetUser(user=User(name="ann", group=path), by=ADMIN))

    async def submit(self, event: Event) -> None:
        """Jobs arrive, each as its own request."""
        for asked in event.asks:
            self._asked += 1
            reply = await self.ask(
                SubmitJobs(jobs=(spec_of(asked, self.jobs),), submit_id=f"submit-{self._asked}", by=asked.user)
            )
            if isinstance(reply, Admitted):
                self.town.note_accepted(reply)
                self.jobs += [job for job in reply.jobs if job not in self.jobs]
            else:
                assert isinstance(reply, Refused), f"{asked}: {reply}"
                self.refused += 1

    async def cancel(self, event: Event) -> None:
        """Somebody no longer wants a job."""
        if self.jobs:
            await self.ask(CancelJob(job=self._pick(event), by="ann"))

    async def hold(self, event: Event) -> None:
        """Somebody holds a job, or suspends it."""
        if self.jobs:
            await self.ask(SetHold(job=self._pick(event), held=True, by="ann", pause=event.number % 2 > 0))

    async def release(self, event: Event) -> None:
        """Somebody lets a job go on."""
        if self.jobs:
            await self.ask(SetHold(job=self._pick(event), held=False, by="ann", urgent=event.number % 2 > 0))

    async def limit(self, event: Event) -> None:
        """A group's limit and guarantee change."""
        number = event.number
        group = Group(
            path=GROUPS[number % len(GROUPS)],
            limit={"gpu_milli": (number // 3 % 12) * 1000},
            guaranteed={"gpu_milli": min(number // 3 % 12, number // 36 % 6) * 1000},
        )
        await self.ask(SetGroup(group=group, by=ADMIN))

    async def user_limit(self, event: Event) -> None:
        """A user's limit changes."""
        limit = {"gpu_milli": (event.number % 8) * 1000}
        await self.ask(SetUser(user=User(name="ann", group=GROUPS[event.number % 3], limit=limit), by=ADMIN))

    async def policy(self, event: Event) -> None:
        """The pool's policy changes in the middle of a round."""
        number = event.number
        policy = Policy(
            ordering=ORDERINGS[number % 3],
            placement=PLACERS[number // 3 % 3],
            preemption=number // 9 % 3 > 0,
            backfill=number // 27 % 2 > 0,
            starvation_s=(3600, 20)[number // 54 % 2],
            time_slice_s=(0, 3)[number // 108 % 2],
        )
        await self.ask(SetPolicy(pool="default", policy=policy, by=ADMIN))

    async def drain(self, event: Event) -> None:
        """A node is drained and opened again."""
        nodes = sorted(self.town.state.kept.nodes)
        node = nodes[event.number % len(nodes)]
        await self.ask(SetDrain(node=node, drained=True, by=ADMIN, why="repair"))
        await self.town.clock.sleep(event.seconds)
        await self.ask(SetDrain(node=node, drained=False, by=ADMIN))

    async def lift_all(self) -> None:
        """No limit, no drain, no hold stands in anybody's way any more."""
        for path in GROUPS:
            await self.ask(SetGroup(group=Group(path=path), by=ADMIN))
            await self.ask(SetUser(user=User(name="ann", group=path), by=ADMIN))
        await self.ask(SetPolicy(pool="default", policy=Policy(), by=ADMIN))
        for node in sorted(self.town.state.kept.nodes):
            await self.ask(SetDrain(node=node, drained=False, by=ADMIN))
        for job in list(self.jobs):
            known = self.town.state.kept.jobs[job]  # type: ignore[index]  # ids are numbers here
            if known.state in (JobState.HELD, JobState.PAUSED, JobState.SUSPENDED):
                await self.ask(SetHold(job=job, held=False, by="ann"))

    def unfinished(self) -> list[int]:
        """Accepted jobs that have not ended."""
        jobs = self.town.state.kept.jobs
        return [job for job in self.jobs if jobs[job].state not in ENDS]  # type: ignore[index]  # ids are numbers here

    def _pick(self, event: Event) -> int:
        return self.jobs[event.number % len(self.jobs)]


ACTS: dict[str, Act] = {
    "submit": People.submit,
    "cancel": People.cancel,
    "hold": People.hold,
    "release": People.release,
    "limit": People.limit,
    "user_limit": People.user_limit,
    "policy": People.policy,
    "drain": People.drain,
}
"""What an event says -> what people do."""


def spec_of(ask: Ask, jobs: list[int]) -> JobSpec:
    """The job as the door gets it."""
    role = Role(
        name="worker",
        count=ask.tasks,
        min_count=ask.least or ask.tasks,
        max_count=ask.most or ask.tasks,
        resources=Resources(gpu_milli=ask.gpu_milli, cpu_milli=1000, memory_mib=1024),
        command=("true",),
    )
    times = {
        "run_time_s": ask.run_s,
        "exit_code": ask.code,
        "start_time_s": ask.start_s,
        "stop_time_s": ask.stop_s,
        "stuck_time_s": ask.stuck_s,
    }
    return JobSpec(
        name="",
        group=ask.group,
        user=ask.user,
        roles=(role,),
        priority=ask.priority,
        service_class=ServiceClass(ask.service_class),
        attributes={name: value for name, value in times.items() if value or name == "run_time_s"},
        topology=TopologyWish(required=ask.topology),
        time_limit_s=ask.limit_s,
        protected_s=ask.protected_s,
        grace_s=ask.grace_s,
        retries=ask.retries,
        hold=ask.hold,
        pausing=Pausing() if ask.run_s % 2 else None,
        after=(Dependency(job=jobs[-1]),) if ask.after and jobs else (),
    )
