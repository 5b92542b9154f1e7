"""Bytes to values and back: JSON, readable with any NATS client."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gangline_wire.envelope import SCHEMA_VERSION, Batch

T = TypeVar("T")

_encoder = msgspec.json.Encoder(order="deterministic")
_batch_decoder = msgspec.json.Decoder(Batch)
_decoders: dict[type[Any], Any] = {}


MIGRATIONS: dict[int, Callable[[Batch], Batch]] = {}
"""Schema version -> how its batches become those of the next. New fields with defaults need no entry."""


class CodecError(Exception):
    """Bytes that are not what they should be; the message says where."""


class SchemaError(CodecError):
    """Bytes of a schema that this build does not read."""


def encode(value: object) -> bytes:
    """Canonical JSON of any Struct: what was decoded from equal bytes gives equal bytes.

    A field is left out when it holds the default itself; an equal text that came by other ways (a pickle) is written.
    """
    return _encoder.encode(value)


def decode(data: bytes, kind: type[T]) -> T:
    """A value of the kind.

    Raises:
        CodecError: the bytes do not fit the type.
    """
    try:
        return _decoder(kind).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(str(error)) from error


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """One decoder per type: making one costs more than using it."""
    known: msgspec.json.Decoder[T] | None = _decoders.get(kind)
    if known is None:
        known = _decoders[kind] = msgspec.json.Decoder(kind)
    return known


def decode_batch(data: bytes) -> Batch:
    """A batch of the log; unknown fields of a newer minor schema are ignored.

    Raises:
        SchemaError: a batch of a schema version that this build does not read.
        CodecError: no batch.
    """
    try:
        batch = _batch_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(str(error)) from error
    if batch.v > SCHEMA_VERSION:
        raise SchemaError(f"batch of schema {batch.v}; this build reads up to {SCHEMA_VERSION}: upgrade first")
    return batch if batch.v == SCHEMA_VERSION else _migrated(batch)


def _migrated(batch: Batch) -> Batch:
    """A batch of an older schema as this build knows it, one step after the other."""
    while batch.v < SCHEMA_VERSION:
        step = MIGRATIONS.get(batch.v)
        if step is None:
            raise SchemaError(f"batch of schema {batch.v}; the migration from {batch.v} to {batch.v + 1} is missing")
        batch = step(batch)
    return batch
