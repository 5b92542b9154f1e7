"""Where a page ends, as a text that only we make: bound to the caller and to the question."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import blake2b
from hmac import compare_digest

from gangline_gateway.problems import ProblemError

SIGN_BYTES = 12
TEXT_MAX = 512
"""Longer texts are not looked at."""


def make_cursor(after: str, *, caller: str, question: str) -> str:
    """A cursor for what follows `after`; `caller` is the token's digest, `question` all filters of the list."""
    return urlsafe_b64encode(_sign(after, caller, question) + after.encode()).decode().rstrip("=")


def read_cursor(cursor: str, *, caller: str, question: str) -> str:
    """What the page follows; "" for no cursor.

    Raises:
        ProblemError: the cursor was not made for this caller and question.
    """
    if not cursor:
        return ""
    try:
        if len(cursor) > TEXT_MAX or not cursor.isascii():
            raise ValueError("no cursor of ours")
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        after = data[SIGN_BYTES:].decode()
        if not after or not compare_digest(data[:SIGN_BYTES], _sign(after, caller, question)):
            raise ValueError("the signature does not fit")
    except (Base64Error, ValueError):
        raise ProblemError("invalid_cursor", "Take it from `next` of the last page, with the same filters.") from None
    return after


def _sign(after: str, caller: str, question: str) -> bytes:
    """A keyed digest. The key is the token's digest: no tenant knows another's, every replica knows all."""
    text = f"{question}\0{after}".encode()
    return blake2b(text, key=caller.encode()[:64], digest_size=SIGN_BYTES).digest()
