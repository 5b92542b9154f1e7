"""Draws docs/messages.md: lanes and their pens, facts, requests, samples, subjects and streams."""

from typing import get_args

import msgspec

from draw.markdown import anchor, code, document, table
from draw.structs import Field, constants, fields, rest, summary, whole
from gangline_core import facts as f
from gangline_core.facts import queue
from gangline_core.ids import JobId
from gangline_core.job import GpuShare
from gangline_core.reasons import Reason
from gangline_wire import output, requests, samples, streams, subjects
from gangline_wire.codec import encode
from gangline_wire.envelope import Batch
from gangline_wire.events import EVENTS
from gangline_wire.lanes import CARRIERS, LANES, PENS, carried

PARTS_OF_FACTS = (
    Reason,
    f.Candidate,
    f.KeptOut,
    queue.Foreseen,
    queue.Lease,
    queue.Part,
    f.TaskPlacement,
    GpuShare,
    f.Placement,
    f.Growth,
    f.Refusal,
    f.Eviction,
    f.Shrink,
    f.Claim,
    f.Reservation,
    queue.LimitDate,
    f.Restart,
    f.Lowering,
    f.JobPaused,
)
EXAMPLE = Batch(
    lane="admission", epoch=7, seq_seen=41, at=1_700_000_000_000, facts=(f.CancelRequested(job=JobId(3), by="ada"),)
)


def page() -> str:
    """The page."""
    return document(
        "Messages",
        "Everything that crosses a boundary, as JSON that any NATS client can read. Facts are past tense and final; "
        "requests are imperative and answered. New fields always have defaults, and readers ignore unknown ones.",
        "A field that has its default is left out of most messages. Moments (`at`, `start_ms`) are milliseconds since "
        "1970 in UTC, durations (`wait_ms`) milliseconds; `gpu_milli` and `cpu_milli` are thousandths of one. A type "
        "that is not described here, such as `JobSpec` or `Policy`, stands with all its fields in "
        "[asyncapi.yaml](integration/asyncapi.yaml).",
        "## Lanes: one pen per fact",
        "Each lane is one subject of the log, written by one service, one leader at a time. An append names the last "
        "sequence its writer knows of that lane, so a writer that lost its leadership cannot write.",
        table(("Lane", "Subject", "Written by", "Facts"), map(lane_row, LANES)),
        "## The envelope",
        whole(Batch),
        f"```json\n{msgspec.json.format(encode(EXAMPLE), indent=2).decode()}\n```",
        "## Facts",
        *(described(kind, pen=pen_of(kind)) for kind in get_args(f.Fact)),
        "## Parts of facts",
        *(described(kind) for kind in PARTS_OF_FACTS),
        "## Requests to the admission leader",
        f"On `{subjects.API_ADMISSION}`, answered by the leader only.",
        *(described(kind) for kind in get_args(requests.Request)),
        "## Replies",
        *(described(kind) for kind in (*get_args(requests.Reply), requests.Refusal)),
        "## History, events and samples",
        *(described(kind) for kind in OTHERS),
        "## Public events",
        f"The values of `event` in an [EventLine]({anchor(requests.EventLine.__name__)}), which are the last part of "
        "its subject. New ones may come: take one that you do not know for news.",
        table(("Event", "Meaning"), ((code(name), meaning) for name, meaning in EVENTS.items())),
        "## Output of tasks",
        f"On `{subjects.OUTPUT}.<job>.<task>`. {rest(output)}",
        table(("Header", "Meaning"), ((code(value), note) for value, note in output_headers())),
        "## Subjects",
        table(("Name", "Subject", "Meaning"), subject_rows()),
        "## Streams, buckets and object stores",
        streams_table(),
        buckets_table(),
        f"Object store `{streams.SNAPSHOTS}`: fold snapshots, named by log sequence. Deleting them costs time only.",
    )


OTHERS = (
    requests.JobHistory,
    requests.History,
    requests.EventLine,
    samples.Samples,
    samples.NodeSample,
    samples.GpuSample,
    samples.SliceSample,
    samples.NicSample,
    samples.DiskSample,
    samples.TaskSample,
    samples.CardEvent,
    samples.JobReport,
)


def pen_of(kind: type[f.Fact]) -> str:
    """How the page names the lanes of a fact."""
    if kind is f.LeadershipTaken:
        return "every lane"
    lane = f"lane `{LANES[PENS[kind]][1]}`"
    return f"{lane}, or `{LANES['kubernetes'][1]}` for a cluster's own nodes" if kind in CARRIERS else lane


def lane_row(kind: str) -> tuple[str, ...]:
    """One lane's line of the table."""
    service, spelled = LANES[kind]
    names = carried(kind)
    links = ", ".join(f"[{name}]({anchor(name)})" for name in names)
    return (code(spelled), code(f"{subjects.LOG}.{spelled}"), code(service), links)


def described(kind: type, *, pen: str = "") -> str:
    """One message: heading, meaning, fields."""
    meaning = summary(kind) + (f" Carried by {pen}." if pen else "")
    if is_array(kind):
        meaning += " On the wire an array of these values, in this order."
    rows = [field_row(field) for field in fields(kind)]
    listed = table(("Field", "Type", "Default", "Meaning"), rows) if rows else "No fields."
    return f"### {kind.__name__}\n\n{meaning}\n\n{listed}"


def is_array(kind: type) -> bool:
    """Whether values of the type are written without the names of their fields."""
    return bool(getattr(getattr(kind, "__struct_config__", None), "array_like", False))


def output_headers() -> list[tuple[str, str]]:
    """The headers of a message of output, with what they mean."""
    named = constants(output)
    return [(value, named[name].meaning) for name, value in vars(output).items() if name.isupper()]


def field_row(field: Field) -> tuple[str, ...]:
    """One field's line of the table."""
    return (code(field.name), code(field.type), code(field.default) if field.default else "", field.meaning)


def subject_rows() -> list[tuple[str, ...]]:
    """The subject constants, then the functions that build a subject."""
    named = constants(subjects)
    rows: list[tuple[str, ...]] = [
        (code(name), code(value), named[name].meaning)
        for name, value in vars(subjects).items()
        if isinstance(value, str) and name.isupper()
    ]
    built = (
        (subjects.log, subjects.log("<lane>")),
        (subjects.samples, f"{subjects.SAMPLES}.<agent>"),
        (subjects.output, f"{subjects.OUTPUT}.<job>.<task>"),
        (subjects.event, f"{subjects.EVENTS}.<group>.<job>.<Event>"),
    )
    return rows + [(code(function.__name__ + "()"), code(subject), summary(function)) for function, subject in built]


def streams_table() -> str:
    """The JetStream streams with their limits."""
    header = ("Stream", "Subjects", "Largest size", "Oldest", "When full")
    rows = (
        (
            code(stream.name),
            ", ".join(map(code, stream.subjects)),
            f"{stream.bytes_max // streams.MIB} MiB",
            f"{stream.age_s_max // 86_400} days" if stream.age_s_max else "for ever",
            "the oldest go" if stream.discard_old else "new ones are refused",
        )
        for stream in streams.STREAMS
    )
    return table(header, rows)


def buckets_table() -> str:
    """The key-value buckets with their limits."""
    rows = (
        (code(bucket.name), f"{bucket.bytes_max // streams.MIB} MiB", f"{bucket.ttl_s} s" if bucket.ttl_s else "none")
        for bucket in streams.BUCKETS
    )
    return table(("Key-value bucket", "Largest size", "Time to live"), rows)
