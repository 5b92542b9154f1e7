"""Creating streams, buckets and object stores, and correcting those whose settings differ from ours."""

from collections.abc import Mapping, Sequence
from typing import Any

from gangline_kit.bus import jetstream
from gangline_kit.bus.connection import Connection
from gangline_kit.bus.tail import NANO
from gangline_kit.errors import PermanentError
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
    """Create the stream, or correct what differs, also what somebody else has added to it.

    Raises:
        TemporaryError: no JetStream.
        PermanentError: the server refuses the settings, or what it has keeps messages in another way than we rely on.
    """
    name = settings["name"]
    try:
        info = await jetstream.stream_info(connection, name)
    except jetstream.NotFoundError:
        await jetstream.call(connection, f"STREAM.CREATE.{name}", settings)
        await _ensure_reader(connection, name)
        return
    _check(f"stream {name}", info.config, settings, ("storage", "retention"))
    await _ensure_reader(connection, name)
    changeable = _PLAIN | {key: value for key, value in settings.items() if key not in _FIXED}
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
    if known:
        _check(f"consumer {place}", known, config, ("ack_policy", "deliver_subject"))
    changeable = {key: value for key, value in config.items() if not known or key not in _FIXED}
    spoiled = {key for key in _SPOILS_READER if known.get(key)}
    if known.get("max_deliver", -1) != -1:
        spoiled.add("max_deliver")
    if spoiled or any(known.get(key) != value for key, value in changeable.items()):
        wanted = {**{key: value for key, value in known.items() if key not in spoiled}, **changeable}
        await jetstream.call(connection, f"CONSUMER.CREATE.{place}", {"stream_name": stream, "config": wanted})


def _check(what: str, known: Mapping[str, Any], wanted: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Raises PermanentError where one of these, which may not be changed, is not as wanted."""
    for key in keys:
        if known.get(key) != wanted.get(key):
            raise PermanentError(
                f"{what} has {key} {known.get(key)}, needed is {wanted.get(key, 'none')}: "
                "save what it holds, delete it, and start again, which makes it anew"
            )


_PLAIN: dict[str, Any] = {
    "max_msgs": -1,
    "no_ack": False,
    "discard_new_per_subject": False,
    "subject_transform": None,
}
"""What a stream of ours has none of, each of which would lose messages or leave them unanswered."""
_SPOILS_READER = (
    "backoff",
    "filter_subject",
    "filter_subjects",
    "headers_only",
    "inactive_threshold",
    "rate_limit_bps",
)
"""The same for the consumer of readers: waits in place of its own, messages left out, or an end of its own."""
_FIXED = ("storage", "retention", "persist_mode", "deliver_policy", "ack_policy")
"""Settings a live stream or consumer keeps (and old servers do not know)."""
_EMPTY: dict[str, Any] = {
    "max_age": 0,
    "max_msgs": -1,
    "no_ack": False,
    "allow_direct": False,
    "allow_rollup_hdrs": False,
    "deny_delete": False,
    "discard_new_per_subject": False,
}
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
