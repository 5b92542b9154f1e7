"""Reading a table of comma-separated values strictly: every complaint names the file, the line and the column."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from gangline_lab.outside import said, tame

LINE_CHARS_MAX = 10_000
"""Longest line that is still taken for a row."""
LINE_BYTES_MAX = 4 * LINE_CHARS_MAX
"""More bytes are more characters than that; no more of a line is ever read."""
ROWS_MAX = 5_000_000
"""Most rows of one table."""
FILE_BYTES_MAX = 2_000_000_000
"""Most bytes of a file that is read whole, unpacked."""
DIGITS_MAX = 30
"""Longest whole number that is read at all."""
FOUND_CHARS = 60
"""Characters of a wrong cell that are shown."""
TIME_MAX_S = 100 * 366 * 86_400
"""A century; longer is no time of a job."""


class TraceError(Exception):
    """A trace that cannot be read; the message says where and what was expected."""

    def __init__(self, problem: str, *, file: str, line: int = 0, column: str = "") -> None:
        """`line` counts from 1, the header included; 0 when the whole file is meant."""
        where = (f"{file}, line {line}" if line else file) + (f", column {column}" if column else "")
        super().__init__(tame(f"{where}: {problem}"))
        self.file, self.line, self.column = file, line, column


class Row:
    """One row; reading a cell checks it."""

    def __init__(self, cells: dict[str, str], *, file: str, line: int) -> None:
        """Cells by column name."""
        self._cells = cells
        self._file, self.line = file, line

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
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS_MAX):
            wanted = "a whole number that is not negative" if value.startswith("-") else "a whole number"
            raise self.error(column, f"expected {wanted}, found {shown(value)}")
        number = int(digits)
        if not least <= number <= most:
            raise self.error(column, f"expected a number from {least} to {most}, found {number}")
        return number

    def time_ms(self, column: str, *, unit_ms: int = 1000, least: int = 0) -> int:
        """A time in ms, of at most a century; its cell is a whole number of units."""
        return unit_ms * self.whole(column, least=least, most=1000 * TIME_MAX_S // unit_ms)

    def number(self, column: str, *, least: float = 0.0, most: float = 1e18) -> float:
        """A finite decimal number."""
        value = self._cells[column].strip()
        try:
            number = float(value)
        except ValueError:
            raise self.error(column, f"expected a number, found {shown(value)}") from None
        if not least <= number <= most:
            raise self.error(column, f"expected a number from {least:g} to {most:g}, found {shown(value)}")
        return number

    def optional(self, column: str) -> str:
        """A cell that may be empty, or missing where the column is not always there."""
        return self._cells.get(column, "").strip()

    def has(self, column: str) -> bool:
        """True when the cell is there and not empty."""
        return bool(self.optional(column))

    def error(self, column: str, problem: str) -> TraceError:
        """A complaint about one cell."""
        return TraceError(problem, file=self._file, line=self.line, column=column)


def shown(value: str) -> str:
    """A wrong cell as a complaint shows it: quoted, and no more of it than is needed to find it."""
    return repr(value) if len(value) <= FOUND_CHARS else f"{value[:FOUND_CHARS]!r} and {len(value) - FOUND_CHARS} more"


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file, line ends removed; `.gz` is unpacked.

    A mark of byte order, as spreadsheets write it, is no part of the text.
    """
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, raw in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX + 1), b""), start=1):
                if len(raw) > LINE_BYTES_MAX:
                    raise _too_long(path.name, number)
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    problem = f"cannot be read: byte {error.start + 1} of the line is no UTF-8"
                    raise TraceError(problem, file=path.name, line=number) from error
                _check_size(text, path.name, number)
                yield number, text
    except (OSError, EOFError, zlib.error) as error:
        line = number + 1 if number else 0
        raise TraceError(f"cannot be read: {said(error)}", file=path.name or str(path), line=line) from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not empty.

    Raises:
        TraceError: the file cannot be read, or a line or the whole is too long.
    """
    return ((number, text) for number, text in _numbered(path) if text)


def read_table(
    path: Path, needed: tuple[str, ...], *, optional: tuple[str, ...] = (), separator: str = ","
) -> Iterator[Row]:
    """The rows of a table whose header has at least the needed columns, in any order; others are ignored.

    Raises:
        TraceError: the file is no such table, or a row has another number of cells.
    """
    header: list[str] = []
    for number, text in read_lines(path):
        cells = _cells(text, path.name, number, separator=separator)
        if not header:
            header = [cell.strip() for cell in cells]
            missing = [column for column in needed if column not in header]
            if missing:
                problem = f"the columns {', '.join(missing)} are missing; found {text[:200]}"
                raise TraceError(problem, file=path.name, line=number)
            twice = [column for column in (*needed, *optional) if header.count(column) > 1]
            if twice:
                raise TraceError("stands twice", file=path.name, line=number, column=twice[0])
            continue
        check_cells(cells, header, path.name, number)
        named = dict(zip(header, cells, strict=True))
        yield Row({key: named[key] for key in (*needed, *optional) if key in named}, file=path.name, line=number)
    if not header:
        raise TraceError("is empty", file=path.name, line=1)


def unpacked(path: Path) -> bytes:
    """All bytes of a file; `.gz` is unpacked.

    Raises:
        TraceError: it holds more than FILE_BYTES_MAX, of which no more is read.
    """
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise TraceError(f"more than {FILE_BYTES_MAX} bytes", file=path.name)
    return data


def read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """The rows of a table whose header must be exactly these columns; `.gz` is unpacked.

    Raises:
        TraceError: the file is no such table, or a row has another number of cells.
    """
    header: list[str] = []
    for number, text in read_lines(path):
        cells = _cells(text, path.name, number)
        if not header:
            header = cells
            if tuple(header) != columns:
                problem = f"expected the columns {','.join(columns)}, found {text[:200]}"
                raise TraceError(problem, file=path.name, line=number)
            continue
        check_cells(cells, columns, path.name, number)
        yield Row(dict(zip(columns, cells, strict=True)), file=path.name, line=number)


def _cells(text: str, file: str, number: int, *, separator: str = ",") -> list[str]:
    """The cells of one line.

    Raises:
        TraceError: a carriage return stands inside it, as where lines end with nothing else.
    """
    try:
        return next(csv.reader([text], delimiter=separator))
    except csv.Error as error:
        problem = "no row of a table: a carriage return inside it; lines end with a line feed"
        raise TraceError(problem, file=file, line=number) from error


def check_cells(cells: Sequence[str], columns: Sequence[str], file: str, number: int) -> None:
    """Refuse a row with another number of cells; it is told where it ends, or goes on.

    Raises:
        TraceError: with line and column.
    """
    if len(cells) != len(columns):
        column = columns[len(cells)] if len(cells) < len(columns) else columns[-1]
        problem = f"expected {len(columns)} cells, found {len(cells)}"
        raise TraceError(problem, file=file, line=number, column=column)


def _check_size(text: str, file: str, number: int) -> None:
    if len(text) > LINE_CHARS_MAX:
        raise _too_long(file, number)
    if number > ROWS_MAX:
        raise TraceError(f"more than {ROWS_MAX} rows", file=file, line=number)


def _too_long(file: str, number: int) -> TraceError:
    return TraceError(f"a line of more than {LINE_CHARS_MAX} characters", file=file, line=number)
