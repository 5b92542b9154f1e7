"""Brings a task's output from its files to the log of outputs, in order, each byte once, with an end."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from gangline_agent.journal import Folder
from gangline_agent.output import Caps, Piece, allowed, piece
from gangline_core.ids import JobId, TaskId
from gangline_wire import output, subjects

Append = Callable[[str, bytes, str, dict[str, str]], Awaitable[object]]
"""Stores a message durably: subject, bytes, message id, headers. Raises TemporaryError."""

PIECES_MAX = 16
"""Pieces of one task before the others have their turn."""


class Telling(Struct):
    """How far one task's output has been told."""

    job: JobId
    task: TaskId
    placed_ms: int
    position: int = 0
    is_done: bool = False


async def tell(telling: Telling, folder: Folder, append: Append, *, caps: Caps, running_s: float, end: str) -> None:
    """Tell what is new; with `end` (the exit code, or "-") all of it, however much, and that it is the end.

    Raises:
        TemporaryError: it could not be told now; the same call goes on where this one stopped.
    """
    until = None if end else allowed(caps, running_s=running_s)
    for _ in range(PIECES_MAX):
        if telling.is_done or (until is not None and telling.position >= until):
            return
        most = caps.piece_bytes if until is None else min(caps.piece_bytes, until - telling.position)
        found = piece(folder.path, telling.position, most, caps)
        if found is None and not end:
            return
        found = found or Piece(offset=telling.position, data=b"", next=telling.position)
        is_last = bool(end) and piece(folder.path, found.next, 1, caps) is None
        await _send(telling, append, found, end if is_last else "")
        telling.position = found.next
        folder.set_told(telling.position)
        telling.is_done = is_last


async def _send(telling: Telling, append: Append, found: Piece, end: str) -> None:
    subject = subjects.output(telling.job, telling.task)
    name = f"{telling.task}.{telling.placed_ms}.{found.offset}.{len(found.data)}{'.end' if end else ''}"
    await append(subject, found.data, name, output.headers(found.offset, end=end))
