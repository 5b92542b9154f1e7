"""Whether a name stands twice in one object of a JSON document, of which a reader takes one and loses the other."""

import json
from collections import Counter
from collections.abc import Iterator

import msgspec

from gangline_wire.fields import join, str_key

_END = b'":'
"""A name ends so, unless somebody writes a space before the colon."""
_UNUSUAL = (b" :", b"\t:", b"\n:", b"\r:", b"\\u")
_encoder = msgspec.json.Encoder()


class _Object(dict[str, object]):
    """An object and the first of its names that stood there before."""

    repeated: str | None = None


def named_twice(body: bytes, document: object) -> str | None:
    """The path of a name that stands twice in its object; None when there is none. `document` is what was read of it.

    Reading again costs more than all else that is done with a small body, so names are counted first: of a body without
    anything unusual as many must have been written as were read.
    """
    if not any(mark in body for mark in _UNUSUAL) and body.count(_END) == _encoder.encode(document).count(_END):
        return None
    try:
        # Numbers are read already, and some are longer than Python reads.
        found = json.loads(body, object_pairs_hook=_object, parse_int=str, parse_float=str)
        return next(_repeated(found, ""), None)
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, object]]) -> _Object:
    found = _Object(pairs)
    if len(found) < len(pairs):
        often = Counter(name for name, _ in pairs)
        found.repeated = next(name for name in found if often[name] > 1)
    return found


def _repeated(value: object, path: str) -> Iterator[str]:
    """Paths of repeated names; of two values the last was kept."""
    if isinstance(value, _Object):
        if value.repeated is not None:
            yield join(path, str_key(value.repeated))
        for name, entry in value.items():
            yield from _repeated(entry, join(path, str_key(name)))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _repeated(entry, f"{path}[{index}]")
