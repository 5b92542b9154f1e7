"""What the double answers."""

from collections.abc import AsyncIterator

from msgspec import Struct


class Answer(Struct, frozen=True):
    """A whole answer, or one that streams."""

    status: int
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    headers: dict[str, str] = {}
