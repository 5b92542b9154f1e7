"""A progress bar for a terminal, with the time that is left; elsewhere a line each minute, for who reads a log."""

import time
from collections.abc import Callable
from typing import TextIO

WIDTH = 30
SURE_S, SURE_PERCENT = 5.0, 2
"""After so much of both it is said how long the rest takes."""
LINE_S = 60.0
"""Between two lines where there is no terminal; what takes less says nothing."""


def _seconds() -> float:
    return time.monotonic()  # noqa: TID251  how long a person still waits is no part of any result


class Bar:
    """One line that fills; redrawn when its percentage changes."""

    def __init__(self, stream: TextIO, label: str, seconds: Callable[[], float] = _seconds) -> None:
        """Draws on the stream if it is a terminal, and writes lines otherwise."""
        self._stream = stream
        self._label = label
        self._shown = stream.isatty()
        self._percent = -1
        self._seconds = seconds
        self._began_s = self._told_s = seconds()

    def __call__(self, done: int, total: int) -> None:
        """So much of so much is done."""
        percent = 100 * done // total if total else 100
        if percent == self._percent:
            return
        self._percent = percent
        if not self._shown:
            self._tell()
            return
        self._stream.write(f"\r{self._label} [{filled(percent / 100, WIDTH)}] {percent:3d}%{self._left()}\x1b[K")
        self._stream.flush()

    def _tell(self) -> None:
        now_s = self._seconds()
        if now_s - self._told_s < LINE_S or self._percent >= 100:
            return
        self._told_s = now_s
        self._stream.write(f"{self._label}: {self._percent} %{self._left()}\n")
        self._stream.flush()

    def _left(self) -> str:
        """How long the rest takes if it goes on like this."""
        passed_s = self._seconds() - self._began_s
        if passed_s < SURE_S or self._percent < SURE_PERCENT or self._percent >= 100:
            return ""
        left_s = passed_s * (100 - self._percent) / self._percent
        return f", about {left_s:.0f} s left" if left_s < 100 else f", about {left_s / 60:.0f} min left"

    def close(self) -> None:
        """Take the line away again."""
        if self._shown and self._percent >= 0:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def filled(share: float, width: int) -> str:
    """A bar of this width of which this share is full."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "#" * full + "." * (width - full)
