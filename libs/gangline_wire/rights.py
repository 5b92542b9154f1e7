"""What each service may say and hear on the bus: the fewest subjects that let it work, enforced by the NATS server.

A service may write its own lane and no other, so the one pen per fact holds even against a service that was taken over.
Sealed values are read by those who start tasks only.
"""

from msgspec import Struct

from gangline_wire import subjects
from gangline_wire.lanes import LANES
from gangline_wire.streams import BUCKETS, EVENTS, LEASES, LOG, OUTPUT, SECRETS, SNAPSHOTS, STREAMS


class Rights(Struct, frozen=True):
    """Subjects a user may publish to and subscribe to; answering requests it received is always allowed."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


STORES = (
    *(stream.name for stream in STREAMS),
    *(f"KV_{bucket.name}" for bucket in BUCKETS),
    f"OBJ_{SNAPSHOTS}",
)
"""Streams as the server names them, those under buckets and object stores included."""


def reading(store: str) -> tuple[str, ...]:
    """What reading a stream takes: its messages one by one, and consumers."""
    return (f"$JS.API.STREAM.MSG.GET.{store}", f"$JS.API.CONSUMER.CREATE.{store}")


READER = "reader"
"""User, and durable consumer of the public feed, for programs of others that only read."""
FOLLOWING = (
    "$JS.API.STREAM.NAMES",
    f"$JS.API.CONSUMER.INFO.{EVENTS.name}.{READER}",
    "$JS.FC.>",
    *(f"$JS.API.STREAM.INFO.{store}" for store in STORES),
    *reading(LOG.name),
    *reading(f"OBJ_{SNAPSHOTS}"),
)
"""Everybody folds the log, from a snapshot on."""
MAKING = (
    *(f"$JS.API.STREAM.{verb}.{store}" for verb in ("CREATE", "UPDATE") for store in STORES),
    f"$JS.API.CONSUMER.CREATE.{EVENTS.name}.{READER}",
)
"""Services make streams that are missing, and the readers' consumer; agents, on machines of others, find them."""


def lane_of(kind: str) -> str:
    """The subjects of a kind of lane: "gangline.log.queue.*" for "queue.<pool>"."""
    return subjects.log(_lanes(kind))


def leading(*lanes: str) -> tuple[str, ...]:
    """Those that write lanes lead them by a lease each, and touch no other lane's."""
    return (*(f"$KV.{LEASES.name}.{lane}" for lane in lanes), *reading(f"KV_{LEASES.name}"))


def _lanes(kind: str) -> str:
    """All lanes of a kind, as the server matches them."""
    return ".".join("*" if part.startswith("<") else part for part in LANES[kind][1].split("."))


OWN: dict[str, Rights] = {
    "gateway": Rights(
        publish=(subjects.API_ADMISSION, subjects.API_HISTORY, *reading(EVENTS.name), *reading(OUTPUT.name)),
        subscribe=(),
    ),
    "admission": Rights(
        publish=(
            lane_of("admission"),
            *leading(_lanes("admission")),
            f"$KV.{SECRETS.name}.>",
            # It takes away what ended jobs had, without leaving markers that would fill the bucket.
            f"$JS.API.STREAM.PURGE.KV_{SECRETS.name}",
        ),
        subscribe=(subjects.API_ADMISSION,),
    ),
    "queue": Rights(publish=(lane_of("queue"), *leading(_lanes("queue"))), subscribe=()),
    "placement": Rights(
        publish=(lane_of("placement"), lane_of("scheduler"), *leading(_lanes("placement"), _lanes("scheduler"))),
        subscribe=(),
    ),
    "elastic": Rights(publish=(lane_of("elastic"), *leading(_lanes("elastic"))), subscribe=()),
    "telemetry": Rights(
        publish=(lane_of("telemetry"), *leading(_lanes("telemetry"))), subscribe=(f"{subjects.SAMPLES}.>",)
    ),
    "accounting": Rights(publish=(lane_of("accounting"), *leading(_lanes("accounting"))), subscribe=()),
    "recorder": Rights(
        publish=(
            f"{subjects.EVENTS}.>",
            *reading(EVENTS.name),
            f"$O.{SNAPSHOTS}.>",
            f"$JS.API.STREAM.PURGE.OBJ_{SNAPSHOTS}",
            # It drops what its archive has.
            f"$JS.API.STREAM.PURGE.{LOG.name}",
        ),
        subscribe=(subjects.API_HISTORY,),
    ),
    "agent": Rights(
        publish=(
            lane_of("agent"),
            *leading(_lanes("agent")),
            f"{subjects.SAMPLES}.>",
            f"{subjects.OUTPUT}.>",
            *reading(OUTPUT.name),
            *reading(f"KV_{SECRETS.name}"),
        ),
        subscribe=(),
    ),
    "kubernetes": Rights(
        publish=(
            lane_of("kubernetes"),
            *leading(_lanes("kubernetes")),
            subjects.API_ADMISSION,
            *reading(f"KV_{SECRETS.name}"),
        ),
        subscribe=(f"{subjects.SAMPLES}.>",),
    ),
}
"""What each service needs beside following the log."""


def agent_rights(agent: str) -> Rights:
    """Rights of the user of one agent alone: of all agents' lanes, leases and samples it has its own."""
    user, lane = agent_user_name(agent), f"agent.{subjects.token(agent)}"
    whole = rights("agent")
    its_own = {
        lane_of("agent"): subjects.log(lane),
        f"$KV.{LEASES.name}.{_lanes('agent')}": f"$KV.{LEASES.name}.{lane}",
        f"{subjects.SAMPLES}.>": subjects.samples(agent),
    }
    return Rights(
        publish=tuple(its_own.get(subject, subject) for subject in whole.publish), subscribe=(f"_INBOX.{user}.>",)
    )


def agent_user_name(agent: str) -> str:
    """Name of the bus user of one agent alone."""
    return f"agent-{subjects.token(agent)}"


def reader_rights() -> Rights:
    """Rights of programs of others: they hear the public feed as it comes, and pull it from the readers' consumer.

    They make no consumers: whoever may do that may have the server deliver a stream's messages to any subject.
    """
    consumer = f"{EVENTS.name}.{READER}"
    return Rights(
        publish=(
            f"$JS.API.STREAM.INFO.{EVENTS.name}",
            f"$JS.API.CONSUMER.INFO.{consumer}",
            f"$JS.API.CONSUMER.MSG.NEXT.{consumer}",
            f"$JS.ACK.{consumer}.>",
        ),
        subscribe=(f"_INBOX.{READER}.>", f"{subjects.EVENTS}.>"),
    )


def rights(service: str) -> Rights:
    """All rights of a service's user, which is named like the service; its answers come to an inbox of its own."""
    own = OWN[service]
    making = () if service == "agent" else MAKING
    return Rights(publish=(*FOLLOWING, *making, *own.publish), subscribe=(f"_INBOX.{service}.>", *own.subscribe))
