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


FOLLOWING = (
    "$JS.API.STREAM.NAMES",
    "$JS.FC.>",
    *(f"$JS.API.STREAM.INFO.{store}" for store in STORES),
    *reading(LOG.name),
    *reading(f"OBJ_{SNAPSHOTS}"),
)
"""Everybody folds the log, from a snapshot on."""
MAKING = tuple(f"$JS.API.STREAM.{verb}.{store}" for verb in ("CREATE", "UPDATE") for store in STORES)
"""Services make streams that are missing; agents, which run on machines of others, find them."""
LEADING = (f"$KV.{LEASES.name}.>", *reading(f"KV_{LEASES.name}"))
"""Those that write a lane lead it by a lease."""


def lane_of(kind: str) -> str:
    """The subjects of a kind of lane: "gangline.log.queue.*" for "queue.<pool>"."""
    return subjects.log(".".join("*" if part.startswith("<") else part for part in LANES[kind][1].split(".")))


OWN: dict[str, Rights] = {
    "gateway": Rights(
        publish=(subjects.API_ADMISSION, subjects.API_HISTORY, *reading(EVENTS.name), *reading(OUTPUT.name)),
        subscribe=(),
    ),
    "admission": Rights(
        publish=(lane_of("admission"), *LEADING, f"$KV.{SECRETS.name}.>"), subscribe=(subjects.API_ADMISSION,)
    ),
    "queue": Rights(publish=(lane_of("queue"), *LEADING), subscribe=()),
    "placement": Rights(publish=(lane_of("placement"), lane_of("scheduler"), *LEADING), subscribe=()),
    "elastic": Rights(publish=(lane_of("elastic"), *LEADING), subscribe=()),
    "telemetry": Rights(publish=(lane_of("telemetry"), *LEADING), subscribe=(f"{subjects.SAMPLES}.>",)),
    "accounting": Rights(publish=(lane_of("accounting"), *LEADING), subscribe=()),
    "recorder": Rights(
        publish=(
            f"{subjects.EVENTS}.>",
            *LEADING,
            *reading(EVENTS.name),
            f"$O.{SNAPSHOTS}.>",
            f"$JS.API.STREAM.PURGE.OBJ_{SNAPSHOTS}",
        ),
        subscribe=(subjects.API_HISTORY,),
    ),
    "agent": Rights(
        publish=(
            lane_of("agent"),
            *LEADING,
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
            *LEADING,
            subjects.API_ADMISSION,
            *reading(f"KV_{SECRETS.name}"),
        ),
        subscribe=(),
    ),
}
"""What each service needs beside following the log."""


def rights(service: str) -> Rights:
    """All rights of a service's user, which is named like the service; its answers come to an inbox of its own."""
    own = OWN[service]
    making = () if service == "agent" else MAKING
    return Rights(publish=(*FOLLOWING, *making, *own.publish), subscribe=(f"_INBOX.{service}.>", *own.subscribe))
