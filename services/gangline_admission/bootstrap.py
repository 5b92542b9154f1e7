"""What a new cluster needs before anybody can use it: an administrator's token and a first group."""

import hashlib
from pathlib import Path

from gangline_admission.config import Config
from gangline_core.facts import Fact, GroupSet, TokenIssued, UserSet
from gangline_core.groups import ROOT, Group, Token, User, user_key
from gangline_core.state import State
from gangline_kit.errors import PermanentError
from gangline_kit.ids import Ids
from gangline_kit.secret_file import read_secret, write_secret

TOKEN_BYTES = 32
SYSTEM = "system"
"""Who is written as the author of the first facts."""


def first_facts(state: State, config: Config, ids: Ids) -> tuple[Fact, ...]:
    """Facts that are missing; empty on every start but the first."""
    facts: list[Fact] = []
    if config.admin_token_file:
        digest = _digest_of_file(state, Path(config.admin_token_file), ids)
        if digest not in state.kept.tokens:
            admin = Token(digest=digest, name="first administrator", role="admin", user=config.first_user or "admin")
            facts.append(TokenIssued(token=admin, by=SYSTEM))
    if config.first_group and not any(path != ROOT for path in state.kept.groups):
        facts.append(GroupSet(group=Group(path=config.first_group), by=SYSTEM, why="first start"))
    if config.first_user and user_key(config.first_group, config.first_user) not in state.kept.users:
        facts.append(UserSet(user=User(name=config.first_user, group=config.first_group), by=SYSTEM, why="first start"))
    return tuple(facts)


def _digest_of_file(state: State, path: Path, ids: Ids) -> str:
    """The digest of the token in the file, which is made when it is not there.

    A revoked one is replaced: whoever may write the file owns the platform, and must not be locked out of it for ever.
    So is what nobody can enter with, such as the empty file that a full disk leaves.

    Raises:
        PermanentError: nobody can enter with what is there, and it cannot be replaced.
    """
    try:
        text = read_secret(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _digest(_new_token(path, ids))
    known = state.kept.tokens.get(_digest(text))
    if not text or (known is not None and known.revoked):
        try:
            return _digest(_new_token(path, ids))
        except OSError as error:
            # A secret that is mounted read-only stays as it is.
            if not text:
                raise PermanentError(f"{path} holds no token, and cannot be written: {error.strerror}") from error
    return _digest(text)


def _new_token(path: Path, ids: Ids) -> str:
    token = ids.token(TOKEN_BYTES)
    write_secret(path, token, ids=ids)
    return token


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
