"""The objects, one numeric version for all of them, and everybody who watches: what etcd and the watch cache do."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from msgspec import Struct

from kubedouble.errors import ApiError, gone
from kubedouble.selectors import Claim

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace ("" for none) and name."""

HISTORY_MAX = 100_000
SLOW_READER_EVENTS = 10_000
"""A watch whose reader is so many events behind is ended, as the real server does."""
PAGES_MAX = 50


class Change(Struct, frozen=True):
    """One write: what became of one object."""

    version: int
    storage: str
    verb: str
    """ADDED, MODIFIED or DELETED."""
    after: Object
    before: Object | None = None


class Watcher:
    """One open watch: changes that wait to be read."""

    def __init__(self, storage: str, namespace: str, most: int) -> None:
        """Nothing has happened yet."""
        self.storage = storage
        self.namespace = namespace
        self.changes: deque[Change] = deque()
        self.woken = asyncio.Event()
        self.ended = False
        self._most = most

    def hear(self, change: Change) -> None:
        """Take in a change, or end when the reader is too far behind."""
        if self.namespace and change.after["metadata"].get("namespace") != self.namespace:
            return
        if len(self.changes) >= self._most:
            self.ended = True
        else:
            self.changes.append(change)
        self.woken.set()

    def end(self) -> None:
        """The server hangs up."""
        self.ended = True
        self.woken.set()


class Store:
    """Everything the double remembers. Stored objects are never changed in place."""

    def __init__(self) -> None:
        """Empty; versions begin well above zero, as on a server that has lived."""
        self.version = 1000
        self.oldest = 1000
        """Watches from before this are too old."""
        self.objects: dict[str, dict[Key, Object]] = {}
        self.history: deque[Change] = deque()
        self.watchers: list[Watcher] = []
        self.listeners: list[Callable[[Change], None]] = []
        self.slow_reader_events = SLOW_READER_EVENTS
        self.made = 0
        self._pages: dict[str, tuple[int, list[Object]]] = {}

    def get(self, storage: str, namespace: str, name: str) -> Object | None:
        """The object, or None."""
        return self.objects.get(storage, {}).get((namespace, name))

    def all(self, storage: str, namespace: str = "") -> list[Object]:
        """Objects of a kind in the order of their names."""
        found = self.objects.get(storage, {})
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def put(self, storage: str, item: Object, before: Object | None) -> Object:
        """Store an object, new or changed, under the next version; gives it with its version."""
        self.version += 1
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
        self.objects.setdefault(storage, {})[key] = item
        self._tell(Change(self.version, storage, "MODIFIED" if before else "ADDED", item, before))
        return item

    def remove(self, storage: str, item: Object) -> Object:
        """Forget an object; gives it with the version of its end."""
        self.version += 1
        del self.objects[storage][item["metadata"].get("namespace", ""), item["metadata"]["name"]]
        last = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        self._tell(Change(self.version, storage, "DELETED", last, item))
        return last

    def compact(self) -> None:
        """Forget the history: every version before now is too old, and open pages are gone."""
        self.history.clear()
        self.oldest = self.version
        self._pages.clear()

    def hang_up(self) -> None:
        """End every open watch."""
        for watcher in self.watchers:
            watcher.end()

    def _tell(self, change: Change) -> None:
        self.history.append(change)
        while len(self.history) > HISTORY_MAX:
            self.oldest = self.history.popleft().version
        for watcher in self.watchers:
            if watcher.storage == change.storage:
                watcher.hear(change)
        for listener in tuple(self.listeners):
            listener(change)

    # --- pages and watches --------------------------------------------------------------------------------

    def page(self, items: list[Object], limit: int, token: str) -> tuple[list[Object], str, int, int]:
        """One page of a list: its items, the token of the next, how many remain, and the list's version.

        Raises:
            ApiError: the token is too old.
        """
        version, start = self.version, 0
        if token:
            name, _, at = token.partition("-")
            if name not in self._pages:
                raise gone("The provided continue parameter is too old to display a consistent list result.")
            version, items = self._pages[name]
            start = int(at)
        end = start + limit if limit else len(items)
        if end >= len(items):
            return items[start:], "", 0, version
        name = token.partition("-")[0] or f"p{version}x{len(self._pages)}"
        self._pages[name] = (version, items)
        while len(self._pages) > PAGES_MAX:
            del self._pages[next(iter(self._pages))]
        return items[start:end], f"{name}-{end}", len(items) - end, version

    def open(self, storage: str, namespace: str, since: int | None) -> Watcher:
        """A watch of everything after a version; of what there is now and everything after it, without one.

        Raises:
            ApiError: the version is too old, or not yet reached.
        """
        watcher = Watcher(storage, namespace, self.slow_reader_events)
        if since is None:
            for item in self.all(storage, namespace):
                watcher.hear(Change(int(item["metadata"]["resourceVersion"]), storage, "ADDED", item))
        elif since < self.oldest:
            raise gone(f"too old resource version: {since} ({self.version})")
        elif since > self.version:
            raise ApiError(504, "Timeout", f"Too large resource version: {since}, current: {self.version}")
        else:
            for change in reversed(self.history):
                if change.version <= since:
                    break
                if change.storage == storage and (
                    not namespace or change.after["metadata"].get("namespace") == namespace
                ):
                    watcher.changes.appendleft(change)
        self.watchers.append(watcher)
        return watcher


async def events(
    watcher: Watcher, claim: Claim, bookmark: Callable[[], Object | None], idle_s: float, first: bytes = b""
) -> AsyncIterator[bytes]:
    """The watch's events as lines; what stops matching the selectors is told as deleted. Ends when the watch does."""
    if first:
        yield first
    while True:
        lines = []
        while watcher.changes:
            if line := _line(watcher.changes.popleft(), claim):
                lines.append(line)
        if lines:
            yield b"".join(lines)
            continue
        if watcher.ended:
            return
        watcher.woken.clear()
        try:
            async with asyncio.timeout(idle_s):
                await watcher.woken.wait()
        except TimeoutError:
            if (mark := bookmark()) is not None:
                yield line_of("BOOKMARK", mark)


def _line(change: Change, claim: Claim) -> bytes:
    is_now = change.verb != "DELETED" and claim(change.after)
    was = change.before is not None and claim(change.before)
    if is_now:
        return line_of("MODIFIED" if was else "ADDED", change.after)
    if was or (change.verb == "DELETED" and claim(change.after)):
        return line_of("DELETED", change.after)
    return b""


def line_of(verb: str, item: Object) -> bytes:
    """One event of a watch."""
    return msgspec.json.encode({"type": verb, "object": item}) + b"\n"
