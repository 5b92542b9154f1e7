"""Who may call what: one row for each method of each address, and every role tried on it."""

from collections.abc import Collection
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec import json
from tests.make import node, spec
from tests.services.gateway.conftest import Visitor, visitor
from tests.services.gateway.fakes import Setting

from gangline_gateway.routes import ROUTES
from gangline_gateway.table import Route

__all__ = ("visitor",)

ADMIN = frozenset({"admin"})
HEADS = ADMIN | {"hana"}
"""Who leads group t1."""
OWN = HEADS | {"una"}
"""Who may steer una's job in t1."""
ALL_SEEING = ADMIN | {"reader"}
OF_GROUP = OWN | ALL_SEEING | {"t1-reader"}
"""Who may see what is una's in t1."""
GROUP = OF_GROUP | {"vic"}
"""Who may see group t1; vic is in it, and no more to una than a stranger."""
ANYBODY = GROUP | {"tom", "head2", "nobody"}
"""Every token, be it for another group, or for none; what an answer holds for each is another matter."""
OPEN = ANYBODY | {""}
"""Also who has no token."""

MAY: dict[str, Collection[str]] = {
    "POST /v1/jobs": OWN,
    "POST /v1/jobs:batch": OWN,
    "GET /v1/jobs": ANYBODY,
    "GET /v1/jobs/{id}": OF_GROUP,
    "DELETE /v1/jobs/{id}": OWN,
    "POST /v1/jobs/{id}/cancel": OWN,
    "POST /v1/jobs/{id}/hold": OWN,
    "POST /v1/jobs/{id}/release": OWN,
    "POST /v1/jobs/{id}/suspend": OWN,
    "POST /v1/jobs/{id}/resume": OWN,
    "PATCH /v1/jobs/{id}": OWN,
    "POST /v1/jobs/{id}/top": OWN,
    "POST /v1/jobs/{id}/resize": OWN,
    "POST /v1/jobs/{id}/rerun": OWN,
    "GET /v1/jobs/{id}/explain": OF_GROUP,
    "GET /v1/jobs/{id}/history": OF_GROUP,
    "GET /v1/jobs/{id}/logs": OF_GROUP,
    "GET /v1/events": ANYBODY,
    "GET /v1/queue": ANYBODY,
    "GET /v1/nodes": ANYBODY,
    "GET /v1/nodes/{id}": ANYBODY,
    "POST /v1/nodes/{id}/drain": ADMIN,
    "POST /v1/nodes/{id}/resume": ADMIN,
    "POST /v1/nodes/{id}/assign": ADMIN,
    "DELETE /v1/nodes/{id}": ADMIN,
    "GET /v1/groups": ANYBODY,
    "GET /v1/groups/{path}/users/{user}": OF_GROUP,
    "PUT /v1/groups/{path}/users/{user}": HEADS,
    "DELETE /v1/groups/{path}/users/{user}": HEADS,
    "DELETE /v1/groups/{path}": HEADS,
    "GET /v1/groups/{path}": GROUP,
    "PUT /v1/groups/{path}": HEADS,
    "GET /v1/usage": ANYBODY,
    "GET /v1/policies": ANYBODY,
    "GET /v1/policies/{pool}": ANYBODY,
    "PUT /v1/policies/{pool}": ADMIN,
    "GET /v1/pools": ANYBODY,
    "GET /v1/pools/{pool}": ANYBODY,
    "PUT /v1/pools/{pool}": ADMIN,
    "GET /v1/settings": ALL_SEEING,
    "GET /v1/settings/history": ANYBODY,
    "PUT /v1/settings": ADMIN,
    "GET /v1/windows": ANYBODY,
    "GET /v1/windows/{name}": ANYBODY,
    "PUT /v1/windows/{name}": ADMIN,
    "DELETE /v1/windows/{name}": ADMIN,
    "GET /v1/prices": ANYBODY,
    "PUT /v1/prices": ADMIN,
    "GET /v1/tokens": ANYBODY,
    "POST /v1/tokens": HEADS,
    "DELETE /v1/tokens/{digest}": OWN,
    "GET /v1/whoami": ANYBODY,
    "GET /v1/cluster": ANYBODY,
    "GET /": OPEN,
    "GET /console/{file}": OPEN,
    "GET /openapi.json": OPEN,
    "GET /version": OPEN,
    "GET /livez": OPEN,
    "GET /readyz": OPEN,
    "GET /metrics": ALL_SEEING,
}
WINDOW = {"name": "w1", "pool": "default", "start_ms": 4102444800000, "end_ms": 4102452000000, "nodes": ["n1"]}
BODIES: dict[str, Any] = {
    "POST /v1/jobs": {"command": ["true"], "group": "t1", "user": "una"},
    "POST /v1/jobs:batch": {"jobs": [{"command": ["true"], "group": "t1", "user": "una"}]},
    "POST /v1/jobs/{id}/resize": {"size": 2},
    "POST /v1/nodes/{id}/assign": {"pool": "default"},
    "PUT /v1/groups/{path}": {"path": "t1/a", "weight": 2},
    "PUT /v1/groups/{path}/users/{user}": {"level": 0},
    "PUT /v1/pools/{pool}": {"name": "default"},
    "PUT /v1/windows/{name}": WINDOW,
    "POST /v1/tokens": {"name": "x", "role": "user", "user": "una", "groups": ["t1"]},
}
"""What is sent where the example of the document does not fit this world."""
GAPS = {
    "id": "1",
    "path": "t1",
    "user": "una",
    "pool": "default",
    "name": "w1",
    "digest": "0" * 64,
    "file": "index.html",
}
DENIED = (401, 403, 404)
DENIED_IN_A_LIST = (*DENIED, 422)
"""A list of jobs is answered with what is wrong with each."""
OTHER_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


