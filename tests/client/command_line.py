"""The command in this process: words in; exit code, output and remarks out."""

import asyncio
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tests.client.fake_platform import TOKEN

from gangline_client.console import Console, Format
from gangline_client.doors import Doors
from gangline_client.main import run_verb
from gangline_client.parser import parse
from gangline_client.verbs import VERBS

NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Result:
    """What the shell would see."""

    code: int
    out: str
    err: str


async def no_wait(seconds: float) -> None:
    """Lets others go on, but passes no time."""
    await asyncio.sleep(0)


DOORS = Doors(now_ms=lambda: NOW_MS, new_key=lambda: "key-1", sleep=no_wait)


async def gangline(
    url: str, *words: str, width: int = 0, colour: bool = False, environ: Mapping[str, str] | None = None
) -> Result:
    """`gangline WORDS` against the platform, in a thread of its own as in a process of its own."""
    args = parse(words)
    verb = next(verb for verb in VERBS if verb.name == args.verb)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    err = io.StringIO()
    console = Console(out=out, err=err, colour=colour, width=width, format=Format(args.output))
    nowhere = {"GANGLINE_CONFIG": os.devnull, "GANGLINE_DATA": os.devnull}
    surroundings = {"GANGLINE_URL": url, "GANGLINE_TOKEN": TOKEN, **nowhere, **(environ or {})}
    code = await asyncio.to_thread(run_verb, verb, args, surroundings, console=console, doors=DOORS)
    out.flush()
    return Result(code, out.buffer.getvalue().decode(errors="backslashreplace"), err.getvalue())  # type: ignore[attr-defined]  # a BytesIO
