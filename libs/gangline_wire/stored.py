"""From the stored bytes of the log to a message that is folded: what does not belong there is parked.

Who may write a lane is the bus server's business, but what a writer says in its bytes is not: an agent that was taken
over may write anything on its own lane. So a message counts only if it is a batch, of the lane on whose subject it
stands, with facts of that lane's pen. What machines of others say of the time is held against the time at which the
server stored it. What was found out is a note, which the hash chain covers and the archive keeps, so that whoever reads
the archive finds the same.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.fold import Message
from gangline_core.fold.own_nodes import CARRIED
from gangline_wire import subjects
from gangline_wire.codec import CodecError, SchemaError, decode_batch
from gangline_wire.depth import is_too_deep
from gangline_wire.envelope import Batch
from gangline_wire.lanes import stray_facts

UNREADABLE = "it cannot be read"
"""The same whichever build and library tried: notes go into the hash chain."""
STRAY = "it stands on no lane"
"""Where somebody listens to a lane by its name, whoever may make a consumer of another stream can have its messages
delivered there, and the server stores them in the log under the subject that they had."""
AHEAD_MS_MAX = 60_000
"""So far the clock of a machine that carries nodes may be ahead of the bus server's."""


class Note(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the bytes of a message do not say themselves."""

    parked: str = ""
    """Why nothing of it counts."""
    at: int = -1
    """Its time in ms, where that is not what its writer said."""
    lane: str = ""
    """The lane on whose subject it stands, where it is parked."""


class _Head(Struct, frozen=True):
    """What every batch of any schema has."""

    lane: str
    epoch: int
    seq_seen: int
    at: int
    facts: list[msgspec.Raw]
    v: int = 1


_head_decoder = msgspec.json.Decoder(_Head)
_note_decoder = msgspec.json.Decoder(Note)


def message(seq: int, data: bytes, *, subject: str = "", stored_ms: int = 0) -> Message:
    """The message of the log at `seq`, stored under this subject at this time, as the fold wants it.

    Without subject and time its lane and its time are believed.

    Raises:
        CodecError: another build of a service wrote it, which knows what this one does not. What an agent writes is
            parked then, since whoever took one over could end everybody by it: services are upgraded before agents.
    """
    if subject and not subject.startswith(f"{subjects.LOG}."):
        return _parked(seq, data, Note(parked=STRAY, at=stored_ms))
    lane = subject.removeprefix(f"{subjects.LOG}.")
    if lane.startswith(CARRIED) and is_too_deep(data):
        return _parked(seq, data, Note(parked=UNREADABLE, at=stored_ms, lane=lane))
    try:
        batch = decode_batch(data)
    except CodecError as error:
        if not lane.startswith(CARRIED) and (isinstance(error, SchemaError) or _is_of_some_schema(data)):
            raise
        return _parked(seq, data, Note(parked=UNREADABLE, at=stored_ms, lane=lane))
    if lane and lane != batch.lane:
        return _parked(seq, data, Note(parked=f"it says it is of lane {batch.lane}", at=stored_ms, lane=lane))
    if stray := stray_facts(batch.lane, batch.facts):
        why = f"its lane must not carry {', '.join(dict.fromkeys(stray))}"
        return _parked(seq, data, Note(parked=why, at=stored_ms, lane=batch.lane))
    if batch.lane.startswith(CARRIED):
        if batch.at < 0:
            # Nobody's clock goes back so far, and whoever works with times works with those that there are.
            return _message(seq, data, batch, Note(at=0))
        if stored_ms and batch.at > stored_ms + AHEAD_MS_MAX:
            return _message(seq, data, batch, Note(at=stored_ms + AHEAD_MS_MAX))
    return _message(seq, data, batch, None)


def noted(seq: int, data: bytes, note: str) -> Message:
    """The message of these bytes and the note that was made of it, as an archive has both.

    Raises:
        CodecError: the bytes are no batch although the note does not say so, or the note is none.
    """
    if not note:
        return _message(seq, data, decode_batch(data), None)
    try:
        known = _note_decoder.decode(note)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"the note is none: {error}") from error
    if known.parked:
        return _parked(seq, data, known)
    return _message(seq, data, decode_batch(data), known)


def _is_of_some_schema(data: bytes) -> bool:
    """True for what a build that knows other facts than this one may have written."""
    try:
        _head_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _message(seq: int, data: bytes, batch: Batch, note: Note | None) -> Message:
    found = Message(
        seq=seq,
        lane=batch.lane,
        epoch=batch.epoch,
        at=batch.at,
        facts=batch.facts,
        raw=data,
        seen=batch.seq_seen,
    )
    return found if note is None else replace(found, at=note.at, note=_text(note))


def _parked(seq: int, data: bytes, note: Note) -> Message:
    at = max(note.at, 0)
    return Message(seq=seq, lane=note.lane, epoch=0, at=at, facts=(), raw=data, parked=note.parked, note=_text(note))


def _text(note: Note) -> str:
    return msgspec.json.encode(note).decode()
