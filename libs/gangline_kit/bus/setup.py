"""Creating streams, buckets and object stores, and correcting those whose settings differ from ours."""

from collections.abc import Mapping
from typing import Any

from gangline_kit.bus import jetstream
from gangline_kit.bus.connection import Connection
from gangline_kit.bus.tail import NANO
from gangline_wire.rights import READER
from gangline_wire.streams import EVENTS, GIB, MESSAGE_BYTES_MAX, Bucket, Stream

OBJECTS_BYTES_MAX = 8 * GIB
DUPLICATE_WINDOW_S = 120.0
READERS: dict[str, Mapping[str, Any]] = {
    EVENTS.name: {
        "durable_name": READER,
        "description": "programs of others that read the public feed",
        "ack_policy": "explicit",
        "ack_wait": 60 * NANO,
        "deliver_policy": "all",
        "max_ack_pending": 10_000,
    }
}
"""Streams with a durable consumer from the start, for those who may make none."""


async def ensure(connection: Connection, settings: Mapping[str, Any]) -> None:
    """Create the stream, or correct what differs; what may not change on a live stream is left as it is.

    Raises:
        TemporaryError: no JetStream.
        PermanentError: the server refuses the settings.
    """
    name = settings["name"]
    try:
        info = await jetstream.stream_info(connection, name)
    except jetstream.NotFoundError:
        await jetstream.call(connection, f"STREAM.CREATE.{name}", settings)
        await _ensure_reader(connection, name)
        return
    await _ensure_reader(connection, name)
    changeable = {key: value for key, value in settings.items() if key not in _FIXED}
    if any(info.config.get(key, _EMPTY.get(key)) != value for key, value in changeable.items()):
        await jetstream.call(connection, f"STREAM.UPDATE.{name}", {**info.config, **changeable})


async def _ensure_reader(connection: Connection, stream: str) -> None:
    """Make the stream's reader, or correct it; where it began to read it keeps."""
    config = READERS.get(stream)
    if config is None:
        return
    place = f"{stream}.{config['durable_name']}"
    try:
        known = await jetstream.consumer_config(connection, place)
    except jetstream.NotFoundError:
        known = {}
    changeable = {key: value for key, value in config.items() if not known or key not in _FIXED}
    if any(known.get(key) != value for key, value in changeable.items()):
        wanted = {**known, **changeable}
        await jetstream.call(connection, f"CONSUMER.CREATE.{place}", {"stream_name": stream, "config": wanted})


_FIXED = ("storage", "retention", "persist_mode", "deliver_policy", "ack_policy")
"""Settings a live stream or consumer keeps (and old servers do not know)."""
_EMPTY: dict[str, Any] = {"max_age": 0, "allow_direct": False, "allow_rollup_hdrs": False, "deny_delete": False}
"""Settings the server leaves out of its answer when they have these values."""


def stream_settings(stream: Stream, *, replicas: int) -> dict[str, Any]:
    """A stream of ours as the server spells it."""
    # Servers before 2.12 do not know the setting and ignore it; replicated streams must not have it.
    eager = {"persist_mode": "async"} if stream.persist_async and replicas == 1 else {}
    return {
        **eager,
        "name": stream.name,
        "subjects": list(stream.subjects),
        "retention": "limits",
        "storage": "file",
        "discard": "old" if stream.discard_old else "new",
        "max_bytes": stream.bytes_max,
        "max_age": stream.age_s_max * NANO,
        "max_msgs_per_subject": stream.messages_per_subject_max,
        "max_msg_size": MESSAGE_BYTES_MAX,
        "duplicate_window": min(stream.duplicate_window_s, stream.age_s_max or stream.duplicate_window_s) * NANO,
        "num_replicas": replicas,
        "deny_delete": not stream.discard_old,
    }


def bucket_settings(bucket: Bucket, *, replicas: int) -> dict[str, Any]:
    """A key-value bucket as the server spells it."""
    window = min(bucket.ttl_s, DUPLICATE_WINDOW_S) if bucket.ttl_s else DUPLICATE_WINDOW_S
    return {
        "name": f"KV_{bucket.name}",
        "subjects": [f"$KV.{bucket.name}.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_bytes": bucket.bytes_max,
        "max_age": int(bucket.ttl_s * NANO),
        "max_msgs_per_subject": bucket.history,
        "duplicate_window": int(window * NANO),
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }


def objects_settings(name: str, *, replicas: int) -> dict[str, Any]:
    """An object store as the server spells it."""
    return {
        "name": f"OBJ_{name}",
        "subjects": [f"$O.{name}.C.>", f"$O.{name}.M.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_bytes": OBJECTS_BYTES_MAX,
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
    }
