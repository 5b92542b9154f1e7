"""What every command gets: the platform, the console, the time, and the word that the user pressed Ctrl-C."""

import asyncio
import signal
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from gangline_client.client import Client
from gangline_client.console import Console, Format
from gangline_client.doors import Sleep
from gangline_client.settings import Settings

WATCH_S_LEAST = 0.2


class Interrupts:
    """Ctrl-C as something a command can wait for, once it asked for it."""

    def __init__(self) -> None:
        """Not pressed."""
        self._pressed = asyncio.Event()

    def arm(self) -> None:
        """From now on Ctrl-C is told here instead of ending the program."""
        with suppress(NotImplementedError, RuntimeError, ValueError):  # outside the main thread it is not ours
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.press)

    def press(self) -> None:
        """The user pressed Ctrl-C."""
        self._pressed.set()

    async def pressed(self) -> None:
        """Wait for the next Ctrl-C."""
        await self._pressed.wait()
        self._pressed.clear()


@dataclass(frozen=True)
class Session:
    """One command's surroundings."""

    client: Client
    console: Console
    settings: Settings
    environ: Mapping[str, str]
    now_ms: Callable[[], int]
    sleep: Sleep
    folder: str
    """The folder the command was called in."""
    interrupts: Interrupts = field(default_factory=Interrupts)


def emit(
    console: Console, view: msgspec.Struct, *, names: list[str], people: Callable[[], None], left_out: int = 0
) -> None:
    """The answer in the form that was asked for; so many entries of it did not fit and are missing."""
    match console.format:
        case Format.TABLE | Format.WIDE:
            people()
        case Format.NAME:
            for name in names:
                console.say(name)
        case Format.JSON:
            console.say(msgspec.json.format(msgspec.json.encode(view), indent=2).decode())
        case Format.YAML:
            import yaml

            console.say(yaml.safe_dump(msgspec.to_builtins(view), sort_keys=False, allow_unicode=True).rstrip())
    if left_out:
        console.note(f"{left_out:,} more did not fit the platform's answer.")


def note_doubts(session: Session, doubts: Sequence[str]) -> None:
    """What the platform allows and says something about all the same; those who read a table see it below."""
    for doubt in doubts if session.console.is_for_people else ():
        session.console.note(f"Note: {doubt}.")


async def repeat(session: Session, *, every_s: float | None, draw: Callable[[], Awaitable[None]]) -> None:
    """Draw once, or again and again on a fresh screen until Ctrl-C."""
    while True:
        if every_s is not None:
            session.console.redraw()
        await draw()
        if every_s is None:
            return
        await session.sleep(every_s)


def watch_interval(args: Namespace) -> float | None:
    """How often to draw again, or None for once."""
    return max(WATCH_S_LEAST, float(args.interval)) if args.watch else None
