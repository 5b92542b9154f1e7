"""A gateway on fakes: a bus that answers as admission would, by the core's own rules, and keeps streams in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace
from tests.make import T0, World

from gangline_admission.judge import judge
from gangline_core import facts as f
from gangline_core.cluster import Node
from gangline_core.door.draft import Draft
from gangline_core.fold import Message
from gangline_core.groups import Group, Token, User
from gangline_core.state import State
from gangline_core.step import Step
from gangline_gateway.app import DOOR, make_app
from gangline_gateway.config import Config
from gangline_kit.bus import Bus, LogMessage
from gangline_kit.clock import ManualClock
from gangline_kit.config import KitConfig
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kit.follower import Follower
from gangline_kit.ids import CountedIds
from gangline_kit.metrics import Metrics
from gangline_kit.service import Site
from gangline_kit.tasks import Tasks
from gangline_kit.tracing import Tracing
from gangline_wire import codec, subjects
from gangline_wire import requests as r

Answering = Callable[[bytes], Awaitable[bytes]]


class WorkClock(ManualClock):
    """A clock that also moves while somebody is at work, when nobody else is."""

    def work(self, seconds: float) -> None:
        """So much work."""
        self._now_ms += round(seconds * 1000)


class FakeFollower:
    """The fold of a World; whoever listens hears of every message."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.caught_up = True
        self.failure = None
        self.coming: list[tuple[f.Fact, ...]] = []
        """What the log has, and admission knows, but this fold does not yet."""
        self._callbacks: list[Callable[[Message, Step], None]] = []

    @property
    def state(self) -> State:
        return self.world.state

    def listen(self, callback: Callable[[Message, Step], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def catch_up(self) -> None:
        coming, self.coming = self.coming, []
        for facts in coming:
            self.tell("admission", *facts)

    async def reached(self, seq: int, timeout_s: float | None = 5.0) -> None:
        self.catch_up()
        if self.state.kept.seq < seq:
            raise TemporaryError("behind")

    def tell(self, lane: str, *facts: f.Fact) -> Step:
        step = self.world.tell(lane, *facts)
        for callback in tuple(self._callbacks):
            callback(self.world.log[-1], step)
        return step


class FakeStreamState(Struct):
    first_seq: int
    last_seq: int


class FakeStreamInfo(Struct):
    state: FakeStreamState
    created_ms: int = 0


class FakeBus:
    """Requests go to `answering`, streams are lists."""

    def __init__(self, follower: FakeFollower) -> None:
        self.follower = follower
        self.is_connected = True
        self.failure = ""
        self.streams: dict[str, list[LogMessage]] = {"GANGLINE_EVENTS": [], "GANGLINE_OUTPUT": []}
        self.created_ms: dict[str, int] = {}
        self.requests: list[r.Request] = []
        self.failing: list[Exception] = []
        """Errors that the next requests meet before anything is answered."""
        self.lost_answers = 0
        """So many answers get lost after the request was carried out."""
        self.history: tuple[r.EventLine, ...] = ()
        self.held = asyncio.Event()
        """Requests wait until it is set."""
        self.held.set()
        self.secrets: dict[int, dict[str, str]] = {}
        self.work: Callable[[], None] = lambda: None
        """Done for every request, in the time of whoever asks."""
        self._grown = asyncio.Event()

    async def request(self, subject: str, data: bytes, timeout_s: float = 5.0, headers: Any = None) -> bytes:
        await self.held.wait()
        self.work()
        if self.failing:
            raise self.failing.pop(0)
        if subject == subjects.API_HISTORY:
            return codec.encode(r.History(events=self.history))
        assert subject == subjects.API_ADMISSION
        answer = self._admit(codec.decode(data, r.Request))  # type: ignore[arg-type]  # a union is a valid type for msgspec
        if self.lost_answers:
            self.lost_answers -= 1
            raise OutcomeUnknownError("the answer was lost")
        return answer

    def _admit(self, request: r.Request) -> bytes:
        self.requests.append(request)
        self.follower.catch_up()
        world = self.follower.world
        verdict = judge(world.state, Draft(), request, world.at)
        self.secrets |= verdict.secrets
        reply = verdict.reply
        if verdict.facts:
            step = self.follower.tell("admission", *verdict.facts)
            if isinstance(reply, r.Admitted | r.Done):
                reply = replace(reply, seq=step.seq)
        return codec.encode(reply)

    # --- streams -----------------------------------------------------------------------------------------

    def put(
        self, stream: str, subject: str, data: bytes, headers: dict[str, str] | None = None, stored_ms: int = 0
    ) -> None:
        kept = self.streams[stream]
        kept.append(LogMessage(seq=len(kept) + 1, subject=subject, data=data, headers=headers, stored_ms=stored_ms))
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    async def last_seq(self, stream: str) -> int:
        assert stream == "GANGLINE_LOG"
        return self.follower.state.kept.seq + len(self.follower.coming)

    async def stream_info(self, stream: str) -> FakeStreamInfo:
        state = FakeStreamState(first_seq=1, last_seq=len(self.streams.get(stream, ())))
        return FakeStreamInfo(state, self.created_ms.get(stream, 0))

    async def message_at(self, stream: str, seq: int) -> bytes | None:
        kept = self.streams[stream]
        return kept[seq - 1].data if 1 <= seq <= len(kept) else None

    async def read_subject(
        self, stream: str, subject: str, start_seq: int = 1, follow: bool = True
    ) -> AsyncIterator[LogMessage]:
        at = start_seq - 1
        while True:
            kept = self.streams[stream]
            while at < len(kept):
                message = kept[at]
                at += 1
                if _matches(subject, message.subject):
                    yield message
            if not follow:
                return
            await self._grown.wait()


def _matches(pattern: str, subject: str) -> bool:
    ours, theirs = pattern.split("."), subject.split(".")
    return len(ours) == len(theirs) and all(a in ("*", b) for a, b in zip(ours, theirs, strict=True))


class Setting:
    """A gateway with its world, its bus, and tokens for everybody; a real bus may take the fake's place."""

    def __init__(self, *nodes: Node, config: Config | None = None, bus: Bus | None = None) -> None:
        groups = [Group(path="t1", heads=("hana",)), Group(path="t1/a"), Group(path="t2")]
        users = [User(name="una", group="t1"), User(name="vic", group="t1"), User(name="tom", group="t2")]
        self.world = World(*nodes, groups=groups, users=users)
        self.follower = FakeFollower(self.world)
        self.bus = FakeBus(self.follower)
        self.clock = WorkClock(T0)
        self.metrics = Metrics()
        self.site = Site(
            name="gateway",
            instance="gateway-1",
            bus=bus or cast("Bus", self.bus),
            follower=cast("Follower", self.follower),
            clock=self.clock,
            ids=CountedIds(),
            metrics=self.metrics,
            tracing=Tracing("gateway"),
            config=KitConfig(),
            tasks=Tasks(),
        )
        self.config = config or Config()
        self.app = make_app(self.site, self.config)
        self.tokens = {
            "admin": self.issue("admin", user="root"),
            "reader": self.issue("readonly", user="rita"),
            "una": self.issue("user", user="una", groups=("t1",)),
            "vic": self.issue("user", user="vic", groups=("t1",)),
            "tom": self.issue("user", user="tom", groups=("t2",)),
            "hana": self.issue("user", user="hana", groups=("t1",)),
            "head2": self.issue("head", user="hugo", groups=("t2",)),
            "nobody": self.issue("user", user="nina"),
        }

    def issue(self, role: str, *, user: str, groups: tuple[str, ...] = (), expires_ms: int = 0) -> str:
        """A new token's text."""
        secret = f"gl_{user}-{role}-{expires_ms}"
        digest = sha256(secret.encode()).hexdigest()
        token = Token(digest=digest, name=f"{user}'s", role=role, user=user, groups=groups, expires_ms=expires_ms)
        self.follower.tell("admission", f.TokenIssued(token=token, by="root"))
        return secret

    def revoke(self, who: str) -> None:
        """This caller's token opens nothing any more."""
        digest = sha256(self.tokens[who].encode()).hexdigest()
        self.follower.tell("admission", f.TokenRevoked(digest=digest, by="root"))

    def headers(self, who: str) -> dict[str, str]:
        """The header with which this caller comes."""
        return {"Authorization": f"Bearer {self.tokens[who]}"}

    def in_flight(self) -> int:
        """Requests that are being served."""
        return self.app[DOOR].in_flight
