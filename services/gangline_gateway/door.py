"""What happens to every request before and after its handler: host, identity, query, problems, metrics, request id."""

import logging
import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from gangline_gateway.access import Caller, Role
from gangline_gateway.auth import authenticate, jwt_of
from gangline_gateway.call import TRUE, Answer, Call, Desk, Outcome, encode_view, line_safe
from gangline_gateway.config import ANY
from gangline_gateway.meter import Meter
from gangline_gateway.problems import MEDIA_TYPE, ProblemError
from gangline_gateway.ready import Ready, may_be_ready
from gangline_gateway.table import Route
from gangline_wire.limits import most

if TYPE_CHECKING:
    from gangline_gateway.oidc import Issuer

log = logging.getLogger(__name__)
audit = logging.getLogger("gangline.audit")

REQUEST_ID = "X-Request-Id"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
SAID_ONCE = (hdrs.AUTHORIZATION, hdrs.CONTENT_TYPE, hdrs.ORIGIN, "Idempotency-Key", "If-Match", "Last-Event-ID")
"""Headers of which we would go by the first of two."""
NOBODY = Caller(user="", role=Role.READONLY, name="", groups=("-",))
"""Who calls a route that is open to all."""

NOT_THEIRS = frozenset({403, 404})
"""Answers to a change of what is not the caller's to change; their audit lines are warnings."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:\-]{1,128}", re.ASCII)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door:
    """The one way in, shared by all routes of a gateway."""

    def __init__(self, desk: Desk) -> None:
        """Hosts and origins come from the configuration."""
        self._desk = desk
        config = desk.config
        names = {name.strip().lower() for name in config.hosts.split(",") if name.strip()}
        self._hosts = frozenset(names | LOOPBACK | {config.host.lower()})
        self._origins = frozenset(origin.strip().lower() for origin in config.origins.split(",") if origin.strip())
        self.routes: dict[web.AbstractRoute, Route] = {}
        """What to do for each route of the application."""
        self.in_flight = 0
        self._meter = Meter(desk.site.metrics)
        self._issuer = _issuer_of(desk)
        if self._issuer is not None:
            desk.still_holds = self._issuer.still_holds

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Everything around one request."""
        clock = self._desk.site.clock
        begun_s = clock.monotonic_s()
        request_id = self._request_id(request)
        route = self.routes.get(request.match_info.route)
        self.in_flight += 1
        try:
            try:
                _check_said_once(request)
                self._check_host(request)
                _check_plain(request)
                response = await self._serve(request, handler, route, request_id)
            except ProblemError as problem:
                response = self._problem(request, problem, request_id)
        finally:
            self.in_flight -= 1
        self._meter.note(route, response.status, clock.monotonic_s() - begun_s)
        return response

    async def _serve(
        self, request: web.Request, handler: Handler, route: Route | None, request_id: str
    ) -> web.StreamResponse:
        if route is None:
            return await self._unrouted(request, handler)
        caller = NOBODY
        if not route.is_open:
            self._check_ready()
            caller = await self._caller(request.headers.get(hdrs.AUTHORIZATION))
        call = Call(self._desk, request, caller=caller, request_id=request_id)
        call.check_query(route.query_names)
        work = self._change if route.changes else self._answered
        if route.is_open or (route.changes and call.text("dry_run") not in TRUE):
            return await work(call, route)
        self._desk.shares.check(caller)
        return await self._desk.shares.timed(caller, work(call, route), counts=lambda: not call.follows)

    async def _answered(self, call: Call, route: Route) -> web.StreamResponse:
        return self._response(call, await self._run(call, route))

    async def _caller(self, header: str | None) -> Caller:
        """Who calls: by a token of ours, or by one of the identity provider."""
        if self._issuer is not None and (secret := jwt_of(header)):
            return await self._issuer.caller(secret)
        return authenticate(self._desk.state, header, self._desk.site.now_ms())

    async def _change(self, call: Call, route: Route) -> web.StreamResponse:
        """A request that changes something leaves a line in the audit log, whatever comes of it."""
        status = 500
        try:
            response = await self._answered(call, route)
            status = response.status
            return response
        except ProblemError as problem:
            status = problem.status
            raise
        finally:
            level = logging.WARNING if status in NOT_THEIRS else logging.INFO
            if audit.isEnabledFor(level):
                who = (line_safe(call.caller.user), call.caller.role.value)
                audit.log(level, "%s %s by %s (%s): %d [%s]", route.method, call.path, *who, status, call.request_id)

    async def _run(self, call: Call, route: Route) -> Outcome:
        try:
            return await route.handler(call)
        except (ProblemError, web.HTTPException, ConnectionResetError):
            raise
        except Exception:
            # The client hears that the fault is ours; the log says what it was. One request must not end the service.
            log.exception("%s %s failed [%s]", route.method, route.template, call.request_id)
            raise ProblemError("internal", "Report it with the request id.") from None

    async def _unrouted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPNotFound:
            raise ProblemError("not_found", "No route has this address; see /openapi.json.") from None
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            raise ProblemError("method_not_allowed", f"Allowed: {allowed}.", headers={"Allow": allowed}) from None
        except web.HTTPRequestEntityTooLarge:
            raise ProblemError("body_too_large", f"The limit is {most('body_bytes')} bytes.") from None
        except web.HTTPException as error:
            raise ProblemError("malformed_request", error.reason) from None

    def _response(self, call: Call, outcome: Outcome) -> web.StreamResponse:
        if isinstance(outcome, web.StreamResponse):
            return outcome
        if not isinstance(outcome, Answer):
            outcome = Answer(outcome)
        body = outcome.view if isinstance(outcome.view, bytes) else encode_view(outcome.view)
        headers = {
            hdrs.CONTENT_TYPE: outcome.media_type,
            REQUEST_ID: call.request_id,
            **SAFE_HEADERS,
            **outcome.headers,
        }
        if may_be_ready(call.request, body):
            return Ready(status=outcome.status, headers=headers, body=body)
        return web.Response(body=body, status=outcome.status, headers=headers)

    def _problem(self, request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
        headers = {hdrs.CONTENT_TYPE: MEDIA_TYPE, REQUEST_ID: request_id, **SAFE_HEADERS, **problem.headers}
        if problem.retry_after_s is not None:
            headers["Retry-After"] = str(max(1, round(problem.retry_after_s)))
        view = problem.view(instance=request.path, request_id=request_id)
        response = web.Response(body=encode_view(view), status=problem.status, headers=headers)
        if problem.status in (413, 415):
            # What is left of the body is not read, so the connection cannot be used again.
            response.force_close()
        return response

    def _request_id(self, request: web.Request) -> str:
        given = request.headers.get(REQUEST_ID)
        return given if given and _REQUEST_ID.fullmatch(given) else self._desk.site.ids.name()

    def _check_ready(self) -> None:
        if not self._desk.site.follower.caught_up:
            raise ProblemError("unavailable", "The gateway is still reading the log.", retry_after_s=1.0)

    def _check_host(self, request: web.Request) -> None:
        """Guard against web pages that reach a local port by a name of their own (DNS rebinding) or across origins.

        Raises:
            ProblemError: a host name that is not ours, or a foreign origin.
        """
        host = request.headers.get(hdrs.HOST, "")
        if ANY not in self._hosts and _host_name(host) not in self._hosts:
            raise ProblemError("forbidden_host", "Add the name to GANGLINE_GATEWAY_HOSTS if it is yours.")
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None or origin.lower() in self._origins or _netloc(origin) == host.lower():
            return
        raise ProblemError("forbidden_host", "Pages of this origin may not call here.")


def _check_said_once(request: web.Request) -> None:
    """A proxy before us may have judged by the one where we would go by the other.

    Raises:
        ProblemError: two tokens, keys or the like, or an address of one host that was sent to another.
    """
    for name in SAID_ONCE:
        if len(request.headers.getall(name, ())) > 1:
            raise ProblemError("malformed_request", f"The header {name} may stand there once.")
    named = _netloc(request.raw_path) if "://" in request.raw_path.partition("?")[0] else ""
    if named and named != request.headers.get(hdrs.HOST, "").lower():
        raise ProblemError("malformed_request", "The address and the header Host name different hosts.")


def _check_plain(request: web.Request) -> None:
    """A body comes as it is: a packed one could be a thousand times as large as what was sent.

    Raises:
        ProblemError: it is packed.
    """
    packing = request.headers.get(hdrs.CONTENT_ENCODING)
    if packing is not None and packing.strip().lower() != "identity":
        raise ProblemError("unsupported_media_type", "Send the body as it is, without Content-Encoding.")


def _issuer_of(desk: Desk) -> "Issuer | None":
    """The identity provider, if there is one: only then is what checks signatures loaded, which takes a while."""
    if not desk.config.oidc_issuer:
        return None
    from gangline_gateway.oidc import issuer_of

    return issuer_of(desk.config, desk.site.clock, desk.site.tasks)


async def never_called(request: web.Request) -> web.StreamResponse:
    """What the router holds for a route; the door calls the route's own handler instead."""
    raise web.HTTPNotImplemented


def _netloc(origin: str) -> str:
    """Host and port of an address, in small letters; "" when it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


@lru_cache(maxsize=256)
def _host_name(host: str) -> str:
    """The name in a Host header, in small letters; "" when it is none."""
    if any(character in host for character in "/?#@\\ "):
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