def name(route: Route) -> str:
    """As the table has it."""
    return f"{route.method} {route.path}"


def test_the_table_has_every_route() -> None:
    assert {name(route) for route in ROUTES} == set(MAY)


@pytest.mark.parametrize("route", ROUTES, ids=name)
async def test_whoever_may_gets_it_and_nobody_else_does(route: Route) -> None:
    may, got = MAY[name(route)], dict[str, int]()
    for who in sorted(OPEN):
        setting = world()
        async with TestClient(TestServer(setting.app)) as client:
            visitor = Visitor(setting, client)
            await visitor.ask("admin", "PUT", "/v1/windows/w1", json=WINDOW)
            before = setting.world.state.kept.seq
            got[who] = await called(visitor, who, route)
            if who not in may or not route.changes:
                assert setting.world.state.kept.seq == before, f"{who} wrote something"
    denied = DENIED_IN_A_LIST if route.path.endswith(":batch") else DENIED
    assert {who for who, status in got.items() if status not in denied} == may, got
    wrong = {who: got[who] for who in may if not (got[who] < 400 or got[who] == 409)}
    assert not wrong, "who may is not told that the question was wrong"


async def test_no_address_knows_a_method_that_the_table_does_not_name(visitor: Visitor) -> None:
    known = {route.path: {other.method for other in ROUTES if other.path == route.path} for route in ROUTES}
    for route in ROUTES:
        # What everybody may read may be asked for its head alone.
        known[route.path] |= {"HEAD"} if route.is_open and route.method == "GET" else set()
    before = visitor.setting.world.state.kept.seq
    for path, methods in known.items():
        for method in OTHER_METHODS:
            if method not in methods:
                answer = await visitor.call("admin", method, path.format_map(GAPS), data=b"{}")
                assert answer.status == 405, (method, path, answer.status)
    assert visitor.setting.world.state.kept.seq == before


def world() -> Setting:
    """A job, a token and an account of una's, in t1."""
    setting = Setting(node("n1"), node("n2"))
    setting.tokens["t1-reader"] = setting.issue("readonly", user="rob", groups=("t1",))
    setting.world.submit(spec(group="t1", user="una"))
    return setting


async def called(visitor: Visitor, who: str, route: Route) -> int:
    """The status of one call that would be right for somebody who may."""
    una = await visitor.ask("una", "GET", "/v1/tokens")
    gaps = {
        **GAPS,
        "id": "n1" if "/nodes/" in route.path else "1",
        "path": "t1" if "/users/" in route.path or route.method == "GET" else "t1/a",
        "digest": una["tokens"][0]["digest"],
    }
    body = BODIES.get(name(route), route.example)
    sent = {} if body is None else {"data": json.encode(body), "headers": {"Content-Type": "application/json"}}
    answer = await visitor.call(who, route.method, route.path.format_map(gaps), allow_redirects=False, **sent)
    answer.close()
    return answer.status
