"""The bus as an AsyncAPI document: every subject, who writes it, and the schema of what goes over it."""

from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from draw.messages import output_headers
from gangline_core import facts as f
from gangline_wire import output, subjects
from gangline_wire.envelope import SCHEMA_VERSION, Batch
from gangline_wire.lanes import LANES, PENS, carried
from gangline_wire.requests import Denied, EventLine, History, JobHistory, Reply, Request
from gangline_wire.samples import Samples

HEAD = "# Made by `make docs` from the wire's own types; change those.\n"
KINDS: dict[str, Any] = {
    "Batch": Batch,
    "EventLine": EventLine,
    "Samples": Samples,
    "Request": Request,
    "Reply": Reply,
    "JobHistory": JobHistory,
    "History": History | Denied,
}
"""What goes over the subjects, by the name that its message has in the document."""
REF = "#/components/schemas/{name}"


def page() -> str:
    """The whole document as YAML."""
    return HEAD + yaml.safe_dump(document(), sort_keys=False, width=120, allow_unicode=True)


def document() -> dict[str, Any]:
    """AsyncAPI 3.0: channels are subjects, messages the types that go over them."""
    refs, schemas = msgspec.json.schema_components(list(KINDS.values()), ref_template=REF)
    kinds = dict(zip(KINDS, refs, strict=True))
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Gangline on NATS",
            "version": str(SCHEMA_VERSION),
            "description": (
                "Fields are only ever added, with defaults, within one schema version; readers ignore what they do not "
                "know. Names inside a subject are escaped: what is no letter, digit, dash or underscore becomes =XX."
            ),
        },
        "defaultContentType": "application/json",
        "servers": {"bus": {"host": "nats.example.org:4222", "protocol": "nats"}},
        "channels": {**dict(_lanes()), **_others()},
        "operations": dict(_operations()),
        "components": {
            "messages": {name: {"name": name, "payload": ref} for name, ref in kinds.items()} | {"Output": _output()},
            "schemas": {name: schemas[name] for name in sorted(schemas)},
        },
    }


def _lanes() -> Iterable[tuple[str, Any]]:
    for kind, (service, spelled) in LANES.items():
        parts = [part.strip("<>") for part in spelled.split(".") if part.startswith("<")]
        address = subjects.log(spelled.replace("<", "{").replace(">", "}"))
        what = f"Facts written by {service}: {', '.join(sorted(carried(kind)))}."
        found: dict[str, Any] = {"address": address, "description": what, "messages": _message("Batch")}
        if parts:
            found["parameters"] = {part: {"description": _part(part)} for part in parts}
        yield f"log.{kind}", found


def _others() -> dict[str, Any]:
    return {
        "events": {
            "address": f"{subjects.EVENTS}.{{group}}.{{job}}.{{event}}",
            "description": "Public events, one per line of a job's story; stream GANGLINE_EVENTS, for everybody.",
            "parameters": {
                "group": {"description": "Path of the group as one token."},
                "job": {"description": "Number of the job."},
                "event": {"description": "Name of the event, such as Running."},
            },
            "messages": _message("EventLine"),
        },
        "samples": {
            "address": f"{subjects.SAMPLES}.{{agent}}",
            "description": "Samples of an agent's nodes, each second; not kept.",
            "parameters": {"agent": {"description": "Name of the agent."}},
            "messages": _message("Samples"),
        },
        "admission": {
            "address": subjects.API_ADMISSION,
            "description": "Every change a user asks for; request and reply, served by the admission leader.",
            "messages": {**_message("Request"), **_message("Reply")},
        },
        "history": {
            "address": subjects.API_HISTORY,
            "description": "Questions about the past; request and reply, served by the recorder.",
            "messages": {**_message("JobHistory"), **_message("History")},
        },
        "output": {
            "address": f"{subjects.OUTPUT}.{{job}}.{{task}}",
            "description": "What a task writes, in the order of its bytes; stream GANGLINE_OUTPUT.",
            "parameters": {
                "job": {"description": "Number of the job."},
                "task": {"description": "Name of the task, such as 5-1-worker-2: job, attempt, role and index."},
            },
            "messages": _message("Output"),
        },
    }


def _part(part: str) -> str:
    return "Number of the scheduler, from 0." if part == "number" else f"Name of the {part}."


def _output() -> dict[str, Any]:
    """Bytes as the task wrote them, with where they begin in the headers."""
    headers = {value: {"type": "string", "description": note} for value, note in output_headers()}
    return {
        "name": "Output",
        "contentType": "application/octet-stream",
        "headers": {"type": "object", "properties": headers, "required": [output.OFFSET]},
        "payload": {"type": "string", "format": "binary"},
    }


def _message(name: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/messages/{name}"}}


def _operations() -> Iterable[tuple[str, Any]]:
    for kind in LANES:
        channel = {"$ref": f"#/channels/log.{kind}"}
        yield f"follow.{kind}", {"action": "receive", "channel": channel, "summary": f"Follow the {kind} lane."}
    yield "follow.events", {"action": "receive", "channel": {"$ref": "#/channels/events"}, "summary": "Follow events."}
    reply = {"channel": {"$ref": "#/channels/admission"}, "messages": [{"$ref": "#/channels/admission/messages/Reply"}]}
    yield (
        "ask.admission",
        {
            "action": "send",
            "channel": {"$ref": "#/channels/admission"},
            "messages": [{"$ref": "#/channels/admission/messages/Request"}],
            "reply": reply,
        },
    )


FACTS = tuple(sorted(fact.__name__ for fact in PENS if issubclass(fact, f.FactBase)))
"""Names of all facts, for the test that every one stands in the document."""
