"""What may go wrong between a client and the server: slow, refused, cut, answered too late to be heard, stale."""

import asyncio
import re
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from kubedouble.answers import Answer
from kubedouble.errors import ApiError


class CutError(Exception):
    """The connection breaks: the client gets no answer, whatever was done."""


class Fault(Struct):
    """One thing that goes wrong, for the next so many requests that match."""

    method: str = ""
    path: str = ""
    """Regular expression that must be found in the path and query; empty matches all."""
    times: int = 1
    status: int = 0
    """Answer this instead; nothing is done."""
    reason: str = "InternalError"
    message: str = "the server is told to fail"
    is_cut: bool = False
    """Break the connection before anything is done."""
    is_cut_after: bool = False
    """Do it, then break the connection."""
    is_empty: bool = False
    """Answer 200 without a body."""
    is_bare: bool = False
    """Answer `status` without a body."""
    delay_s: float = 0.0

    def fits(self, method: str, place: str) -> bool:
        """True when this request meets the fault."""
        return self.times > 0 and self.method in ("", method) and re.search(self.path, place) is not None

    @property
    def before(self) -> bool:
        """True when the request is not carried out."""
        return bool(self.status) or self.is_cut or self.is_empty

    def answer(self) -> Answer:
        """What the client gets instead.

        Raises:
            CutError: nothing.
        """
        if self.is_cut:
            raise CutError("cut before the answer")
        if self.is_empty:
            return Answer(200)
        if self.is_bare:
            return Answer(self.status)
        error = ApiError(self.status, self.reason, self.message)
        headers = {"Retry-After": "1"} if self.status == 429 else {}
        return Answer(self.status, msgspec.json.encode(error.status()), headers=headers)

    def after(self, answer: Answer) -> Answer:
        """What the client gets of an answer.

        Raises:
            CutError: nothing.
        """
        if self.is_cut_after:
            raise CutError("cut before the answer was heard")
        return answer


class Faults:
    """All faults that wait for their request, and what happens to open watches."""

    def __init__(self) -> None:
        """Nothing goes wrong."""
        self.waiting: list[Fault] = []
        self.away = False
        """True while nobody reaches the server at all."""
        self.flowing = asyncio.Event()
        self.flowing.set()

    def add(self, fault: Fault) -> Fault:
        """Let this happen."""
        self.waiting.append(fault)
        return fault

    def take(self, method: str, path: str, query: str) -> Fault | None:
        """The fault that this request meets.

        Raises:
            CutError: the server is away.
        """
        if self.away:
            raise CutError("the server is away")
        for fault in self.waiting:
            if fault.fits(method, f"{path}?{query}"):
                fault.times -= 1
                return fault
        return None

    async def flow(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A watch's events, held back while `flowing` is cleared: stale, but not cut."""
        async for part in stream:
            await self.flowing.wait()
            if self.away:
                raise CutError("the server went away")
            yield part
