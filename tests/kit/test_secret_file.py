"""A secret in a file is there as a whole or not at all, and none that is empty is ever used."""

import os
from pathlib import Path

import pytest

from gangline_kit.ids import CountedIds
from gangline_kit.secret_file import kept_secret, read_secret


def test_a_secret_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "bus.secret"
    made = kept_secret(path, CountedIds(), size_bytes=24)
    assert (kept_secret(path, CountedIds(), size_bytes=24), path.stat().st_mode & 0o777) == (made, 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["bus.secret"]


@pytest.mark.parametrize("left", [b"", b"\n", b"\x00" * 49, b"\xff\xfe", b"x" * 513])
def test_what_is_left_of_one_is_none_and_is_made_anew(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "bus.secret"
    path.write_bytes(left)
    assert read_secret(path) == ""
    made = kept_secret(path, CountedIds(), size_bytes=24)
    assert made
    assert read_secret(path) == made


def test_one_that_somebody_chose_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "bus.secret"
    path.write_text("chosen by hand: é\n", encoding="utf-8")
    assert kept_secret(path, CountedIds(), size_bytes=24) == "chosen by hand: é"


def test_one_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bus.secret"
    path.write_bytes(b"")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        kept_secret(path, CountedIds(), size_bytes=24)
    assert [one.name for one in tmp_path.iterdir()] == ["bus.secret"]
