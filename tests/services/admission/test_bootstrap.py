"""A platform can always be used by whoever owns its files."""

import errno
import hashlib
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.make import state_with

from gangline_admission.bootstrap import first_facts
from gangline_admission.config import Config
from gangline_core.facts import TokenIssued
from gangline_core.groups import Token
from gangline_core.state import State
from gangline_kit.ids import CountedIds, Ids


def issued(state: State, config: Config, ids: Ids) -> list[Token]:
    """The administrators' tokens that a start makes."""
    return [fact.token for fact in first_facts(state, config, ids) if isinstance(fact, TokenIssued)]


def test_the_first_start_makes_a_token_and_the_next_one_keeps_it(tmp_path: Path) -> None:
    state, config, ids = state_with(), Config(admin_token_file=str(tmp_path / "data" / "token")), CountedIds()
    (token,) = issued(state, config, ids)
    file = tmp_path / "data" / "token"
    assert hashlib.sha256(file.read_text().strip().encode()).hexdigest() == token.digest
    assert file.stat().st_mode & 0o777 == 0o600
    state.kept.tokens[token.digest] = token
    assert not issued(state, config, ids)


def test_an_owner_whose_token_was_revoked_gets_another_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    state, config, ids = state_with(), Config(admin_token_file=str(file)), CountedIds()
    (token,) = issued(state, config, ids)
    state.kept.tokens[token.digest] = replace(token, revoked=True)
    (other,) = issued(state, config, ids)
    assert other.digest not in state.kept.tokens
    assert hashlib.sha256(file.read_text().strip().encode()).hexdigest() == other.digest
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("left", [b"", b"  \n", b"\xff", b"\x00" * 65, b"x" * 513])
def test_a_file_that_nobody_can_enter_with_is_replaced(tmp_path: Path, left: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(left)
    (token,) = issued(state_with(), Config(admin_token_file=str(file)), CountedIds())
    assert token.digest == hashlib.sha256(file.read_text().strip().encode()).hexdigest()
    assert token.digest != hashlib.sha256(left.strip()).hexdigest()
    assert [one.name for one in tmp_path.iterdir()] == ["token"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_token_that_somebody_chose_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("chosen-by-hand\n")
    (token,) = issued(state_with(), Config(admin_token_file=str(file)), CountedIds())
    assert token.digest == hashlib.sha256(b"chosen-by-hand").hexdigest()
    assert file.read_text() == "chosen-by-hand\n"


def test_a_full_disk_leaves_no_half_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        first_facts(state_with(), Config(admin_token_file=str(tmp_path / "token")), CountedIds())
    assert list(tmp_path.iterdir()) == []
