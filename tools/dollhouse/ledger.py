"""Which runs have ended already, so that whoever had to stop goes on where it was."""

from pathlib import Path
from typing import TextIO


class Ledger:
    """A file with one line per run that ended: "ok seed 7", "failed seed 8". Without a file nothing is remembered.

    What is noted counts for the build that noted it: after a change begin with another file.
    """

    def __init__(self, path: Path | None) -> None:
        """Read what is there. A run that failed is over as well; its line stays until the file goes."""
        self.failed: list[str] = []
        self._path = path
        self._ended: set[str] = set()
        self._file: TextIO | None = None
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                how, _, what = line.partition(" ")
                if what:
                    self._ended.add(what)
                if what and how == "failed":
                    self.failed.append(what)
        self.before = len(self._ended)
        """So many runs had ended when this one began."""

    def __enter__(self) -> "Ledger":
        """Open the file for more."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a")
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        if self._file is not None:
            self._file.close()

    def has(self, what: str) -> bool:
        """True when this run has ended before."""
        return what in self._ended

    def note(self, what: str, *, failed: bool) -> None:
        """It has ended now; written at once, since whoever plays may be killed."""
        if failed:
            self.failed.append(what)
        self._ended.add(what)
        if self._file is not None:
            self._file.write(f"{'failed' if failed else 'ok'} {what}\n")
            self._file.flush()
