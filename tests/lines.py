"""Messages of which only the bytes matter, for those who keep or carry them."""

from gangline_core.fold import Message


def bytes_only(seq: int, *, at: int, data: bytes) -> Message:
    """A message of which only the bytes matter."""
    return Message(seq=seq, lane="", epoch=0, at=at, facts=(), raw=data)
