"""One HTTP call as the handlers see it: who asks, for what, with which body; and what they answer."""

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from aiohttp import StreamReader, web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from gangline_core.door.arrays import element_number
from gangline_core.state import State
from gangline_core.telling.book import Book
from gangline_gateway.access import Caller
from gangline_gateway.asking import Asker
from gangline_gateway.config import Config
from gangline_gateway.named_twice import named_twice
from gangline_gateway.problems import ProblemError, invalid, wrong_query
from gangline_gateway.share import Shares
from gangline_kit.service import Site
from gangline_wire.fields import Fields, flag, mapping, read_fields, visible_text
from gangline_wire.limits import most
from gangline_wire.problem import FieldError, WrongValueError
from gangline_wire.quantity import shown
from gangline_wire.views import View

JSON = "application/json"
TRUE = ("true", "1")
"""How a query parameter says yes."""
MAY_BE_EMPTY = ("why", "cursor")
"""No reason, and the first page: neither is a choice that went missing."""
WHY_FIELDS: Fields = {"why": ("why", visible_text("why_chars"))}
READY_BYTES_MAX = 64 << 10
"""Larger bodies are read the general way, which also holds them to their limit."""
LINE_CHARS_MAX = 200
"""So much of what somebody sent is told in one line of a log."""
BODY_S_MAX = 30.0
"""A body takes at most so long to arrive: nobody holds a connection by sending it slowly."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class Answer(Struct, frozen=True):
    """A good answer: its body as a view (or ready bytes), status and further headers."""

    view: View | bytes
    status: int = 200
    headers: Mapping[str, str] = {}
    media_type: str = JSON


Outcome = View | Answer | web.StreamResponse
"""What a handler gives: a view is answered 200, an Answer as it says, a response is sent as it is."""


class Desk:
    """What all calls of one gateway share."""

    def __init__(self, site: Site, config: Config) -> None:
        """Reads go to the site's fold, changes through the asker."""
        self.site = site
        self.config = config
        self.asker = Asker(site, answer_s_max=config.answer_s_max)
        self.shares = Shares(site.clock)
        self.still_holds: Callable[[Caller], bool] = lambda caller: True
        """Whether what an identity provider said of a caller still is as good as then."""
        self.document = b""
        """The OpenAPI document."""
        self.books: dict[str, tuple[tuple[int, int], Book]] = {}
        """Per pool, the last order and forecast that was made, and for which log sequence and second."""
        self.streams: dict[asyncio.Task[object], str] = {}
        """Handlers that send events or logs, and to whom; they would never end, so the gateway's end cancels them."""

    @property
    def state(self) -> State:
        """The fold; stands still until the next await."""
        return self.site.follower.state


