"""How one message of the log is written into the archive: a line of JSON that nobody can change unseen.

The archive is a folder of segments `archive-<first seq>.jsonl`. The `hash` of a line is the head of the log's chain
after its message (`gangline_core.fold.chain`), so a changed, missing or moved message breaks the chain; the line's own
numbers stand in the message too or follow from the line before, and its form is the only one it may have.
"""

import re

import msgspec
from msgspec import Struct

SEGMENT_NAME = re.compile(r"archive-(\d{12,})\.jsonl")
"""File name of a segment; the number is the sequence of its first message."""


class ArchiveLine(Struct, frozen=True, forbid_unknown_fields=True):
    """One message: its log sequence, its time (the batch's `at`, ms), its bytes as text, and the chain's head."""

    seq: int
    at: int
    data: str
    hash: str


_decoder = msgspec.json.Decoder(ArchiveLine)


def segment_name(first_seq: int) -> str:
    """File name of the segment that begins with this sequence."""
    return f"archive-{first_seq:012d}.jsonl"


def encode_line(seq: int, *, at: int, data: bytes, head: str) -> bytes:
    """The line of one message, newline included; `head` is the chain's head after it."""
    return msgspec.json.encode(ArchiveLine(seq=seq, at=at, data=data.decode(), hash=head)) + b"\n"


def decode_line(text: bytes) -> ArchiveLine:
    """The line, if its bytes are exactly what `encode_line` writes; the chain is the reader's business.

    Raises:
        ValueError: the bytes are no line, or not in the one form a line has.
    """
    if not text.endswith(b"\n"):
        raise ValueError("the line is cut off")
    try:
        line = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"not a line of an archive: {error}") from error
    if msgspec.json.encode(line) + b"\n" != text:
        raise ValueError("the line is not in the form in which it was written")
    return line
