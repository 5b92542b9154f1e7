"""What people want of the platform as HTTP requests, and what its answers mean."""

from urllib.parse import quote

import msgspec
from msgspec import Struct

from dollhouse.front import Answered, json_of, write_request
from gangline_wire.requests import (
    Admitted,
    AssignNode,
    CancelJob,
    Denied,
    Done,
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
    SetSize,
    SetUser,
    SetWindow,
    Unavailable,
)

READS = (
    "/v1/jobs?state=unfinished&limit=50",
    "/v1/jobs/{job}",
    "/v1/jobs/{job}/explain",
    "/v1/jobs/{job}/history",
    "/v1/queue?pool=default",
    "/v1/nodes",
    "/v1/groups",
    "/v1/usage",
    "/v1/cluster",
    "/v1/policies",
    "/v1/whoami",
)
"""What people look at, any time."""
REPLAYED = "idempotent-replayed"


class Visit(Struct, frozen=True):
    """One request, as often as it takes to have it answered."""

    method: str
    path: str
    body: bytes = b""
    key: str = ""
    """Whoever repeats it with the same key wants one thing, not two."""

    def written(self, token: str) -> bytes:
        """The bytes on the wire."""
        headers = {"Authorization": f"Bearer {token}"}
        if self.body:
            headers["Content-Type"] = "application/json"
        if self.key:
            headers["Idempotency-Key"] = self.key
        return write_request(self.method, self.path, headers, self.body)


def visit_of(request: Request) -> Visit:
    """A change as somebody asks for it over HTTP."""
    match request:
        case CancelJob(job=job):
            return Visit("POST", f"/v1/jobs/{job}/cancel")
        case SetHold(job=job, held=True, pause=pause):
            return Visit("POST", f"/v1/jobs/{job}/{'suspend' if pause else 'hold'}")
        case SetHold(job=job, urgent=True):
            return Visit("POST", f"/v1/jobs/{job}/resume", b'{"urgent": true}')
        case SetHold(job=job):
            return Visit("POST", f"/v1/jobs/{job}/release")
        case EditJob(job=job, edit=edit):
            terms = {"priority": edit.priority} if edit.priority is not None else {"time_limit": edit.time_limit_s}
            return Visit("PATCH", f"/v1/jobs/{job}", msgspec.json.encode(terms))
        case SetSize(job=job, size=size):
            return Visit("POST", f"/v1/jobs/{job}/resize", msgspec.json.encode({"size": size}))
        case _:
            return _setting(request)


def _setting(request: Request) -> Visit:
    match request:
        case SetGroup(group=group):
            return Visit("PUT", f"/v1/groups/{group.path}", msgspec.json.encode(group))
        case SetUser(user=user):
            return Visit("PUT", f"/v1/groups/{user.group}/users/{quote(user.name)}", msgspec.json.encode(user))
        case SetPolicy(pool=pool, policy=policy):
            return Visit("PUT", f"/v1/policies/{pool}", msgspec.json.encode(policy))
        case SetPool(pool=wanted):
            return Visit("PUT", f"/v1/pools/{wanted.name}", msgspec.json.encode(wanted))
        case SetDrain(node=node, drained=drained):
            return Visit("POST", f"/v1/nodes/{node}/{'drain' if drained else 'resume'}")
        case AssignNode(node=node, pool=pool):
            return Visit("POST", f"/v1/nodes/{node}/assign", msgspec.json.encode({"pool": pool}))
        case SetPrices(milli=milli):
            return Visit("PUT", "/v1/prices", msgspec.json.encode({"milli": milli}))
        case SetWindow(window=window):
            return Visit("PUT", f"/v1/windows/{window.name}", msgspec.json.encode(window))
        case RemoveWindow(name=name):
            return Visit("DELETE", f"/v1/windows/{name}")
        case _:
            raise AssertionError(f"nobody here asks for {type(request).__name__}")


def reply_of(answered: Answered) -> Reply:
    """What a gateway's answer to a change means."""
    if answered.status == 503:
        return Unavailable(retry_after_s=float(answered.headers.get("retry-after", 1)))
    if answered.status >= 300:
        problem = json_of(answered)
        return Denied(kind=str(problem.get("code", answered.status)), message=str(problem.get("detail", "")))
    return Done(seq=json_of(answered).get("seq", 0))


def reply_to_submit(answered: Answered) -> Reply:
    """What a gateway's answer to one job means."""
    if answered.status == 202:
        return Admitted(jobs=(json_of(answered)["id"],), repeated=REPLAYED in answered.headers)
    reply = reply_of(answered)
    return Refused(refusals=()) if isinstance(reply, Denied) else reply


def is_wrong(answered: Answered) -> bool:
    """True for an answer that no client should ever get: a fault of ours, or a token that opened before."""
    return (answered.status >= 500 and answered.status != 503) or answered.status == 401
