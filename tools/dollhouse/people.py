"""Those who use the platform in a dollhouse: they submit, change their minds, and edit settings mid-round."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from dollhouse.front import Answered, Door, json_of
from dollhouse.plan import SECOND_POOL, Ask, Event
from dollhouse.town import ADMIN_TOKEN, Town
from dollhouse.visits import READS, Visit, is_wrong, reply_of, reply_to_submit, visit_of
from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group, User
from gangline_core.job import ENDS, JobState
from gangline_core.spec import JobSpec
from gangline_kit.errors import TemporaryError
from gangline_wire.jobfile import parse_job
from gangline_wire.requests import (
    Admitted,
    AssignNode,
    CancelJob,
    Refused,
    Reply,
    Request,
    SetDrain,
    SetGroup,
    SetHold,
    SetPolicy,
    SetPool,
    SetUser,
    SubmitJobs,
    Unavailable,
)

GROUPS = ("lab", "lab/x", "shop")
ORDERINGS = ("weighted", "fifo", "priority")
PLACERS = ("best_fit", "spread", "topology")
PREFERENCES = ("adaptive", "quality-first", "latency-first")
PATIENCE_S = 1200.0
POLL_S = 0.4
ADMIN = "admin"
VISIT_S = 15.0
"""How long somebody waits for one answer before they ask again, perhaps at another door."""
NO_DOOR_S = 1.0
READ_TRIES = 8

Act = Callable[["People", Event], Awaitable[None]]


class People:
    """Everybody outside; they ask until they are answered."""

    def __init__(self, town: Town) -> None:
        """Nobody has asked for anything yet."""
        self.town = town
        self.jobs: list[int] = []
        self.refused = 0
        self._asked = 0
        self._by_http = False
        self._token = ""
        """Ann's own, once she has one."""
        self._admitted: list[tuple[Visit, str, int]] = []
        """Submits over HTTP, whose they were, and the job that came of them."""

    async def ask(self, request: Request) -> Reply:
        """Ask until somebody can answer.

        Raises:
            TimeoutError: nobody can, for much too long.
        """
        if self._by_http:
            token = ADMIN_TOKEN if getattr(request, "by", "") == ADMIN else self._token
            return await self._visit(visit_of(request), token, reply_of)
        return await self._insist(lambda: self.town.ask(request, within_s=PATIENCE_S), type(request).__name__)

    async def _insist(self, once: Callable[[], Awaitable[Reply]], what: str) -> Reply:
        deadline_s = self.town.clock.monotonic_s() + PATIENCE_S
        while True:
            try:
                reply = await once()
            except TemporaryError:
                reply = Unavailable(retry_after_s=NO_DOOR_S)
            if not isinstance(reply, Unavailable):
                return reply
            if self.town.clock.monotonic_s() > deadline_s:
                raise TimeoutError(f"nobody answers {what}")
            await self.town.clock.sleep(reply.retry_after_s)

    async def _visit(self, visit: Visit, token: str, read: Callable[[Answered], Reply]) -> Reply:
        """Ask over HTTP, at whichever door is open, until somebody answers."""

        async def once() -> Reply:
            return read(await self._call(visit, token))

        return await self._insist(once, f"{visit.method} {visit.path}")

    async def _call(self, visit: Visit, token: str, *, hang_up_s: float | None = None) -> Answered:
        """One try.

        Raises:
            TemporaryError: no whole answer.
        """
        answered = await self.town.front.call(self._door(), visit.written(token), within_s=VISIT_S, hang_up_s=hang_up_s)
        if answered is None:
            raise TemporaryError("hung up")
        if is_wrong(answered):
            told = answered.body[:300].decode(errors="replace")
            self.town.note_fault(f"{visit.method} {visit.path} is answered {answered.status}: {told}")
        return answered

    def _door(self) -> Door:
        doors = self.town.front.doors
        if not doors:
            raise TemporaryError("no gateway listens")
        return doors[self.town.server.draw.choice(sorted(doors))]

    async def settle_in(self, *, by_http: bool = False) -> None:
        """The groups of the town and their users; from now on they ask the gateways, or admission itself."""
        self._by_http = by_http
        for path in GROUPS:
            if path not in self.town.state.kept.groups:
                await self.ask(SetGroup(group=Group(path=path), by=ADMIN))
            await self.ask(SetUser(user=User(name="ann", group=path), by=ADMIN))
        if by_http:
            await self._take_token()

    async def submit(self, event: Event) -> None:
        """Jobs arrive, each as its own request."""
        for asked in event.asks:
            self._asked += 1
            reply = await self._hand_in(asked, event.number)
            if isinstance(reply, Admitted):
                self.town.note_accepted(reply)
                self.jobs += [job for job in reply.jobs if job not in self.jobs]
            else:
                assert isinstance(reply, Refused), f"{asked}: {reply}"
                self.refused += 1

    async def _take_token(self) -> None:
        """Ann gets a token of her own."""
        wanted = {"name": "ann", "role": "user", "user": "ann", "groups": list(GROUPS)}
        visit = Visit("POST", "/v1/tokens", json.dumps(wanted).encode())

        def read(answered: Answered) -> Reply:
            if answered.status == 201:
                self._token = str(json_of(answered)["token"])
            return reply_of(answered)

        await self._visit(visit, ADMIN_TOKEN, read)
        assert self._token, "ann has a token"

    async def _hand_in(self, asked: Ask, number: int) -> Reply:
        """One job, perhaps handed in twice: whoever repeats a submit with its key has one job."""
        key = f"submit-{self._asked}"
        document = job_file(asked, self.jobs)
        if not self._by_http:
            spec = parse_job(document)
            return await self.ask(SubmitJobs(jobs=(spec,), submit_id=key, by=asked.user))
        visit = Visit("POST", "/v1/jobs", json.dumps(document).encode(), key)
        if number % 4 == 1:
            await self._hang_up(visit, after_s=number // 4 * 0.002)
        reply = await self._visit(visit, self._token, reply_to_submit)
        if isinstance(reply, Admitted):
            self._admitted.append((visit, self._token, reply.jobs[0]))
            if number % 4 == 2:
                await self._repeat(len(self._admitted) - 1)
        return reply

    async def _hang_up(self, visit: Visit, *, after_s: float) -> None:
        """Somebody goes away in the middle of a submit."""
        try:
            await self._call(visit, self._token, hang_up_s=after_s)
        except TemporaryError:
            return

    async def _repeat(self, which: int) -> None:
        visit, token, job = self._admitted[which]
        reply = await self._visit(visit, token, reply_to_submit)
        if not isinstance(reply, Admitted) or reply.jobs != (job,) or not reply.repeated:
            self.town.note_fault(f"a submit that became job {job} is answered {reply} when it is repeated")

    async def again(self, event: Event) -> None:
        """Somebody repeats a submit that was answered long ago."""
        if self._admitted:
            await self._repeat(event.number % len(self._admitted))

    async def look(self, event: Event) -> None:
        """Somebody reads something; a gateway that cannot tell says so."""
        if not self._by_http:
            return
        path = READS[event.number % len(READS)].format(job=self._pick(event) if self.jobs else 1)
        for _ in range(READ_TRIES):
            try:
                if (await self._call(Visit("GET", path), self._token)).status != 503:
                    return
            except TemporaryError:
                pass
            await self.town.clock.sleep(NO_DOOR_S)

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
            schedulers=(1, 1, 3, 2)[number // 216 % 4],
            scheduler_preference=PREFERENCES[number % 3],
            scheduler_partitions=3,
        )
        await self.ask(SetPolicy(pool="default", policy=policy, by=ADMIN))

    async def drain(self, event: Event) -> None:
        """A node is drained and opened again."""
        nodes = sorted(self.town.state.kept.nodes)
        node = nodes[event.number % len(nodes)]
        await self.ask(SetDrain(node=node, drained=True, by=ADMIN, why="repair"))
        await self.town.clock.sleep(event.seconds)
        await self.ask(SetDrain(node=node, drained=False, by=ADMIN))

    async def assign(self, event: Event) -> None:
        """A node goes to another pool, and comes back."""
        nodes = sorted(self.town.state.kept.nodes)
        node = nodes[event.number % len(nodes)]
        if SECOND_POOL not in self.town.state.kept.pools:
            await self.ask(SetPool(pool=Pool(name=SECOND_POOL), by=ADMIN))
        await self.ask(AssignNode(node=node, pool=SECOND_POOL, by=ADMIN))
        await self.town.clock.sleep(event.seconds)
        await self.ask(AssignNode(node=node, pool="", by=ADMIN))

    async def lift_all(self) -> None:
        """No limit, no drain, no hold stands in anybody's way any more."""
        for path in GROUPS:
            await self.ask(SetGroup(group=Group(path=path), by=ADMIN))
            await self.ask(SetUser(user=User(name="ann", group=path), by=ADMIN))
        await self.ask(SetPolicy(pool="default", policy=Policy(), by=ADMIN))
        for node in sorted(self.town.state.kept.nodes):
            await self.ask(SetDrain(node=node, drained=False, by=ADMIN))
            if self.town.state.kept.nodes[node].home:
                await self.ask(AssignNode(node=node, pool="", by=ADMIN))
        for job in list(self.jobs):
            known = self.town.state.kept.jobs[job]  # type: ignore[index]  # ids are numbers here
            if known.state in (JobState.HELD, JobState.PAUSED, JobState.SUSPENDED):
                await self.ask(SetHold(job=job, held=False, by="ann"))
            if known.spec.pool == SECOND_POOL and known.state not in ENDS:
                await self.ask(CancelJob(job=job, by="ann"))

    def stopping(self) -> list[int]:
        """Accepted jobs whose tasks have been told to stop and are not gone yet."""
        jobs = self.town.state.kept.jobs
        return [job for job in self.jobs if jobs[job].state == JobState.STOPPING]  # type: ignore[index]  # ids are numbers here

    def unfinished(self) -> list[int]:
        """Accepted jobs that have not ended."""
        jobs = self.town.state.kept.jobs
        return [job for job in self.jobs if jobs[job].state not in ENDS]  # type: ignore[index]  # ids are numbers here

    def unasked(self) -> list[int]:
        """Jobs that exist though nobody was told so: all submits have been answered."""
        return sorted(set(self.town.state.kept.jobs) - set(self.jobs))

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
    "assign": People.assign,
    "look": People.look,
    "again": People.again,
}
"""What an event says -> what people do."""


