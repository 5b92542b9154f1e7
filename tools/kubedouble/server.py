"""The double itself: a request in, an answer or a stream of events out; no sockets, so that tests may go without."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec
import yaml
from msgspec import Struct

from kubedouble import discovery, patches, pods, protobuf, rights, scale, selectors, sizes, tables
from kubedouble.answers import Answer
from kubedouble.errors import ApiError, bad_request, invalid, not_found
from kubedouble.faults import Faults
from kubedouble.kinds import Kind, Kinds
from kubedouble.store import Object, Store, events, line_of
from kubedouble.verbs import APPLY, CRDS, Verbs

BOOKMARK_S = 60.0
WATCH_S_MAX = 1_800.0
ADMIN = "kubernetes-admin"


class Place(Struct, frozen=True):
    """What a path names."""

    kind: Kind
    namespace: str
    name: str
    sub: str


class Double:
    """A whole API server in memory."""

    def __init__(self, now: Callable[[], float], *, bookmark_s: float = BOOKMARK_S, token: str = "") -> None:
        """`now` gives seconds since 1970; with a `token`, requests without it are refused."""
        self.kinds = Kinds()
        self.store = Store()
        self.verbs = Verbs(self.store, self.kinds, now)
        self.faults = Faults()
        self.bookmark_s = bookmark_s
        self.tokens = {token} if token else set[str]()
        self.users: dict[str, str] = {}
        """Whose tokens these are; whoever shows another or none is the administrator."""
        self.rights: dict[str, tuple[rights.Rule, ...]] = {}
        """What each user may do; whoever is not named may do everything."""
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request, for what tests say about calls."""

    async def handle(
        self, method: str, path: str, query: str = "", body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """Answer one request."""
        headers = headers or {}
        self.requests.append((method, path))
        fault = self.faults.take(method, path, query)
        if fault is not None and fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        try:
            if fault is not None and fault.before:
                return fault.answer()
            shown = headers.get("Authorization", "").removeprefix("Bearer ")
            self.verbs.user = self.users.get(shown, ADMIN)
            if self.tokens and shown not in self.tokens:
                raise ApiError(401, "Unauthorized", "Unauthorized")
            self._permit(method, path, query)
            sizes.check_body(body)
            self.verbs.sizes.weight = len(body)
            answer = self._answer(method, path, parse_qs(query, keep_blank_values=True), body, headers)
        except ApiError as error:
            more = {"Retry-After": "1"} if error.code == 429 else {}
            answer = Answer(error.code, msgspec.json.encode(error.status()), headers=more)
        return fault.after(answer) if fault is not None else answer

    def _permit(self, method: str, path: str, query: str) -> None:
        user = self.verbs.user
        request = rights.request_of(method, path, is_watch="watch=true" in query) if user in self.rights else None
        if request is not None:
            rights.check(self.rights[user], user, request)

    def _answer(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes, headers: dict[str, str]
    ) -> Answer:
        if path in ("/livez", "/readyz", "/healthz"):
            return Answer(200, b"ok")
        if method == "GET" and (found := discovery.answer(self.kinds, self.verbs.schemas, path)) is not None:
            return Answer(200, msgspec.json.encode(found))
        place = self._place(path)
        ask = {key: values[-1] for key, values in query.items()}
        if method == "GET":
            return self._read(place, ask, headers)
        data = self._body(body, headers.get("Content-Type", "application/json"))
        code, item = self._write(method, place, ask, data, headers.get("Content-Type", "application/json"))
        return Answer(code, msgspec.json.encode(self._shown(place, item, headers)))

    def _place(self, path: str) -> Place:
        parts = [part for part in path.split("/") if part]
        if parts[:1] == ["api"] and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[:1] == ["apis"] and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and self.kinds.find(group, version, rest[2]):
            namespace, rest = rest[1], rest[2:]
        kind = self.kinds.find(group, version, rest[0])
        if kind is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return Place(kind, namespace, "".join(rest[1:2]), "/".join(rest[2:]))

    @staticmethod
    def _body(body: bytes, form: str) -> Any:
        if not body:
            return {}
        if "protobuf" in form:
            return protobuf.read(body)
        try:
            return yaml.safe_load(body) if "yaml" in form else msgspec.json.decode(body)
        except (msgspec.DecodeError, yaml.YAMLError) as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None

    # --- reading ------------------------------------------------------------------------------------------

    def _read(self, place: Place, ask: dict[str, str], headers: dict[str, str]) -> Answer:
        if place.name:
            item = self.verbs.find(place.kind, place.namespace, place.name)
            if place.sub not in ("", "status", *place.kind.subresources):
                raise not_found(f"{place.kind.resource}/{place.sub}", place.name)
            if place.sub == "scale":
                item = scale.read(self.verbs, place.kind, item)
            return Answer(200, msgspec.json.encode(self._shown(place, item, headers)))
        claim = self._claim(place.kind, ask)
        if ask.get("watch") not in ("true", "1"):
            _check_list(ask)
        if ask.get("watch") in ("true", "1"):
            return self._watch(place, ask, claim, headers)
        items = [item for item in self.store.all(place.kind.storage, place.namespace) if claim(item)]
        limit = int(ask.get("limit") or 0)
        shown, token, left, version = self.store.page(items, limit, ask.get("continue", ""))
        meta: Object = {"resourceVersion": str(version)}
        if not place.kind.custom:
            # Only objects of custom kinds say in a list what they are.
            shown = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in shown]
        if token:
            meta |= {"continue": token, "remainingItemCount": left}
        listed = {
            "kind": f"{place.kind.name}List",
            "apiVersion": place.kind.api_version,
            "metadata": meta,
            "items": shown,
        }
        return Answer(200, msgspec.json.encode(self._shown(place, listed, headers)))

    def _claim(self, kind: Kind, ask: dict[str, str]) -> selectors.Claim:
        chosen = [selectors.labels(ask["labelSelector"])] if ask.get("labelSelector") else []
        if ask.get("fieldSelector"):
            chosen.append(selectors.fields(ask["fieldSelector"], kind.name))
        return lambda item: all(claim(item) for claim in chosen)

    def _watch(self, place: Place, ask: dict[str, str], claim: selectors.Claim, headers: dict[str, str]) -> Answer:
        since = ask.get("resourceVersion", "")
        with_initial = ask.get("sendInitialEvents") == "true"
        if with_initial and ask.get("resourceVersionMatch") != "NotOlderThan":
            why = "sendInitialEvents: Forbidden: requires resourceVersionMatch to be NotOlderThan"
            raise invalid("ListOptions", "", [why])
        if not with_initial and ask.get("resourceVersionMatch"):
            raise invalid("ListOptions", "", ["resourceVersionMatch: Forbidden: is forbidden for watch without it"])
        try:
            start = None if since in ("", "0") or with_initial else int(since)
            watcher = self.store.open(place.kind.storage, place.namespace, start)
        except ValueError:
            raise bad_request(f'invalid resource version "{since}"') from None
        except ApiError as error:
            if error.code != 410:
                raise
            return Answer(200, stream=_only(line_of("ERROR", error.status())))
        wants_marks = ask.get("allowWatchBookmarks") == "true"

        def bookmark() -> Object | None:
            return self._bookmark(place.kind) if wants_marks else None

        stream = events(watcher, claim, bookmark, self.bookmark_s)
        if with_initial:
            stream = self._with_initial(stream, watcher.changes, place.kind)
        if "as=Table" in headers.get("Accept", ""):
            stream = self._tabled(stream, place)
        return Answer(200, stream=self._until(stream, watcher, float(ask.get("timeoutSeconds") or WATCH_S_MAX)))

    def _bookmark(self, kind: Kind, *, ends_initial: bool = False) -> Object:
        # An object without content, as typed servers before 1.34 write one.
        meta: Object = {"resourceVersion": str(self.store.version), "creationTimestamp": None}
        if ends_initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        empty = {"spec": {"containers": None}, "status": {}} if kind.name == "Pod" else {}
        return {"kind": kind.name, "apiVersion": kind.api_version, "metadata": meta, **empty}

    async def _with_initial(self, stream: AsyncIterator[bytes], waiting: Any, kind: Kind) -> AsyncIterator[bytes]:
        """The objects there are, then a bookmark that says so, then what happens."""
        mark = line_of("BOOKMARK", self._bookmark(kind, ends_initial=True))
        if waiting:
            yield await anext(stream)
        yield mark
        async for part in stream:
            yield part

    async def _tabled(self, stream: AsyncIterator[bytes], place: Place) -> AsyncIterator[bytes]:
        async for part in stream:
            for line in part.splitlines():
                event = msgspec.json.decode(line)
                if event["type"] != "BOOKMARK":
                    event["object"] = tables.table(place.kind, self._definition(place.kind), event["object"])
                yield msgspec.json.encode(event) + b"\n"

    async def _until(self, stream: AsyncIterator[bytes], watcher: Any, seconds: float) -> AsyncIterator[bytes]:
        """End the watch after its time, and forget it however it ends."""
        handle = asyncio.get_running_loop().call_later(seconds, watcher.end)
        try:
            async for part in self.faults.flow(stream):
                yield part
        finally:
            handle.cancel()
            if watcher in self.store.watchers:
                self.store.watchers.remove(watcher)

    def _definition(self, kind: Kind) -> Object | None:
        return self.store.get(CRDS, "", f"{kind.plural}.{kind.group}")

    def _shown(self, place: Place, item: Object, headers: dict[str, str]) -> Object:
        if "as=Table" in headers.get("Accept", "") and item.get("kind") != "Status":
            return tables.table(place.kind, self._definition(place.kind), item)
        return item

    # --- writing ------------------------------------------------------------------------------------------

    def _write(self, method: str, place: Place, ask: dict[str, str], data: Any, form: str) -> tuple[int, Object]:
        kind, namespace, verbs = place.kind, place.namespace, self.verbs
        strict, dry = ask.get("fieldValidation") == "Strict", ask.get("dryRun") == "All"
        if place.sub not in ("", "status", *kind.subresources):
            raise not_found(f"{kind.resource}/{place.sub}", place.name)
        if place.sub in kind.subresources:
            return self._write_part(method, place, data)
        if method == "POST":
            return 201, verbs.create(kind, namespace, data, strict=strict, dry=dry)
        if method == "PUT":
            return 200, verbs.update(kind, namespace, data, status=place.sub == "status", strict=strict, dry=dry)
        if method == "PATCH":
            existed = self.store.get(kind.storage, namespace, place.name) is not None
            item = verbs.patch(
                kind,
                namespace,
                place.name,
                form=form.partition(";")[0],
                data=data,
                status=place.sub == "status",
                strict=strict,
                manager=ask.get("fieldManager", "unknown"),
                force=ask.get("force") == "true",
                dry=dry,
            )
            return (201 if not existed and form in APPLY else 200), item
        if method == "DELETE":
            options = {**data, **({"gracePeriodSeconds": int(g)} if (g := ask.get("gracePeriodSeconds")) else {})}
            if place.name:
                return 200, verbs.delete(kind, namespace, place.name, options)
            claim = self._claim(kind, ask)
            for item in [item for item in self.store.all(kind.storage, namespace) if claim(item)]:
                verbs.delete(kind, item["metadata"].get("namespace", ""), item["metadata"]["name"], options)
            return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        raise ApiError(405, "MethodNotAllowed", f"the server does not allow this method: {method}")

    def _write_part(self, method: str, place: Place, data: Any) -> tuple[int, Object]:
        """What is done to objects beside changing them."""
        kind, namespace, verbs = place.kind, place.namespace, self.verbs
        if place.sub == "binding" and method == "POST":
            return 201, pods.bind(verbs, kind, namespace, place.name, data)
        if place.sub == "eviction" and method == "POST":
            return 201, pods.evict(verbs, kind, namespace, place.name, data)
        found = verbs.find(kind, namespace, place.name)
        if place.sub == "ephemeralcontainers" and method in ("PATCH", "PUT"):
            return 200, pods.debug(verbs, kind, found, data)
        if place.sub == "scale" and method in ("PATCH", "PUT"):
            wanted = patches.merge(scale.read(verbs, kind, found, is_written=True), data) if method == "PATCH" else data
            return 200, scale.write(verbs, kind, found, wanted)
        raise ApiError(405, "MethodNotAllowed", f"the server does not allow this method: {method}")


def _check_list(ask: dict[str, str]) -> None:
    """What the options of a list may say together.

    Raises:
        ApiError: they contradict each other.
    """
    match, version = ask.get("resourceVersionMatch", ""), ask.get("resourceVersion", "")
    faults = []
    if match and not version:
        faults.append("resourceVersionMatch: Forbidden: is forbidden unless resourceVersion is provided")
    if match and ask.get("continue"):
        faults.append("resourceVersionMatch: Forbidden: is forbidden when continue is provided")
    if match not in ("", "Exact", "NotOlderThan"):
        faults.append(f'resourceVersionMatch: Unsupported value: "{match}"')
    if match == "Exact" and version == "0":
        faults.append('resourceVersionMatch: Forbidden: "Exact" is forbidden for resourceVersion "0"')
    if faults:
        raise invalid("ListOptions", "", faults)


async def _only(line: bytes) -> AsyncIterator[bytes]:
    yield line
