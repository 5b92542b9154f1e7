"""The JetStream calls we need, as plain requests: append with its refusals, stream and consumer settings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from gangline_kit.bus.connection import Connection
from gangline_kit.errors import (
    LaneConflictError,
    OutcomeUnknownError,
    PermanentError,
    StreamFullError,
    TemporaryError,
)

API_TIMEOUT_S = 5.0
AGAIN_S = 0.4
"""What only reads is asked this often until it is answered: of several servers that look for a leader none answers, and
none keeps the question for later."""

EXPECTED_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
MESSAGE_ID = "Nats-Msg-Id"

WRONG_LAST_SEQUENCE = 10071
IN_PROCESS = 10164
"""Several servers have not agreed yet on an earlier message of the subject, perhaps this one's first try."""
NO_PEERS = 10005
"""Too few servers are there for the replicas: one of them starts, or is away."""
FULL = (10023, 10028, 10047, 10077, 10122)
"""Out of memory, of storage, of the account's share; the store refused (limits reached)."""
INVALID = (10025, 10052, 10058)
"""Settings the server does not take; it calls some of these its own error, but repeating does not help."""
NOT_FOUND = (10014, 10037, 10059)
"""No such consumer, message, stream."""


class ApiError(Struct, frozen=True):
    """Why the server refused a JetStream call."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class NotFoundError(TemporaryError):
    """The stream, consumer or message does not exist; whoever makes it may still come."""


class _Refused(Struct, frozen=True):
    error: ApiError | None = None


class Ack(Struct, frozen=True):
    """The server has stored a message."""

    seq: int = 0
    stream: str = ""
    error: ApiError | None = None


class StreamState(Struct, frozen=True):
    """Where a stream begins and ends."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0


class StreamInfo(Struct, frozen=True):
    """A stream's identity, settings and ends."""

    created: str
    state: StreamState
    config: dict[str, Any]
    """As the server spells it; see setup.py."""
    ts: str = ""
    """The server's own time; servers before 2.10 do not say."""

    @property
    def created_ms(self) -> int:
        """When the server made it, in ms since the Unix epoch."""
        return _at_ms(self.created)

    @property
    def at_ms(self) -> int:
        """The server's own time in ms since the Unix epoch; 0 when it does not say."""
        return _at_ms(self.ts)


class StoredMessage(Struct, frozen=True):
    """One message as it lies in a stream."""

    seq: int
    subject: str
    data: bytes = b""
    hdrs: bytes = b""
    """Headers as they crossed the wire."""
    time: str = ""
    """When the server stored it."""

    @property
    def headers(self) -> dict[str, str] | None:
        """Its headers; None when it has none."""
        lines = (line.partition(":") for line in self.hdrs.decode(errors="replace").split("\r\n")[1:])
        return {name: value.strip() for name, sign, value in lines if sign} or None

    @property
    def stored_ms(self) -> int:
        """When the server stored it, in ms since the Unix epoch; 0 when it does not say."""
        return _at_ms(self.time)


class _Names(Struct, frozen=True):
    streams: list[str] | None = None
    consumers: list[str] | None = None


class _Consumer(Struct, frozen=True):
    config: dict[str, Any]


class _Subjects(Struct, frozen=True):
    subjects: dict[str, int] | None = None


class _SubjectsState(Struct, frozen=True):
    state: _Subjects


class _Stored(Struct, frozen=True):
    message: StoredMessage


_ack_decoder = msgspec.json.Decoder(Ack)


async def call(
    connection: Connection,
    verb: str,
    payload: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = API_TIMEOUT_S,
    again_s: float = 0,
) -> bytes:
    """One `$JS.API` call; `again_s` as for requests.

    Raises:
        NotFoundError, TemporaryError, PermanentError: as the server says.
    """
    body = msgspec.json.encode(payload) if payload is not None else b""
    answer = await connection.request(f"$JS.API.{verb}", body, timeout_s=timeout_s, again_s=again_s)
    refused = msgspec.json.decode(answer.data, type=_Refused).error
    if refused is not None:
        raise _problem(refused, verb)
    return answer.data


async def look(connection: Connection, verb: str, payload: Mapping[str, Any] | None = None) -> bytes:
    """One `$JS.API` call that changes nothing; errors as `call`."""
    return await call(connection, verb, payload, again_s=AGAIN_S)


async def append(
    connection: Connection, subject: str, data: bytes, *, headers: dict[str, str] | None, timeout_s: float
) -> int:
    """Store one message; gives its sequence after the server has it on disk; errors as `store`."""
    return (await store(connection, subject, data, headers=headers, timeout_s=timeout_s)).seq


