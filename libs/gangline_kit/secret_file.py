"""A secret of one line in a file of its own: there as a whole, or not at all."""

import os
from pathlib import Path

from gangline_kit.ids import Ids

MODE = 0o600
CHARS_MAX = 512
NO_TEXT = "\N{REPLACEMENT CHARACTER}"


def read_secret(path: Path) -> str:
    """The secret in the file; empty when what is there is none.

    Raises:
        OSError: the file cannot be read, or is not there.
    """
    text = path.read_bytes().decode(errors="replace").strip()
    # A full disk leaves an empty file, and a loss of power one of zeros.
    is_one = len(text) <= CHARS_MAX and text.isprintable() and NO_TEXT not in text
    return text if is_one else ""


def write_secret(path: Path, secret: str, *, ids: Ids) -> None:
    """Put it into the file, for its owner only; what was there stays until all of it is on the disk.

    Raises:
        OSError: it cannot be written; nothing has changed.
    """
    beside = path.with_name(f"{path.name}.{ids.token(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def kept_secret(path: Path, ids: Ids, *, size_bytes: int) -> str:
    """The secret in the file, made at its first use, and made anew where nothing of use is left of it.

    Raises:
        OSError: it can be neither read nor written.
    """
    known = read_secret(path) if path.exists() else ""
    if not known:
        known = ids.token(size_bytes)
        write_secret(path, known, ids=ids)
    return known
