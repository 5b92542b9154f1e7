"""Objects that are nested deeper than any decoder goes: they are read without what lies so deep.

Kinds of others may keep whatever their users write. A decoder that passes over such a part gives up where the stack
ends, and the page of a list with it: one object would hide all others of its kind.
"""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

DEPTH_MAX = 200
"""Nothing that anybody reads lies deeper; decoders go on for some hundreds more."""
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


def read(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """The value; what lies too deep in it is null.

    Raises:
        msgspec.MsgspecError: it is none of the decoder's kind.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(shallow(bytes(data)))


def shallow(data: bytes) -> bytes:
    """The same text with null in the place of each list and object that lies deeper than `DEPTH_MAX`."""
    kept, depth, from_ = list[bytes](), 0, 0
    for found in _TOKENS.finditer(data):
        mark = found[0][:1]
        if mark in b"[{":
            depth += 1
            if depth == DEPTH_MAX + 1:
                kept += (data[from_ : found.start()], b"null")
        elif mark in b"]}":
            depth -= 1
            if depth == DEPTH_MAX:
                from_ = found.end()
    return b"".join((*kept, data[from_:])) if depth <= DEPTH_MAX else b"".join(kept)
