"""Rows of a benchmark's parts that were measured already, in a folder: a long run goes on where it was stopped.

A part is kept once all of its rows are there. What other code or other data measured is measured again.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.rows import Measured

ROOT = Path(__file__).parents[2]
DECIDES = ("libs/gangline_core", "libs/gangline_lab", "tools/bench", "policies")
"""What rows of the lab depend on; names below the root."""
LEFT_OUT = ("ranges", "measured", "__pycache__")
"""Folders that no row depends on: bars are looked up anew, and what was measured decides nothing."""

Tell = Callable[[str], None]
Measure = Callable[[str], AsyncIterator[Measured]]


class Part(Struct, frozen=True):
    """What a part came to."""

    code: str
    seconds: float
    """Processor time that it took."""
    rows: tuple[Measured, ...]


@cache
def code() -> str:
    """A name for the code and data that decide what is measured."""
    digest = blake2b(digest_size=16)
    for folder in DECIDES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and not set(LEFT_OUT) & set(path.parts):
                digest.update(f"{path.relative_to(ROOT)}\0".encode())
                digest.update(blake2b(path.read_bytes()).digest())
    return digest.hexdigest()


async def measured(names: Sequence[str], measure: Measure, folder: Path, tell: Tell) -> AsyncIterator[Measured]:
    """Rows of these parts in their order, those from the folder that it has; tells which part is begun and ended."""
    for number, name in enumerate(names, 1):
        path = folder / f"{name}.json"
        known = _known(path)
        where = f"[{number}/{len(names)}] {name}"
        if known is None:
            tell(where)
            begun, rows = time.process_time(), list[Measured]()
            async for row in measure(name):
                rows.append(row)
                yield row
            part = Part(code(), time.process_time() - begun, tuple(rows))
            _keep(path, part)
            tell(f"{where} took {part.seconds:,.0f} s of processor time")
        else:
            tell(f"{where} was measured before, in {known.seconds:,.0f} s of processor time")
            for row in known.rows:
                yield row


def _keep(path: Path, part: Part) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(part))
    beside.replace(path)


def _known(path: Path) -> Part | None:
    """The part as it was kept; None where it was not, or by other code."""
    try:
        part = msgspec.json.decode(path.read_bytes(), type=Part)
    except (OSError, msgspec.DecodeError):
        return None
    return part if part.code == code() else None
