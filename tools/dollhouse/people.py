"""Those who use the platform in a dollhouse: they submit, change their minds, and edit settings mid-round."""

import json
from collections.abc import Awaitable, Callable

from dollhouse.asks import job_file
from dollhouse.front import Answered, Door, json_of
from dollhouse.plan import SECOND_POOL, Ask, Event
from dollhouse.policies import POLICIES
from dollhouse.saving import SAVERS
from dollhouse.together import TOGETHER
from dollhouse.town import ADMIN_TOKEN, Town
from dollhouse.visits import READS, Visit, is_wrong, reply_of, reply_to_submit, visit_of
from gangline_core.cluster import Policy, Pool
from gangline_core.door.arrays import lookup
from gangline_core.door.edits import JobEdit
from gangline_core.facts import Candidate
from gangline_core.groups import BudgetMode, Group, User
from gangline_core.ids import JobId
from gangline_core.job import ENDS, JobState
from gangline_kit.errors import TemporaryError
from gangline_wire.jobfile import parse_job
from gangline_wire.requests import (
    Admitted,
    AssignNode,
    CancelJob,
    Denied,
    EditJob,
    Refused,
    RemoveWindow,
    Reply,
    Request,
    SetDrain,
    SetGroup,
    SetHold,
    SetPolicy,
    SetPool,
    SetPrices,
    SetUser,
    SubmitJobs,
    Unavailable,
)
from gangline_wire.seal import seal

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
BUDGET_MODES = tuple(BudgetMode)
DEAR_MILLI = 100_000
"""So many thousandths of a GPU-hour of budget an hour costs, so that a few minutes use up a budget."""
DECIDING_S = 0.75
"""Whoever decides has heard of a round by then and is not heard yet; see `plan.LATE`."""


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
        document = job_file(asked, self.jobs, now_ms=self.town.now_ms, number=self._asked)
        if not self._by_http:
            spec, values = seal(parse_job(document))
            secrets = (values,) if values else ()
            return await self.ask(SubmitJobs(jobs=(spec,), submit_id=key, by=asked.user, secrets=secrets))
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
            packing=number // 216 % 2 > 0,
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

    async def budget(self, event: Event) -> None:
        """GPU time costs so much that a group's budget is soon used up; later there is none any more."""
        path, mode = GROUPS[event.number % 3], BUDGET_MODES[event.number // 3 % 3]
        await self.ask(SetPrices(milli={"v100": DEAR_MILLI}, by=ADMIN))
        hours = 1 + event.number // 9 % 10
        await self.ask(SetGroup(group=Group(path=path, budget_gpu_hours=hours, budget_mode=mode), by=ADMIN))
        await self.town.clock.sleep(event.seconds)
        await self.ask(SetGroup(group=Group(path=path), by=ADMIN))

    async def edit(self, event: Event) -> None:
        """Somebody changes the terms of a job."""
        if self.jobs:
            edit = JobEdit(priority=event.number % 7 - 3) if event.number % 2 else JobEdit(time_limit_s=20)
            await self.ask(EditJob(job=self._pick(event), edit=edit, by=ADMIN, standing="admin"))

    async def meddle(self, event: Event) -> None:
        """Something changes between the opening of a round and its decision, so that the decision does not hold."""
        deadline_s = self.town.clock.monotonic_s() + event.seconds
        while self.town.clock.monotonic_s() < deadline_s:
            opened = self._open_rounds()
            await self.town.clock.sleep(DECIDING_S)
            for candidates in [opened[round_] for round_ in self._open_rounds() if round_ in opened]:
                await self._overtake(event, candidates[event.number // 4 % len(candidates)].job)
                return

    def _open_rounds(self) -> dict[tuple[str, int], tuple[Candidate, ...]]:
        """Who may start in the rounds that wait for their decision."""
        pools = self.town.state.kept.pools.items()
        rounds = {(name, pool.rounds): pool.open_round for name, pool in pools}
        return {
            name: one.opened.candidates for name, one in rounds.items() if one is not None and one.opened.candidates
        }

    async def _overtake(self, event: Event, job: JobId) -> None:
        known = self.town.state.kept.jobs.get(job)
        match event.number % 4:
            case 0:
                await self.ask(CancelJob(job=job, by="ann"))
            case 1:
                await self.ask(SetHold(job=job, held=True, by="ann"))
            case 2 if known is not None:
                await self.ask(SetGroup(group=Group(path=known.spec.group, limit={"gpu_milli": 1000}), by=ADMIN))
            case _:
                for node in sorted(self.town.state.kept.nodes):
                    await self.ask(SetDrain(node=node, drained=True, by=ADMIN, why="repair"))
                await self.town.clock.sleep(DECIDING_S)
                for node in sorted(self.town.state.kept.nodes):
                    await self.ask(SetDrain(node=node, drained=False, by=ADMIN))

    async def turns(self, event: Event) -> None:
        """Jobs take turns in the usual pool, and are packed where both get further so; or they share GPUs by a rule."""
        await self.ask(SetPolicy(pool="default", policy=TOGETHER[event.number % len(TOGETHER)], by=ADMIN))

    async def saves(self, event: Event) -> None:
        """Jobs that checkpoint soon make way for each other in the usual pool."""
        await self.ask(SetPolicy(pool="default", policy=SAVERS[event.number % len(SAVERS)], by=ADMIN))

    async def ordered(self, event: Event) -> None:
        """The usual pool has one of the policies that runs of this kind draw."""
        await self.ask(SetPolicy(pool="default", policy=POLICIES[event.number % len(POLICIES)], by=ADMIN))

    async def _lift_limits(self) -> None:
        """Of groups and users; who had promised something to a group below it is asked for again after that."""
        again: list[SetGroup] = []
        for path in GROUPS:
            plain = SetGroup(group=Group(path=path), by=ADMIN)
            if isinstance(await self.ask(plain), Denied):
                again.append(plain)
            await self.ask(SetUser(user=User(name="ann", group=path), by=ADMIN))
        for plain in again:
            await self.ask(plain)

    async def lift_all(self) -> None:
        """No limit, no drain, no hold stands in anybody's way any more."""
        await self._lift_limits()
        for window in list(self.town.state.kept.windows):
            await self.ask(RemoveWindow(name=window, by=ADMIN))
        await self.ask(SetPolicy(pool="default", policy=Policy(), by=ADMIN))
        for node in sorted(self.town.state.kept.nodes):
            await self.ask(SetDrain(node=node, drained=False, by=ADMIN))
            if self.town.state.kept.nodes[node].home:
                await self.ask(AssignNode(node=node, pool="", by=ADMIN))
        for array in list(self.town.state.kept.arrays.values()):
            if array.held is not None:
                await self.ask(SetHold(job=array.id, held=False, by="ann"))
        for job in self._each():
            if self.state_of(job) in (JobState.HELD, JobState.PAUSED, JobState.SUSPENDED):
                await self.ask(SetHold(job=job, held=False, by="ann"))
        for job in list(self.jobs):
            known = lookup(self.town.state, job)
            if known is not None and known.spec.pool == SECOND_POOL and known.state not in ENDS:
                await self.ask(CancelJob(job=job, by="ann"))

    def stopping(self) -> list[int]:
        """Accepted jobs whose tasks have been told to stop and are not gone yet."""
        return [job for job in self._each() if self.state_of(job) == JobState.STOPPING]

    def unfinished(self) -> list[int]:
        """Accepted jobs that have not ended."""
        return [job for job in self.jobs if self.state_of(job) not in ENDS]

    def unasked(self) -> list[int]:
        """Jobs that exist though nobody was told so: all submits have been answered."""
        return sorted(set(self.town.state.kept.jobs) - set(self._each()))

    def _each(self) -> list[int]:
        """All jobs, and the elements of arrays."""
        arrays = self.town.state.kept.arrays
        sizes = {job: arrays[JobId(job)].size if JobId(job) in arrays else 0 for job in self.jobs}
        return [number for job, size in sizes.items() for number in range(job, job + size + 1)]

    def state_of(self, job: int) -> JobState:
        """Where a job, an array or an element of one stands."""
        known = lookup(self.town.state, job)
        assert known is not None, f"job {job} is there"
        return known.state

    def _pick(self, event: Event) -> int:
        """Some job, or an element of an array."""
        numbers = self._each() if event.number % 5 == 0 else self.jobs
        return numbers[event.number % len(numbers)]
