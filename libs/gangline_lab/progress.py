"""A progress bar for a terminal; silence where nobody watches."""

from typing import TextIO

WIDTH = 30


class Bar:
    """One line that fills; redrawn when its percentage changes."""

    def __init__(self, stream: TextIO, label: str) -> None:
        """Draws on the stream only if it is a terminal."""
        self._stream = stream
        self._label = label
        self._shown = stream.isatty()
        self._percent = -1

    def __call__(self, done: int, total: int) -> None:
        """So much of so much is done."""
        percent = 100 * done // total if total else 100
        if not self._shown or percent == self._percent:
            return
        self._percent = percent
        self._stream.write(f"\r{self._label} [{filled(percent / 100, WIDTH)}] {percent:3d}%")
        self._stream.flush()

    def close(self) -> None:
        """Take the line away again."""
        if self._percent >= 0:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def filled(share: float, width: int) -> str:
    """A bar of this width of which this share is full."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "#" * full + "." * (width - full)