async def store(
    connection: Connection, subject: str, data: bytes, *, headers: dict[str, str] | None, timeout_s: float
) -> Ack:
    """Store one message; gives its sequence and its stream after the server has it on disk.

    Raises:
        LaneConflictError: the expected last sequence is not the subject's.
        StreamFullError, TemporaryError, OutcomeUnknownError, PermanentError: as said there.
    """
    answer = await connection.request(subject, data, timeout_s=timeout_s, headers=headers)
    ack = _ack_decoder.decode(answer.data)
    if ack.error is not None:
        raise _problem(ack.error, subject)
    return ack


async def stream_info(connection: Connection, stream: str) -> StreamInfo:
    """The stream's identity and ends; raises NotFoundError."""
    return msgspec.json.decode(await look(connection, f"STREAM.INFO.{stream}"), type=StreamInfo)


async def stream_of(connection: Connection, subject: str) -> str:
    """Name of the stream that stores the subject; raises NotFoundError."""
    names = msgspec.json.decode(await look(connection, "STREAM.NAMES", {"subject": subject}), type=_Names).streams
    if not names:
        raise NotFoundError(f"no stream stores {subject}")
    return names[0]


async def consumers(connection: Connection, stream: str) -> list[str]:
    """Names of the stream's consumers; raises NotFoundError."""
    return msgspec.json.decode(await look(connection, f"CONSUMER.NAMES.{stream}"), type=_Names).consumers or []


async def consumer_config(connection: Connection, place: str) -> dict[str, Any]:
    """Settings of the consumer STREAM.NAME, as the server spells them; raises NotFoundError."""
    return msgspec.json.decode(await look(connection, f"CONSUMER.INFO.{place}"), type=_Consumer).config


async def subjects(connection: Connection, stream: str, pattern: str) -> list[str]:
    """Subjects in the stream that match, sorted."""
    answer = await look(connection, f"STREAM.INFO.{stream}", {"subjects_filter": pattern})
    return sorted(msgspec.json.decode(answer, type=_SubjectsState).state.subjects or {})


async def drop_until(connection: Connection, stream: str, seq: int) -> None:
    """Drop messages up to `seq`, but the newest of every subject, whose sequence writers of the subject expect."""
    for subject in await subjects(connection, stream, ">"):
        last = await last_message(connection, stream, subject)
        if last is not None:
            # Never by count: somebody may append while we purge, and what is newer than `seq` stays whatever comes.
            await call(connection, f"STREAM.PURGE.{stream}", {"filter": subject, "seq": min(last.seq, seq + 1)})


async def message_at(connection: Connection, stream: str, seq: int) -> StoredMessage:
    """The message stored at the sequence; raises NotFoundError."""
    return await _message(connection, stream, {"seq": seq})


async def next_message(
    connection: Connection, stream: str, seq: int, subject: str, *, timeout_s: float
) -> StoredMessage:
    """The first message at the sequence or after it whose subject matches; asked once, of the stream's own leader.

    Raises:
        NotFoundError: there is none yet. TemporaryError, PermanentError: as `call`.
    """
    answer = await call(
        connection, f"STREAM.MSG.GET.{stream}", {"seq": seq, "next_by_subj": subject}, timeout_s=timeout_s
    )
    return msgspec.json.decode(answer, type=_Stored).message


async def last_message(connection: Connection, stream: str, subject: str) -> StoredMessage | None:
    """The last message of a subject, or None."""
    try:
        return await _message(connection, stream, {"last_by_subj": subject})
    except NotFoundError:
        return None


async def _message(connection: Connection, stream: str, which: Mapping[str, Any]) -> StoredMessage:
    answer = await look(connection, f"STREAM.MSG.GET.{stream}", which)
    return msgspec.json.decode(answer, type=_Stored).message


def _at_ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000) if time else 0


def _problem(error: ApiError, what: str) -> Exception:
    text = f"{what}: {error.description} ({error.err_code})"
    if error.err_code == WRONG_LAST_SEQUENCE:
        return LaneConflictError(text)
    if error.err_code == IN_PROCESS:
        return OutcomeUnknownError(f"{text}: an earlier message of the subject is on its way")
    if error.err_code in FULL:
        return StreamFullError(text, retry_after_s=5.0)
    if error.err_code in NOT_FOUND:
        return NotFoundError(text)
    if error.err_code == NO_PEERS or (error.code >= 500 and error.err_code not in INVALID):
        return TemporaryError(text)
    return PermanentError(text)
