"""Watching as it goes wrong: old versions, empty answers, deletes nobody told of, readers that are too slow."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.kubernetes.house import MemoryTransport

from dollhouse.clock import LoopClock
from dollhouse.loop import live
from gangline_kit.ids import CountedIds
from gangline_kit.metrics import Metrics
from gangline_kit.tasks import Tasks
from gangline_kubernetes.api import Answer, Api
from gangline_kubernetes.objects import Pod
from gangline_kubernetes.watch import Watched
from kubedouble.faults import Fault
from kubedouble.server import Double

BODY = {"spec": {"containers": [{"name": "main", "image": "x:1"}]}}


class Desk:
    """A double, a watch of its pods, and what the watch told."""

    def __init__(self, way: type[MemoryTransport] = MemoryTransport, *, relist_s: float = 100_000.0) -> None:
        """`way` is how the server is reached."""
        clock = LoopClock()
        self.double = Double(lambda: clock.now_ms() / 1000)
        kind = self.double.kinds.find("", "v1", "pods")
        assert kind is not None
        self.kind = kind
        self.told: list[str] = []
        self.metrics = Metrics()
        self.watched = Watched(
            Pod,
            "/api/v1/pods",
            self.hear,
            api=Api(way(self.double), clock, CountedIds()),
            clock=clock,
            ids=CountedIds(),
            metrics=self.metrics,
            relist_s=relist_s,
        )

    def hear(self, before: Pod | None, after: Pod | None) -> None:
        """Note what was told."""
        one = after or before
        assert one is not None
        word = "new" if before is None else "gone" if after is None else "changed"
        self.told.append(f"{word} {one.metadata.name}")

    def make(self, name: str) -> None:
        """A pod is created."""
        self.double.verbs.create(self.kind, "default", {**BODY, "metadata": {"name": name}})

    def drop(self, name: str) -> None:
        """A pod is deleted."""
        self.double.verbs.delete(self.kind, "default", name)

    def finish(self, name: str) -> None:
        """A pod succeeds."""
        pod = self.double.store.get("/pods", "default", name)
        assert pod is not None
        self.double.store.put("/pods", {**pod, "status": {"phase": "Succeeded"}}, pod)

    @property
    def names(self) -> list[str]:
        """Pods the watch has."""
        return sorted(name for _, name in self.watched.items)


@asynccontextmanager
async def watching(desk: Desk) -> AsyncIterator[Desk]:
    """The desk while it watches, after the first list."""
    tasks = Tasks()
    tasks.spawn(desk.watched.run(), name="watch")
    await asyncio.sleep(0.1)
    try:
        yield desk
    finally:
        await tasks.close()
        tasks.check()


def test_a_version_that_is_too_old_leads_to_a_list_that_tells_all_that_was_missed() -> None:
    """P01: 410 as an event of the stream."""
    live(too_old_story(Fault(method="GET", path="watch=true", times=0)))


def test_a_410_as_an_answer_leads_to_the_same() -> None:
    """P01: 410 as the status of the answer, with and without a body."""
    for bare in (False, True):
        live(too_old_story(Fault(method="GET", path="watch=true", status=410, reason="Expired", is_bare=bare)))


async def too_old_story(fault: Fault) -> None:
    desk = Desk()
    for name in ("a", "b", "c"):
        desk.make(name)
    async with watching(desk):
        assert desk.told == ["new a", "new b", "new c"]
        desk.double.faults.away = True
        desk.double.store.hang_up()
        await asyncio.sleep(0.01)
        desk.drop("a")
        desk.finish("b")
        desk.double.store.compact()
        desk.told.clear()
        desk.double.faults.away = False
        desk.double.faults.add(fault)
        await asyncio.sleep(30)
        assert desk.told == ["gone a", "changed b"]
        assert desk.watched.lists == 2
        desk.make("d")
        await asyncio.sleep(0.1)
        assert desk.told[-1] == "new d"


def test_watches_that_end_at_once_are_no_hot_loop_and_are_told() -> None:
    """P02: a thousand empty answers."""
    live(empty_story())


async def empty_story() -> None:
    desk = Desk()
    assert b'watch_failures_total{kind="pods"} 0.0' in desk.metrics.render(), (
        "alerts see no increase in what is not there"
    )
    async with watching(desk):
        desk.double.faults.add(Fault(method="GET", path="watch=true", times=1000, is_empty=True))
        desk.double.store.hang_up()
        before = len(desk.double.requests)
        desk.make("late")
        await asyncio.sleep(120)
        assert len(desk.double.requests) - before <= 120
        assert desk.watched.lists > 1
        assert desk.names == ["late"]
        failed = re.findall(
            rb"^gangline_kubernetes_watch_failures_total\{.*\} (.*)$", desk.metrics.render(), re.MULTILINE
        )
        assert float(failed[0]) > 0


HOPELESS: dict[str, Callable[[bytes], list[bytes]]] = {
    "a bookmark": lambda pod: [b'{"type":"BOOKMARK","object":' + pod + b"}"],
    "what is known": lambda pod: [b'{"type":"ADDED","object":' + pod + b"}"],
    "a word nobody knows": lambda pod: [b'{"type":"RENAMED","object":' + pod + b"}"],
    "a failure": lambda pod: [b'{"type":"ERROR","object":{"code":500,"reason":"InternalError"}}'],
    "too old": lambda pod: [b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}'],
    "a failure without words": lambda pod: [b'{"type":"ERROR"}'],
    "a failure of nothing": lambda pod: [b'{"type":"ERROR","object":null}'],
}
"""What a watch may say that helps nobody, before it ends at once."""


@pytest.mark.parametrize("what", HOPELESS)
def test_watches_that_say_nothing_new_and_end_at_once_are_no_hot_loop_either(what: str) -> None:
    live(hopeless_story(HOPELESS[what]))


async def hopeless_story(lines: Callable[[bytes], list[bytes]]) -> None:
    watches, is_well = 0, False

    class Hopeless(MemoryTransport):
        """Each stream ends at once, until it is well."""

        async def stream(self, path: str, query: str, idle_s: float) -> AsyncIterator[bytes]:
            """See Transport."""
            nonlocal watches
            watches += 1
            if is_well:
                async for one in super().stream(path, query, idle_s):
                    yield one
            for one in lines(msgspec.json.encode(self.double.store.get("/pods", "default", "a"))):
                yield one

    desk = Desk(Hopeless)
    desk.make("a")
    async with watching(desk):
        desk.make("late")
        await asyncio.sleep(60)
        assert watches <= 120, "a few requests per second at most"
        assert desk.names == ["a", "late"], "a list tells what no watch does"
        assert b'watch_failures_total{kind="pods"} 0.0' not in desk.metrics.render()
        is_well = True
        desk.finish("a")
        await asyncio.sleep(30)
        assert desk.told == ["new a", "new late", "changed a"]


def test_watches_that_end_after_each_word_are_begun_a_few_times_per_second() -> None:
    live(word_story())


async def word_story() -> None:
    watches = 0

    class Curt(MemoryTransport):
        """Each stream ends after one line."""

        async def stream(self, path: str, query: str, idle_s: float) -> AsyncIterator[bytes]:
            """See Transport."""
            nonlocal watches
            watches += 1
            async for one in super().stream(path, query, idle_s):
                yield one
                return

    desk = Desk(Curt)
    async with watching(desk):
        for number in range(200):
            desk.make(f"p{number}")
        await asyncio.sleep(10)
        assert watches <= 40
        await asyncio.sleep(290)
        assert len(desk.names) == 200


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"kind":"Status","status":"Failure"}', b'{"items":[]}'])
def test_an_answer_that_is_no_list_takes_nothing_away(body: bytes) -> None:
    live(no_list_story(body))


async def no_list_story(body: bytes) -> None:
    asked, is_well = 0, True

    class Hollow(MemoryTransport):
        """Its lists are none while it is not well."""

        async def send(self, method: str, path: str, query: str, data: Any, form: str, timeout_s: float) -> Answer:
            """See Transport."""
            nonlocal asked
            asked += not is_well
            return await super().send(method, path, query, data, form, timeout_s) if is_well else Answer(200, body)

    desk = Desk(Hollow, relist_s=20.0)
    desk.make("a")
    async with watching(desk):
        is_well = False
        await asyncio.sleep(120)
        assert 1 < asked <= 120
        assert desk.told == ["new a"]
        is_well = True
        desk.drop("a")
        await asyncio.sleep(60)
        assert desk.told == ["new a", "gone a"]


def test_a_long_list_whose_pages_are_always_too_old_is_read_at_once() -> None:
    live(old_pages_story())


async def old_pages_story() -> None:
    desk = Desk()
    for number in range(700):
        desk.make(f"p{number:04}")
    desk.double.faults.add(Fault(method="GET", path="continue=", status=410, reason="Expired", times=1000))
    async with watching(desk):
        await asyncio.sleep(30)
        assert len(desk.names) == 700


def test_a_delete_that_no_watch_told_is_found_and_a_new_pod_of_the_name_is_another() -> None:
    """P04: objects are told apart by uid."""
    live(unseen_story())


async def unseen_story() -> None:
    desk = Desk(relist_s=60.0)
    desk.make("a")
    async with watching(desk):
        uid = desk.watched.items["default", "a"].metadata.uid
        # Nobody is told of what happens now, as when a server restarts.
        watchers, desk.double.store.watchers = desk.double.store.watchers, []
        desk.drop("a")
        desk.make("a")
        assert watchers
        desk.told.clear()
        for watcher in watchers:
            watcher.end()
        desk.double.store.compact()
        await asyncio.sleep(90)
        assert desk.told == ["gone a", "new a"]
        assert desk.watched.items["default", "a"].metadata.uid != uid
        assert desk.watched.missed == 1
        lists = desk.watched.lists
        desk.told.clear()
        await asyncio.sleep(300)
        assert desk.watched.lists > lists, "it is compared with full lists all the time"
        assert (desk.watched.missed, desk.told) == (1, []), "and they report 0 differences"


def test_a_reader_that_is_too_slow_is_cut_off_and_misses_nothing() -> None:
    live(slow_story())


async def slow_story() -> None:
    desk = Desk()
    desk.double.store.slow_reader_events = 10
    async with watching(desk):
        for number in range(200):
            desk.make(f"p{number:03}")
        await asyncio.sleep(30)
        assert len(desk.names) == 200
        assert len(desk.told) == 200


def test_a_long_list_comes_in_pages() -> None:
    live(pages_story())


async def pages_story() -> None:
    desk = Desk()
    for number in range(1200):
        desk.make(f"p{number:04}")
    async with watching(desk):
        assert len(desk.names) == 1200
        assert sum(path == "/api/v1/pods" for _, path in desk.double.requests) == 4


def test_bookmarks_are_read_as_every_version_of_the_server_writes_them() -> None:
    live(bookmark_story())


async def bookmark_story() -> None:
    desk = Desk()
    async with watching(desk):
        desk.make("a")
        desk.double.store.version += 500
        await asyncio.sleep(130)
        assert int(desk.watched.version) == desk.double.store.version, "nothing of this kind happened since"
        assert desk.watched.lists == 1


@pytest.mark.parametrize("line", [b"{", b'{"type":"ADDED"}', b"<html>", b'{"type":"BOOKMARK","object":{"metadata":5}}'])
def test_a_stream_that_cannot_be_read_is_begun_anew_and_ends_nothing(line: bytes) -> None:
    live(broken_story(line))


@pytest.mark.parametrize("word", ["MODIFIED", "DELETED"])
@pytest.mark.parametrize("version", ["", "None", "x7", "9" * 5000])
def test_an_object_whose_version_is_no_number_is_heard_like_any_other(word: str, version: str) -> None:
    live(numberless_story(word, version))


async def numberless_story(word: str, version: str) -> None:
    left: list[bytes] = []

    class Numberless(MemoryTransport):
        """A stream of it begins with what was left for it."""

        async def stream(self, path: str, query: str, idle_s: float) -> AsyncIterator[bytes]:
            """See Transport."""
            while left:
                yield left.pop()
            async for one in super().stream(path, query, idle_s):
                yield one

    desk = Desk(Numberless)
    desk.make("a")
    async with watching(desk):
        known = desk.watched.items["default", "a"].metadata
        meta = {"name": "a", "namespace": "default", "uid": known.uid, "resourceVersion": version}
        left.append(msgspec.json.encode({"type": word, "object": {"metadata": meta, **BODY}}))
        desk.double.store.hang_up()
        await asyncio.sleep(20)
        desk.make("b")
        await asyncio.sleep(20)
        assert "b" in desk.names, "the watch goes on"


async def broken_story(line: bytes) -> None:
    left = [line]

    class Broken(MemoryTransport):
        """Its first stream begins with something else than an event."""

        async def stream(self, path: str, query: str, idle_s: float) -> AsyncIterator[bytes]:
            """See Transport."""
            while left:
                yield left.pop()
            async for one in super().stream(path, query, idle_s):
                yield one

    desk = Desk(Broken)
    async with watching(desk):
        await asyncio.sleep(5)
        desk.make("a")
        await asyncio.sleep(5)
        assert desk.names == ["a"]
        assert desk.watched.lists == 2


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_is_asked_again_for_what_happens_and_not_for_everything(status: int) -> None:
    live(busy_story(status))


async def busy_story(status: int) -> None:
    desk = Desk()
    desk.double.faults.add(Fault(method="GET", path="watch=true", status=status, reason="TooManyRequests", times=4))
    async with watching(desk):
        desk.make("a")
        await asyncio.sleep(20)
        assert desk.names == ["a"]
        assert desk.watched.lists == 1
