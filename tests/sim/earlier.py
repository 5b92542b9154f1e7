"""What an earlier build left behind when it was stopped in the middle of a busy day: all streams, keys, files.

`WRITE_UPGRADE=1 python -m pytest tests/sim/test_upgrade_whole.py` has the present build leave such a thing, in place of
the one in `upgrade/`: to be done when a version is tagged, so that the next one is held to it.
"""

import gzip
from pathlib import Path

import msgspec
from msgspec import Struct

from dollhouse.loop import live
from dollhouse.people import ADMIN, People
from dollhouse.plan import FLEETS, Ask, Event
from dollhouse.play import _happen
from dollhouse.stored import StoredStream
from dollhouse.town import Town
from gangline_core.groups import Group, Token, User
from gangline_core.ids import NodeId
from gangline_core.reserving.windows import Window
from gangline_kit.tasks import Tasks
from gangline_wire.requests import (
    IssueToken,
    RemoveGroup,
    RemoveUser,
    RemoveWindow,
    Request,
    RevokeToken,
    SetGroup,
    SetPrices,
    SetSize,
    SetUser,
    SetWindow,
    TopJob,
)

FILE = Path(__file__).parent / "upgrade" / "left.json.gz"
STOPPED_S = 170.0
RUN_MANY = tuple(
    Event(at_s=1 + 3.1 * k, what="submit", number=k, asks=(Ask(run_s=20 + k, gpu_milli=(1000, 500, 2000)[k % 3]),))
    for k in range(16)
)
DAY = (
    *RUN_MANY,
    Event(at_s=2, what="submit", asks=(Ask(gpu_milli=2000, tasks=2, least=1, most=4, run_s=70, priority=1),)),
    Event(at_s=3, what="submit", asks=(Ask(array=5, at_most=2, run_s=12, secret=True),)),
    Event(at_s=4, what="submit", asks=(Ask(mig="1g.5gb", run_s=60), Ask(mig="3g.20gb", run_s=200, secret=True))),
    Event(at_s=5, what="submit", asks=(Ask(run_s=2, code=1, retries=1), Ask(run_s=30, after=True, wants="afterany"))),
    Event(at_s=6, what="submit", asks=(Ask(run_s=50, limit_s=15), Ask(run_s=400, due_s=60), Ask(hold=True))),
    Event(at_s=8, what="submit", asks=(Ask(gpu_milli=9000), Ask(pool="nowhere"))),
    Event(at_s=12, what="cancel", number=3),
    Event(at_s=14, what="hold", number=7),
    Event(at_s=74, what="submit", asks=(Ask(run_s=201),)),
    *(Event(at_s=82, what="hold", number=number) for number in range(13, 31, 2)),
    Event(at_s=16, what="edit", number=1),
    Event(at_s=18, what="assign", number=2, seconds=20),
    Event(at_s=105, what="budget", number=0, seconds=25),
    Event(at_s=24, what="drain", number=0, seconds=15),
    Event(at_s=28, what="gpu", number=3, seconds=20),
    Event(at_s=30, what="policy", number=9 + 108),
    Event(at_s=34, what="user_limit", number=5),
    Event(at_s=36, what="crash_leader", who="placement", seconds=2),
    Event(at_s=40, what="swallow", who="west", seconds=35),
    Event(at_s=44, what="two_leaders", who="admission", number=1),
    Event(at_s=50, what="policy", number=216 * 2),
    Event(at_s=60, what="limit", number=12),
    Event(at_s=70, what="submit", asks=(Ask(gpu_milli=4000, tasks=2, run_s=300, priority=3),)),
    Event(at_s=90, what="submit", asks=(Ask(run_s=30), Ask(gpu_milli=4000, run_s=20, secret=True))),
    Event(at_s=138, what="submit", asks=(Ask(gpu_milli=4000, tasks=2, run_s=100), Ask(run_s=90), Ask(run_s=80))),
    Event(at_s=140, what="submit", asks=(Ask(run_s=60, group="shop"), Ask(gpu_milli=4000, group="shop", run_s=60))),
    Event(at_s=145, what="submit", asks=(Ask(array=20, at_most=3, run_s=10, secret=True), Ask(hold=True))),
)
"""A day on which much is asked for and much goes wrong."""


