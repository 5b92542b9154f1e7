"""Reading a table of comma-separated values strictly: every complaint names the file, the line and the column."""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

LINE_CHARS_MAX = 10_000
"""Longest line that is still taken for a row."""
ROWS_MAX = 5_000_000
"""Most rows of one table."""


class TraceError(Exception):
    """A trace that cannot be read; the message says where and what was expected."""

    def __init__(self, problem: str, *, file: str, line: int, column: str = "") -> None:
        """`line` counts from 1, the header included."""
        where = f"{file}, line {line}" + (f", column {column}" if column else "")
        super().__init__(f"{where}: {problem}")
        self.file, self.line, self.column = file, line, column


class Row:
    """One row; reading a cell checks it."""

    def __init__(self, cells: dict[str, str], *, file: str, line: int) -> None:
        """Cells by column name."""
        self._cells = cells
        self._file, self._line = file, line

    def text(self, column: str) -> str:
        """A cell that must not be empty."""
        value = self._cells[column].strip()
        if not value:
            raise self.error(column, "must not be empty")
        return value

    def whole(self, column: str, *, least: int = 0, most: int = 2**53) -> int:
        """A whole number; "66.0" is one, "66.5" is not."""
        value = self._cells[column].strip()
        digits = value.removesuffix(".0")
        if not (digits.isascii() and digits.isdecimal()):
            raise self.error(column, f"expected a whole number, found {value!r}")
        number = int(digits)
        if not least <= number <= most:
            raise self.error(column, f"expected a number from {least} to {most}, found {number}")
        return number

    def error(self, column: str, problem: str) -> TraceError:
        """A complaint about one cell."""
        return TraceError(problem, file=self._file, line=self._line, column=column)


def read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """The rows of a table whose header must be exactly these columns; `.gz` is unpacked.

    Raises:
        TraceError: the file is no such table, or a row has another number of cells.
    """
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            yield from _rows(file, columns, path.name)
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise TraceError(f"cannot be read: {error}", file=path.name, line=0) from error


def _rows(lines: Iterator[str], columns: tuple[str, ...], file: str) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        if len(text) > LINE_CHARS_MAX:
            raise TraceError(f"a line of more than {LINE_CHARS_MAX} characters", file=file, line=number)
        if number > ROWS_MAX:
            raise TraceError(f"more than {ROWS_MAX} rows", file=file, line=number)
        if not text:
            continue
        cells = next(csv.reader([text]))
        if number == 1:
            if tuple(cells) != columns:
                raise TraceError(f"expected the columns {','.join(columns)}, found {text[:200]}", file=file, line=1)
            continue
        if len(cells) != len(columns):
            raise TraceError(f"expected {len(columns)} cells, found {len(cells)}", file=file, line=number)
        yield Row(dict(zip(columns, cells, strict=True)), file=file, line=number)