def spec_of(ask: Ask, jobs: list[int]) -> JobSpec:
    """The job as the door gets it."""
    return parse_job(job_file(ask, jobs))


def job_file(ask: Ask, jobs: list[int]) -> dict[str, Any]:
    """The job as its user writes it; `jobs` are those that there are already."""
    times = {
        "run_time_s": ask.run_s,
        "exit_code": ask.code,
        "start_time_s": ask.start_s,
        "stop_time_s": ask.stop_s,
        "stuck_time_s": ask.stuck_s,
    }
    document: dict[str, Any] = {
        "command": ["true"],
        "tasks": ask.tasks,
        "gpus": f"{ask.gpu_milli}m",
        "cpus": 1,
        "memory": "1Gi",
        "group": ask.group,
        "user": ask.user,
        "priority": ask.priority,
        "service_class": ask.service_class,
        "attributes": {name: value for name, value in times.items() if value or name == "run_time_s"},
        "protected": ask.protected_s,
        "grace": ask.grace_s,
        "retries": ask.retries,
        "hold": ask.hold,
    }
    document |= {"min": ask.least} if ask.least else {}
    document |= {"max": ask.most} if ask.most else {}
    document |= {"topology": {"required": ask.topology}} if ask.topology else {}
    document |= {"time_limit": ask.limit_s} if ask.limit_s else {}
    document |= {"pause": {}} if ask.run_s % 2 else {}
    document |= {"pool": ask.pool} if ask.pool else {}
    document |= {"after": [jobs[-1]]} if ask.after and jobs else {}
    return document
