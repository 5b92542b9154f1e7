"""List and watch one kind: a cache that is always some true moment of the server, whatever is lost on the way."""

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from gangline_kit.clock import Clock
from gangline_kit.errors import TemporaryError
from gangline_kit.ids import Ids
from gangline_kit.metrics import Metrics
from gangline_kubernetes.api import Api, RefusedError, wait_s
from gangline_kubernetes.objects import Event, Failure, Listed, Mark, Meta
from gangline_kubernetes.shallow import read

log = logging.getLogger(__name__)


class Thing(Protocol):
    """Any object of a cluster."""

    @property
    def metadata(self) -> Meta:
        """Its name, version and marks."""


T = TypeVar("T", bound=Thing)
Key = tuple[str, str]
"""Namespace and name."""

PAGE = 500
WATCH_S = 300
"""The server is asked to end each watch after about this long, so that load spreads over its copies."""
IDLE_S = 90.0
"""A watch without any line for longer (bookmarks come each minute) is dead, whatever the connection says."""
ABSENT_S = 60.0
"""A kind that is not there is looked for again after this: its definition may be made at any time."""
STEP_S = 1.0
"""Or after this, when somebody speaks of its objects."""
AWAY_S = 5.0
"""The same for one that was there before, which may be back at once."""
GONE_S = 300.0
"""One that is not served for so long is gone, and its objects with it; before that, what was known of them stands."""
BUSY = frozenset({429, 503})
"""Answers of a server that begins, or has too much to do: what is known stays good for when it has not."""
EMPTY_MAX = 3
"""After so many watches in a row that ended at once, everything is listed anew."""
SHORT_S = 1.0
"""A watch that ended sooner ended at once, and the next one is not begun in the same moment whatever it told."""
CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Watched(Generic[T]):
    """The objects of one kind, kept current; `changed(before, after)` hears of each difference and must not raise."""

    def __init__(
        self,
        kind: type[T],
        path: str,
        changed: Callable[[T | None, T | None], None],
        *,
        api: Api,
        clock: Clock,
        ids: Ids,
        metrics: Metrics,
        relist_s: float,
        is_optional: bool = False,
    ) -> None:
        """Nothing is read before `run`; an optional kind may be one that this cluster does not have."""
        self.items: dict[Key, T] = {}
        self.version = ""
        self.is_synced = False
        """True once everything was listed."""
        self.lists = 0
        self.missed = 0
        """Differences that a list found and no watch had told."""
        self._path = path
        self._changed = changed
        self._api = api
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        self._relist_s = relist_s
        self._is_optional = is_optional
        self._listed_s = 0.0
        self._away_s: float | None = None
        """Since when its kind is not served, or not for us."""
        self.is_gone = False
        """True for a kind that is not served, and has not been for long."""
        self._is_wanted = False
        self._follows_since_s: float | None = None
        self._page: msgspec.json.Decoder[Listed[T]] = msgspec.json.Decoder(Listed[kind])  # type: ignore[valid-type]  # the type is known at run time only
        self._pieces = msgspec.json.Decoder(Listed[msgspec.Raw])
        self._bare = msgspec.json.Decoder(Mark)
        self._item: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._event = msgspec.json.Decoder(Event)
        self.name = path.rpartition("/")[2]
        for counter in ("gangline_kubernetes_watch_failures_total", "gangline_kubernetes_unreadable_total"):
            metrics.stand(counter, kind=self.name)

    @property
    def is_known(self) -> bool:
        """True when the objects that are there were listed, or there is no such kind."""
        return (self.lists > 0 and self._away_s is None) or self.is_gone

    def follows(self, for_s: float) -> bool:
        """True when nothing has gone wrong with the watch for so long: what it does not tell has not happened."""
        since_s = self._follows_since_s
        return since_s is not None and self._clock.monotonic_s() - since_s >= for_s

    async def run(self) -> None:
        """Keep the cache current until cancelled."""
        failures = empty = 0
        while True:
            is_short = False
            try:
                if not self.version or self._clock.monotonic_s() - self._listed_s >= self._relist_s:
                    await self.list()
                if self._follows_since_s is None:
                    self._follows_since_s = self._clock.monotonic_s()
                began_s = self._clock.monotonic_s()
                heard = await self._watch()
            except RefusedError as error:
                self._follows_since_s = None
                self.version = self.version if error.code in BUSY else ""
                if self._is_optional and error.code in (403, 404):
                    await self._do_without(error)
                    continue
                failures += 0 if error.code == 410 else 1
                empty += error.code == 410
                is_failing = failures >= EMPTY_MAX and error.code not in BUSY
                log.info("watch of %s: %s", self.name, error)
            except (TemporaryError, msgspec.MsgspecError, RecursionError) as error:
                self._follows_since_s = None
                # What cannot be read as a whole is listed anew, one object at a time.
                self.version = self.version if isinstance(error, TemporaryError) else ""
                failures += 1
                is_failing = failures >= EMPTY_MAX and not isinstance(error, TemporaryError)
                log.warning("watch of %s: %s", self.name, error)
            else:
                is_short = self._clock.monotonic_s() - began_s < SHORT_S
                failures, empty, is_failing = 0, 0 if heard or not is_short else empty + 1, False
            if empty >= EMPTY_MAX:
                self.version = ""
            if is_failing or empty >= EMPTY_MAX:
                self._metrics.count("gangline_kubernetes_watch_failures_total", kind=self.name)
            if failures or empty or is_short:
                await self._clock.sleep(wait_s(failures + empty or EMPTY_MAX, self._ids))

    async def _do_without(self, error: RefusedError) -> None:
        """The cluster has no such kind, or does not let us see it: looked at again later.

        That may pass, as definitions and rights are made anew when their owner is upgraded, and a server that has just
        begun knows few of them. So what was known stands until the kind was not served for long.
        """
        now_s = self._clock.monotonic_s()
        if self._away_s is None:
            self._away_s = now_s
            log.info("%s: %s", self.name, error)
        if error.code == 404 and now_s - self._away_s >= GONE_S:
            self.is_gone = True
            for key, before in list(self.items.items()):
                self._put(key, before, None)
        self.is_synced, self._is_wanted = True, False
        end_s = now_s + (AWAY_S if self.lists and not self.is_gone else ABSENT_S)
        while not self._is_wanted and (left_s := end_s - self._clock.monotonic_s()) > 0:
            await self._clock.sleep(min(STEP_S, left_s))

    def look_again(self) -> None:
        """Somebody speaks of an object of this kind: if it was not there, it may be by now."""
        self._is_wanted = True

    async def list(self) -> None:
        """Read everything and tell every difference from what was known.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        found: dict[Key, T] = {}
        query = {"limit": str(PAGE)}
        while True:
            try:
                page = self._read_page(await self._api.call("GET", self._path, query=query))
            except RefusedError as error:
                if error.code != 410 or "continue" not in query:
                    raise
                # What the pages are of became too old between two of them: all of it at once.
                found, query = {}, {}
                continue
            if not page.metadata.resource_version:
                raise TemporaryError("what was answered is no list")
            found.update({key_of(item): item for item in page.items or ()})
            if not page.metadata.next:
                break
            query["continue"] = page.metadata.next
        was_synced, told = self.is_synced, 0
        for key, before in list(self.items.items()):
            if key not in found:
                told += self._put(key, before, None)
        for key, item in found.items():
            told += self._put(key, self.items.get(key), item)
        self.version, self.is_synced = page.metadata.resource_version, True
        self._away_s, self.is_gone = None, False
        self.lists += 1
        self._listed_s = self._clock.monotonic_s()
        if was_synced and told:
            self.missed += told
            self._metrics.count("gangline_kubernetes_missed_changes_total", told, kind=self.name)

    def _read_page(self, data: bytes) -> Listed[T]:
        """A page of the list, without the objects that cannot be read; what was known of those stands."""
        try:
            return read(self._page, data)
        except msgspec.MsgspecError:
            page = read(self._pieces, data)
        found = (self._read(piece) for piece in page.items or ())
        return Listed(metadata=page.metadata, items=[item for item in found if item is not None])

    def _read(self, data: msgspec.Raw) -> T | None:
        """One object; when it cannot be read, what is known of it, and None where that is nothing."""
        try:
            return read(self._item, data)
        except msgspec.MsgspecError as error:
            self._metrics.count("gangline_kubernetes_unreadable_total", kind=self.name)
            log.warning("one of %s cannot be read: %s", self.name, error)
            return self.items.get(key_of(read(self._bare, data)))

    def _put(self, key: Key, before: T | None, after: T | None) -> bool:
        """Enter a change and tell it; another object of the same name is a deletion and a new one."""
        if before is not None and after is not None:
            if before.metadata.resource_version == after.metadata.resource_version:
                return False
            if before.metadata.uid != after.metadata.uid:
                del self.items[key]
                self._tell(key, before, None)
                before = None
        if after is None:
            self.items.pop(key, None)
        else:
            self.items[key] = after
        self._tell(key, before, after)
        return True

    def _tell(self, key: Key, before: T | None, after: T | None) -> None:
        """Tell one change: an object that somebody cannot cope with must not keep us from all others."""
        try:
            self._changed(before, after)
        except Exception:
            self._metrics.count("gangline_kubernetes_unreadable_total", kind=self.name)
            log.exception("%s %s", self.name, "/".join(key))

    async def _watch(self) -> bool:
        """Follow until the server ends the watch; True when it told anything new.

        Raises:
            RefusedError: the version is too old.
            TemporaryError: the connection broke.
        """
        seconds = int(min(WATCH_S, max(1.0, self._relist_s)) * (0.75 + self._ids.fraction() / 2))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            "timeoutSeconds": str(seconds),
        }
        heard = False
        async for line in self._api.transport.stream(self._path, urlencode(query), IDLE_S):
            event = read(self._event, line)
            if event.type == "ERROR":
                status = msgspec.json.decode(event.object, type=Failure)
                raise RefusedError(status.code, status.reason, status.message)
            if event.type == "BOOKMARK":
                self.version = msgspec.json.decode(event.object, type=Mark).metadata.resource_version
                continue
            heard |= self._hear(event)
        return heard

    def _hear(self, event: Event) -> bool:
        """Enter what a watch tells; True when it was not known."""
        if event.type not in CHANGES:
            raise msgspec.ValidationError(f"a watch tells {event.type}")
        bare = read(self._bare, event.object)
        version = self.version = bare.metadata.resource_version
        if event.type == "DELETED":
            known = self.items.get(key_of(bare))
            if known is not None and known.metadata.uid == bare.metadata.uid and not _is_newer(known, version):
                return self._put(key_of(bare), known, None)
            return False
        item = self._read(event.object)
        if item is None or item.metadata.resource_version != version:
            return False
        key = key_of(item)
        known = self.items.get(key)
        # One of which we know a later version was told by a list already.
        return (known is None or not _is_newer(known, version)) and self._put(key, known, item)


def _is_newer(known: Thing, version: str) -> bool:
    """True for an object of which we know a later version than this; what is no number is neither later nor earlier."""
    versions = (known.metadata.resource_version, version)
    if not all(one.isascii() and one.isdecimal() for one in versions):
        return False
    # As numbers compare, however long they are.
    ours, theirs = (one.lstrip("0") for one in versions)
    return (len(ours), ours) > (len(theirs), theirs)


def key_of(item: Thing) -> Key:
    """Where the object stands in a cache."""
    return item.metadata.namespace, item.metadata.name
