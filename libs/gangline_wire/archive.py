"""How one message of the log is written into the archive: a line of JSON that nobody can change unseen.

The archive is a folder of segments `archive-<first seq>.jsonl`. The `hash` of a line is the head of the log's chain
after its message (`gangline_core.fold.chain`), so a changed, missing or moved message breaks the chain; the line's own
numbers stand in the message too or follow from the line before, and its form is the only one it may have.
"""

import binascii
import re

import msgspec
from msgspec import Struct

from gangline_core.fold import Message
from gangline_wire.stored import noted

SEGMENT_NAME = re.compile(r"archive-(\d{12,})\.jsonl")
"""File name of a segment; the number is the sequence of its first message."""


class ArchiveLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One message: its log sequence, its time (the batch's `at`, ms), its bytes as text, and the chain's head."""

    seq: int
    at: int
    data: str
    hash: str
    note: str = ""
    """What was found out about it beside its bytes (see `gangline_wire.stored`); empty for nearly every message."""
    base64: bool = False
    """True when `data` is base64, because the bytes are no text."""

    @property
    def raw(self) -> bytes:
        """The message as it was stored."""
        return binascii.a2b_base64(self.data) if self.base64 else self.data.encode()

    @property
    def message(self) -> Message:
        """The message as the fold wants it.

        Raises:
            CodecError: its bytes are no batch, although nothing is noted.
        """
        return noted(self.seq, self.raw, self.note)


_decoder = msgspec.json.Decoder(ArchiveLine)


def segment_name(first_seq: int) -> str:
    """File name of the segment that begins with this sequence."""
    return f"archive-{first_seq:012d}.jsonl"


CUT_OFF = "the line is cut off"


def encode_line(told: Message, *, head: str) -> bytes:
    """The line of one message, newline included; `head` is the chain's head after it."""
    try:
        text, is_base64 = told.raw.decode(), False
    except UnicodeDecodeError:
        text, is_base64 = binascii.b2a_base64(told.raw, newline=False).decode(), True
    line = ArchiveLine(seq=told.seq, at=told.at, data=text, hash=head, note=told.note, base64=is_base64)
    return msgspec.json.encode(line) + b"\n"


def decode_line(text: bytes) -> ArchiveLine:
    """The line, if its bytes are exactly what `encode_line` writes; the chain is the reader's business.

    Raises:
        ValueError: the bytes are no line, or not in the one form a line has.
    """
    if not text.endswith(b"\n"):
        raise ValueError(CUT_OFF)
    try:
        line = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a line of an archive: {error}") from error
    if msgspec.json.encode(line) + b"\n" != text:
        raise ValueError("the line is not in the form in which it was written")
    return line