class Line(Struct, frozen=True):
    """One message as it was stored."""

    subject: str
    data: str
    headers: dict[str, str] | None
    stored_ms: int
    writer: str


class Left(Struct, frozen=True):
    """All that is left when every process is stopped at once."""

    streams: dict[str, list[Line]]
    buckets: dict[str, list[Line]]
    snapshots: dict[str, bytes]
    archive: dict[str, bytes]
    accepted: list[int]
    """Jobs of which somebody was told."""


def left() -> Left:
    """What lies in `upgrade/`."""
    return msgspec.json.decode(gzip.decompress(FILE.read_bytes()), type=Left)


def write(folder: Path) -> None:
    """Have this build leave something."""
    FILE.write_bytes(gzip.compress(msgspec.json.encode(live(_day(folder))), mtime=0))


async def _day(folder: Path) -> Left:
    town = Town(folder, seed=4)
    people = People(town)
    async with town:
        await town.begin(FLEETS, copies=2, doors=1, cut=2)
        await people.settle_in(by_http=True)
        happening = Tasks(town.note_failure)
        began_s = town.clock.monotonic_s()
        happening.spawn(_settings(town, people), name="settings")
        for event in sorted(DAY, key=lambda one: one.at_s):
            await town.clock.sleep(max(0.0, began_s + event.at_s - town.clock.monotonic_s()))
            happening.spawn(_happen(town, people, event), name=event.what)
        await town.clock.sleep(max(0.0, began_s + STOPPED_S - town.clock.monotonic_s()))
        await happening.close()
        town.check()
        server = town.server
        return Left(
            streams={name: _lines(stream, ever=True) for name, stream in server.streams.items()},
            buckets={name: _lines(bucket.stream) for name, bucket in server.buckets.items()},
            snapshots=dict(server.objects),
            archive={str(path.relative_to(town.archive)): path.read_bytes() for path in sorted(town.archive.iterdir())},
            accepted=people.jobs,
        )


def _lines(stream: StoredStream, *, ever: bool = False) -> list[Line]:
    return [
        Line(one.subject, one.data.decode(), one.headers, one.stored_ms, stream.writers[one.seq - 1])
        for one in (stream.ever if ever else stream.messages)
    ]


async def _settings(town: Town, people: People) -> None:
    """What administrators do beside it, each once."""
    begin_ms = town.now_ms + 600_000
    window = Window("course", "default", begin_ms, begin_ms + 3_600_000, nodes=(NodeId("w2"),), groups=("shop",))
    asked: tuple[Request, ...] = (
        IssueToken(token=Token(digest="0" * 64, name="guest", user="bob", role="user"), by=ADMIN),
        SetPrices(milli={"v100": 1500}, by=ADMIN),
        SetGroup(group=Group(path="gone"), by=ADMIN),
        SetUser(user=User(name="bob", group="gone"), by=ADMIN),
        RemoveUser(group="gone", user="bob", by=ADMIN),
        RemoveGroup(path="gone", by=ADMIN),
        SetWindow(window=window, by=ADMIN),
        RemoveWindow(name="course", by=ADMIN),
        SetSize(job=2, size=2, by=ADMIN),
    )
    for request in asked:
        await town.ask(request)
        await town.clock.sleep(2.5)
    await town.clock.sleep(130)
    for job in list(town.state.waiting["default"]):
        await town.ask(TopJob(job=job, among="", by=ADMIN))
    used = next(token for token in town.state.kept.tokens.values() if token.name == "guest")
    await town.ask(RevokeToken(digest=used.digest, by=ADMIN))
