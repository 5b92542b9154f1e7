"""Where a command's answer goes: a table for people on a terminal, or a stable form for programs."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, TextIO

from gangline_client.table import Column, Paint, Row, cut, painted, render, tame

CLEAR_SCREEN = "\x1b[H\x1b[J"
CLEAR_LINE = "\r\x1b[K"
LABEL_WIDTH = 16
COLUMNS_UNKNOWN = 80
"""Width of a terminal that does not say how wide it is."""


class Format(StrEnum):
    """The forms an answer can take."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass
class Console:
    """The streams of one command, and what they can show."""

    out: TextIO
    err: TextIO
    colour: bool = False
    width: int = 0
    """Columns of the terminal; 0 when the output is none and lines are never cut."""
    err_is_terminal: bool = False
    format: Format = Format.TABLE
    _status: str = ""

    @property
    def is_terminal(self) -> bool:
        """True when a person is likely to read the output."""
        return self.width > 0

    @property
    def is_for_people(self) -> bool:
        """True when the answer is shown as text or table."""
        return self.format in {Format.TABLE, Format.WIDE}

    def say(self, text: str = "") -> None:
        """A line of the answer."""
        self.out.write(text + "\n")
        self.out.flush()

    def fact(self, label: str, text: str) -> None:
        """A labelled line of a detail; nothing for what is not known."""
        if text:
            self.say(f"  {self.paint(label.ljust(LABEL_WIDTH), Paint.FAINT)}{text}")

    def table(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """A table of the answer."""
        width = 0 if self.format is Format.WIDE else self.width
        self.say(render(columns, rows, colour=self.colour, width=width))

    def write_bytes(self, chunk: bytes) -> None:
        """Output of a job, exactly as it wrote it."""
        binary: IO[bytes] | None = getattr(self.out, "buffer", None)
        self.clear_status()
        if binary is None:
            self.out.write(chunk.decode("utf-8", errors="replace"))
            return
        self.out.flush()
        binary.write(chunk)
        binary.flush()

    def note(self, text: str) -> None:
        """A remark that is not part of the answer."""
        self.clear_status()
        self.err.write(text + "\n")
        self.err.flush()

    def status(self, text: str) -> None:
        """What is going on right now: one line that replaces itself on a terminal, a new line elsewhere."""
        text = tame(text)
        if not self.err_is_terminal:
            if text != self._status:
                self.err.write(text + "\n")
                self.err.flush()
            self._status = text
            return
        room = (self.width or COLUMNS_UNKNOWN) - 1
        self.err.write(CLEAR_LINE + cut(text, room))
        self.err.flush()
        self._status = text

    def clear_status(self) -> None:
        """Take the self-replacing line away before something else is written."""
        if self.err_is_terminal and self._status:
            self.err.write(CLEAR_LINE)
            self.err.flush()
            self._status = ""

    def redraw(self) -> None:
        """Begin a fresh screen on a terminal."""
        if self.is_terminal:
            self.out.write(CLEAR_SCREEN)

    def paint(self, text: str, paint: Paint) -> str:
        """The text in its colour where colour is wanted."""
        return painted(text, paint, colour=self.colour)


def console_of_process(environ: Mapping[str, str], *, form: Format) -> Console:
    """The console of this process: colour and width only for terminals, never against NO_COLOR."""
    on_terminal = sys.stdout.isatty() and environ.get("TERM") != "dumb"
    colour = on_terminal and not environ.get("NO_COLOR")
    return Console(
        out=sys.stdout,
        err=sys.stderr,
        colour=colour,
        width=_columns(environ) if sys.stdout.isatty() else 0,
        err_is_terminal=sys.stderr.isatty() and environ.get("TERM") != "dumb",
        format=form,
    )


def _columns(environ: Mapping[str, str]) -> int:
    asked = environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or COLUMNS_UNKNOWN
    except OSError:
        return COLUMNS_UNKNOWN