class Call:
    """One request of a known caller."""

    __slots__ = ("caller", "desk", "follows", "request", "request_id")

    def __init__(self, desk: Desk, request: web.Request, *, caller: Caller, request_id: str) -> None:
        """The request is not read yet."""
        self.desk = desk
        self.request = request
        self.caller = caller
        self.request_id = request_id
        self.follows = False
        """True once it only waits for what happens, and sends that: no work that the caller could make more of."""

    @property
    def state(self) -> State:
        """The fold; stands still until the next await."""
        return self.desk.site.follower.state

    async def only_follows(self) -> None:
        """From now on it only follows; the step so far ends here, and is counted as what it was."""
        if not self.follows:
            await asyncio.sleep(0)
            self.follows = True

    @property
    def path(self) -> str:
        """The address as it may stand in a log: as it came, without its query, on one line."""
        return line_safe(self.request.raw_path.partition("?")[0])

    def part(self, name: str) -> str:
        """A part of the address, decoded."""
        return self.request.match_info[name]

    def number(self, name: str) -> int:
        """A part of the address that is a job's number, or "42_7" for an element; anything else gives 0."""
        text = self.request.match_info[name]
        array, underscore, index = text.partition("_")
        if underscore and _is_number(array) and _is_number(index):
            return element_number(self.state, int(array), int(index)) or 0
        return int(text) if _is_number(text) else 0

    # --- query -------------------------------------------------------------------------------------------

    def check_query(self, known: tuple[str, ...]) -> None:
        """Refuse parameters that the route does not know, that say nothing or that stand twice.

        A typo must not mean "no filter", an unset variable of a shell not "all", and `?dry_run` not "in earnest".

        Raises:
            ProblemError: one of them.
        """
        if not self.request.query_string:
            return
        query = self.request.query
        for name, text in query.items():
            if name not in known:
                message = f"is not known here; known are {', '.join(known)}" if known else "is not known here"
                raise wrong_query(shown(name), message)
            if not text and name not in MAY_BE_EMPTY:
                raise wrong_query(name, "is empty; give it a value or leave it out")
        if len(query) != len(set(query)):
            raise wrong_query(next(name for name in query if len(query.getall(name)) > 1), "stands twice")

    def text(self, name: str, default: str = "") -> str:
        """A query parameter."""
        return self.request.query.get(name, default)

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false.

        Raises:
            ProblemError: it is neither.
        """
        text = self.text(name)
        if text in TRUE:
            return True
        if text in ("", "false", "0"):
            return False
        raise wrong_query(name, 'must be "true" or "false"')

    def count(self, name: str, default: int, *, least: int, limit: str) -> int:
        """A query parameter that is a whole number from `least` to the named limit.

        Raises:
            ProblemError: it is not.
        """
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= 12 and least <= int(text) <= most(limit)):
            raise wrong_query(name, f"must be a whole number from {least} to {most(limit)}")
        return int(text)

    # --- body --------------------------------------------------------------------------------------------

    async def document(self, *, may_be_empty: bool = False) -> object:
        """The body, decoded from JSON; an empty one is {} where that is allowed.

        Raises:
            ProblemError: too large, not JSON, or not said to be JSON.
        """
        request = self.request
        try:
            body = _arrived(request.content)
            if body is None:
                async with asyncio.timeout(BODY_S_MAX):
                    body = await request.read()
        except TimeoutError:
            raise ProblemError("malformed_request", f"The body did not arrive within {BODY_S_MAX:g} s.") from None
        except web.HTTPRequestEntityTooLarge:
            raise ProblemError("body_too_large", f"The limit is {most('body_bytes')} bytes (body_bytes).") from None
        except (web.RequestPayloadError, HttpProcessingError):
            raise ProblemError(
                "malformed_request", "The body is not what Content-Encoding, Transfer-Encoding or Content-Length say."
            ) from None
        if not body and may_be_empty:
            return {}
        if not is_json(request.headers.get("Content-Type", JSON)):
            raise ProblemError("unsupported_media_type", "Send the body with Content-Type: application/json.")
        return parse_json(body)


def _arrived(stream: StreamReader) -> bytes | None:
    """The whole body when all of it is there already, as small ones are; None when it is to be read the general way.

    That way asks the connection for more after each piece, which costs as much as the body itself.
    """
    if not stream.is_eof() or stream.exception() is not None or stream.total_bytes > READY_BYTES_MAX:
        return None
    body = b"".join(stream._buffer) if stream.total_bytes else b""
    return body if len(body) == stream.total_bytes else None


def line_safe(text: str) -> str:
    """What somebody sent, as part of one line of a log: short, nothing that ends a line or moves a cursor."""
    return ascii(text[:LINE_CHARS_MAX])[1:-1]


@lru_cache(maxsize=64)
def is_json(content_type: str) -> bool:
    """True for a Content-Type header that says JSON."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == JSON or (media_type.startswith("application/") and media_type.endswith("+json"))


def _is_number(text: str) -> bool:
    return len(text) <= 16 and text.isascii() and text.isdecimal()


def parse_json(body: bytes) -> object:
    """A JSON document.

    Raises:
        ProblemError: it is none, is nested too deeply, or has a name twice in one object.
    """
    try:
        document: object = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProblemError("malformed_json", str(error)) from None
    except RecursionError:
        raise ProblemError("malformed_json", "The body is nested too deeply.") from None
    if (path := named_twice(body, document)) is not None:
        raise invalid(path, "stands twice")
    return document


def encode_view(view: View) -> bytes:
    """The body of an answer."""
    return _encoder.encode(view)


def fields_of(document: object, fields: Fields) -> dict[str, Any]:
    """The kept fields of a small body.

    Raises:
        ProblemError: some are unknown or wrong.
    """
    errors: list[FieldError] = []
    try:
        kept = read_fields(mapping(document), fields, errors)
    except WrongValueError as error:
        raise invalid("", str(error)) from None
    if errors:
        raise ProblemError("invalid_fields", f"{errors[0].path}: {errors[0].message}", errors=errors)
    return kept


def read_flag(document: object, name: str) -> bool:
    """The one optional flag of a small body such as {"urgent": true}.

    Raises:
        ProblemError: the body has something else.
    """
    return bool(fields_of(document, {name: (name, flag)}).get(name, False))


def read_why(document: object) -> str:
    """The optional `why` of a small body {"why": "..."}.

    Raises:
        ProblemError: the body has something else.
    """
    return str(fields_of(document, WHY_FIELDS).get("why", ""))
