"""What several routes share: their shapes, parameters, kinds of problems, names and examples of bodies."""

from typing import Any

from gangline_gateway.table import Handler, Parameter, Route
from gangline_wire import views as v

TEXT = "text/plain"
EVENT_STREAM = "text/event-stream"
JOB_FILE = "JobFile"
"""Name of the hand-written schema of a job file."""
BATCH_FILE = "BatchFile"
WHY_FILE = "WhyFile"
SUSPEND_FILE = "SuspendFile"
RESUME_FILE = "ResumeFile"
TOKEN_FILE = "TokenFile"
EDIT_FILE = "EditFile"
TOP_FILE = "TopFile"
SIZE_FILE = "SizeFile"
ASSIGNMENT_FILE = "AssignmentFile"
POLICY_FILE = "PolicyFile"

DRY_RUN_PARAMETER = Parameter("dry_run", "True judges and changes nothing.", "boolean", "true")
DRAIN_PARAMETER = Parameter("drain", "True lets what is unfinished end first.", "boolean", "true")
GONE_PARAMETER = Parameter(
    "gone", "True says that the machine is gone: nothing runs there, though nobody saw that.", "boolean", "true"
)
LIMIT_PARAMETER = Parameter("limit", "Entries of one page.", "integer", "100")
CURSOR_PARAMETER = Parameter("cursor", "`next` of the page before, with the same filters.")
POOL_PARAMETER = Parameter("pool", "Only of this pool.", example="default")
KIND_PARAMETER = Parameter("kind", "Only settings of these kinds, separated by commas.", example="group,user")
BELOW_PARAMETER = Parameter("group", "Only of this group and what is below it; `~` is the root.", example="research")
WHY_PARAMETER = Parameter("why", "A reason, for the record.")
WHY_EXAMPLE = {"why": "wrong data"}
ASSIGNMENT_EXAMPLE = {"pool": "large", "why": "a deadline"}
CHANGES = ("forbidden", "malformed_json", "unsupported_media_type", "body_too_large", "invalid_fields", "unavailable")
SUBMITS = (*CHANGES, "conflict", "key_reused", "refused", "too_many")
SETS = (*CHANGES, "not_found", "conflict", "version_conflict")
REMOVES = ("forbidden", "not_found", "conflict", "version_conflict", "unavailable")
FORGETS = ("forbidden", "not_found", "conflict", "unavailable")
STEERS = (*CHANGES, "not_found", "conflict")

GROUP_EXAMPLE = {"path": "research", "limit": {"gpu_milli": 16000}, "guaranteed": {"gpu_milli": 8000}, "heads": ["ada"]}
USER_EXAMPLE = {"name": "ada", "group": "research", "limit": {"gpu_milli": 4000}}
POLICY_EXAMPLE = {"ordering": "weighted", "formula": "level + 1000 * priority + 10 * age_hours"}
WINDOW_EXAMPLE = {
    "name": "bios",
    "pool": "default",
    "start_ms": 4_102_444_800_000,
    "end_ms": 4_102_452_000_000,
    "nodes": ["n1"],
}
FILE_EXAMPLE = {
    "groups": {"research": {"limit": {"gpus": 32}, "heads": ["ada"], "users": {"bob": {"limit": {"gpus": 4}}}}},
    "pools": {"default": {"policy": {"ordering": "weighted", "starvation": "1h"}}},
    "prices": {"H100": 2.5},
}
POOL_EXAMPLE = {"name": "local"}
TOKEN_EXAMPLE = {"name": "ada's laptop", "role": "user", "user": "ada", "groups": ["research"], "expires_in": "90d"}


def setting(template: str, handler: Handler, summary: str, view: type) -> Route:
    """Shows one entry of the settings, with its version."""
    return Route("GET", template, handler, summary, view, problems=("not_found",), has_etag=True)


def sets(
    template: str,
    handler: Handler,
    summary: str,
    *,
    body: Any,
    example: Any,
    named: tuple[str, ...] = (),
    answers: type = v.DoneView,
) -> Route:
    """Makes or changes one entry of the settings, as a whole."""
    return Route(
        "PUT",
        template,
        handler,
        summary,
        answers,
        query=(DRY_RUN_PARAMETER, WHY_PARAMETER),
        body=body,
        named=named,
        example=example,
        problems=SETS,
        has_etag=True,
    )


def steers(
    template: str,
    handler: Handler,
    summary: str,
    *,
    body: Any = WHY_FILE,
    example: Any = WHY_EXAMPLE,
    body_optional: bool = True,
    status: int = 200,
) -> Route:
    """Says what shall become of a job or a node, and why."""
    return Route(
        "POST",
        template,
        handler,
        summary,
        v.DoneView,
        status=status,
        body=body,
        body_optional=body_optional,
        example=example,
        problems=STEERS,
    )


def removes(template: str, handler: Handler, summary: str) -> Route:
    """Takes a member or a group out of the tree, at once or when nothing of it is left."""
    query = (DRAIN_PARAMETER, DRY_RUN_PARAMETER, WHY_PARAMETER)
    return Route("DELETE", template, handler, summary, v.DoneView, query=query, problems=REMOVES)
