"""The OpenAPI 3.1 document, made of the route table and the Structs, so that it cannot say anything else."""

import re
from functools import cache
from typing import Any

import msgspec

from gangline_gateway.access import Role
from gangline_gateway.problems import KINDS, MEDIA_TYPE
from gangline_gateway.route_parts import (
    ASSIGNMENT_FILE,
    BATCH_FILE,
    EDIT_FILE,
    JOB_FILE,
    POLICY_FILE,
    RESUME_FILE,
    SIZE_FILE,
    SUSPEND_FILE,
    TOKEN_EXAMPLE,
    TOKEN_FILE,
    TOP_FILE,
    WHY_FILE,
)
from gangline_gateway.routes import ROUTES
from gangline_gateway.steer import EDIT_FIELDS
from gangline_gateway.table import Route
from gangline_kit.service import build_version
from gangline_wire import jobfile_schema
from gangline_wire.limits import most
from gangline_wire.policyfile import PARTS
from gangline_wire.requests import EventLine
from gangline_wire.views import ProblemView

Schema = dict[str, Any]

REF = "#/components/schemas/{name}"
ALWAYS = ("malformed_request", "invalid_query", "unauthorized", "forbidden_host", "too_many", "unavailable", "internal")
"""Problems that any route with a token may answer."""
ALWAYS_OPEN = ("malformed_request", "invalid_query", "forbidden_host", "internal")

FILES: dict[str, Schema] = {
    JOB_FILE: jobfile_schema.JOB_FILE,
    BATCH_FILE: {
        "type": "object",
        "properties": {
            "jobs": {
                "type": "array",
                "items": {"$ref": REF.format(name=JOB_FILE)},
                "minItems": 1,
                "maxItems": most("batch_jobs"),
            }
        },
        "required": ["jobs"],
        "additionalProperties": False,
    },
    SUSPEND_FILE: {
        "type": "object",
        "properties": {"stop": {"type": "boolean", "description": "True gives its room back in any case."}},
        "additionalProperties": False,
    },
    RESUME_FILE: {
        "type": "object",
        "properties": {"urgent": {"type": "boolean", "description": "True has lower jobs on its GPUs paused."}},
        "additionalProperties": False,
    },
    WHY_FILE: {
        "type": "object",
        "properties": {"why": {"type": "string", "maxLength": most("why_chars")}},
        "additionalProperties": False,
    },
    POLICY_FILE: {
        "type": "object",
        "properties": {part: {"type": "object"} for part in PARTS},
        "additionalProperties": False,
        "description": "All settings, or some of them, as docs/policy-file.md has it.",
    },
    EDIT_FILE: {
        "type": "object",
        "properties": {
            **{name: jobfile_schema.JOB_PROPERTIES[name] for name in EDIT_FIELDS if name != "at_most"},
            "at_most": {"type": "integer", "minimum": 0, "maximum": most("array_elements")},
        },
        "additionalProperties": False,
        "description": "New values for some terms of a job; what is left out stays.",
    },
    TOP_FILE: {
        "type": "object",
        "properties": {
            "among": {"enum": ["user", "group", "all"], "description": "Whose jobs it goes before."},
            "why": {"type": "string", "maxLength": most("why_chars")},
        },
        "additionalProperties": False,
    },
    ASSIGNMENT_FILE: {
        "type": "object",
        "properties": {
            "pool": {"type": "string", "description": "A pool that exists; empty gives the node back to its agent's."},
            "why": {"type": "string", "maxLength": most("why_chars")},
        },
        "required": ["pool"],
        "additionalProperties": False,
    },
    SIZE_FILE: {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": most("tasks")},
            "role": {"type": "string", "description": "May be left out when the job has one role."},
            "why": {"type": "string", "maxLength": most("why_chars")},
        },
        "required": ["size"],
        "additionalProperties": False,
    },
    TOKEN_FILE: {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": most("name_chars")},
            "role": {"enum": [role.value for role in Role]},
            "user": {"type": "string"},
            "groups": {"type": "array", "items": {"type": "string"}},
            "expires_in": {"type": ["string", "integer"], "description": 'Such as "90d"; left out: never.'},
            "expires_ms": {"type": "integer", "minimum": 0},
        },
        "required": ["name", "role"],
        "additionalProperties": False,
        "examples": [TOKEN_EXAMPLE],
    },
}
"""Schemas of bodies that are no Structs."""


@cache
def document_bytes() -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document())


def document() -> Schema:
    """The document."""
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gangline",
            "version": build_version(),
            "description": "Submit, read, explain and watch GPU and deep-learning jobs. Times are ms since 1970 (UTC).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def structs() -> list[Any]:
    """Every Struct that crosses the API."""
    found: dict[Any, None] = {ProblemView: None, EventLine: None}
    for route in ROUTES:
        for kind in (route.answers, route.body):
            if isinstance(kind, type):
                found[kind] = None
    return list(found)


def _schemas() -> Schema:
    _, components = msgspec.json.schema_components(structs(), ref_template=REF)
    for route in ROUTES:
        if route.named:
            required = components[route.body.__name__]["required"]
            required[:] = [name for name in required if name not in route.named]
    return {**components, **FILES}


def _operation(route: Route) -> Schema:
    operation: Schema = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": {str(route.status): _answer(route), **_problems(route)},
    }
    if route.is_open:
        operation["security"] = []
    if route.body is not None:
        media: Schema = {"schema": _schema(route.body)}
        if route.example is not None:
            media["example"] = route.example
        operation["requestBody"] = {"required": not route.body_optional, "content": {"application/json": media}}
    return operation


def _operation_id(route: Route) -> str:
    return f"{route.handler.__name__}_{route.method.lower()}"


def _path_parameters(route: Route) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _query_parameters(route: Route) -> list[Schema]:
    return [
        {
            "name": parameter.name,
            "in": "query",
            "required": False,
            "description": parameter.meaning,
            "schema": {"type": parameter.kind},
        }
        for parameter in route.query
    ]


def _header_parameters(route: Route) -> list[Schema]:
    headers: list[tuple[str, str]] = []
    if route.is_idempotent_by_key:
        headers.append(("Idempotency-Key", "A repeat with the same key and the same jobs gives the same answer."))
    if route.has_etag and route.method == "PUT":
        headers.append(("If-Match", "The ETag of what was read; 412 when somebody else was faster."))
    if route.answers == "text/event-stream":
        headers.append(("Last-Event-ID", "Go on after this event; `0-0` begins with the oldest that is kept."))
    return [
        {"name": name, "in": "header", "required": False, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in headers
    ]


def _answer(route: Route) -> Schema:
    if isinstance(route.answers, str):
        schema: Schema = {"type": "string"} if route.answers.startswith("text/") else {"type": "object"}
        content = {route.answers: {"schema": schema}}
    else:
        content = {"application/json": {"schema": _schema(route.answers)}}
    answer: Schema = {"description": "Done." if route.changes else "As asked.", "content": content}
    headers = {"X-Request-Id": {"schema": {"type": "string"}}}
    if route.has_etag:
        headers["ETag"] = {"schema": {"type": "string"}}
    return {**answer, "headers": headers}


def _problems(route: Route) -> Schema:
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys((*(ALWAYS_OPEN if route.is_open else ALWAYS), *route.problems)):
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {
        str(status): {
            "description": "; ".join(f"{code}: {KINDS[code].title}" for code in codes),
            "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="ProblemView")}}},
        }
        for status, codes in sorted(by_status.items())
    }


def _schema(kind: Any) -> Schema:
    return {"$ref": REF.format(name=kind if isinstance(kind, str) else kind.__name__)}
