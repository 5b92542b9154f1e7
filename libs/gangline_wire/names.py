"""Which texts are names: what is kept as data, what must be a safe token, and what is refused.

Names that people read (a job's name, a label) keep every visible letter of every script. They are brought to Unicode
normal form NFC, so two spellings of one name are one name; control characters, line breaks and invisible formatting
marks (such as right-to-left marks) are refused, except the joiners that emoji and some scripts need. Upper and lower
case stay different. Names that become parts of addresses, subjects or task ids (pool, level, role, group, user) are
tokens of ASCII letters, digits, "-", "_" and, where stated, ".".
"""

import re
import unicodedata
from functools import lru_cache

from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import shown

TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)
"""Pool, level, role, topology level."""
DOTTED = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*", re.ASCII)
"""User names and the segments of a group path."""
ENV_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
SHRINKS_MAX = 4
"""No text gets shorter than a fourth of its characters by normalisation."""
RESERVED_SEGMENT = "users"
"""No group may be called so: it stands between a group and its users in addresses."""

_JOINERS = "\u200c\u200d"
_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def visible(text: str, most: int) -> str:
    """The text in normal form NFC, at most `most` characters, nothing invisible in it.

    Raises:
        WrongValueError: too long, or with characters that cannot be seen.
    """
    if text.isascii():
        if not text.isprintable():
            raise WrongValueError(f'"{shown(text)}" contains a control character')
    else:
        # Looked at before it is normalised, which takes long for a long text of nothing but accents.
        if len(text) > most * SHRINKS_MAX:
            raise WrongValueError(f"has {len(text)} characters; at most {most} are allowed")
        text = unicodedata.normalize("NFC", text)
        _check_visible(text)
    if len(text) > most:
        raise WrongValueError(f"has {len(text)} characters; at most {most} are allowed")
    if text != text.strip():
        raise WrongValueError("must not begin or end with a space")
    return text


def token(text: str, most: int) -> str:
    """The text, when it is a safe token.

    Raises:
        WrongValueError: it is not.
    """
    if len(text) <= most and TOKEN.fullmatch(text):
        return text
    raise WrongValueError(
        f'"{shown(text)}" must be 1 to {most} ASCII letters, digits, "-" or "_", beginning with a letter or digit'
    )


def user_name(text: str, most: int) -> str:
    """The text, when it can be a user's name.

    Raises:
        WrongValueError: it cannot.
    """
    if len(text) <= most and DOTTED.fullmatch(text):
        return text
    raise WrongValueError(
        f'"{shown(text)}" must be 1 to {most} ASCII letters, digits or "._@+-", beginning with a letter, digit or "_"'
    )


@lru_cache(maxsize=1024)  # every job of a group says the same path
def group_path(text: str, most: int) -> str:
    """The text, when it is a path of the group tree, such as "research/vision".

    Raises:
        WrongValueError: it is not.
    """
    if len(text) > most:
        raise WrongValueError(f"has {len(text)} characters; at most {most} are allowed")
    for segment in text.split("/"):
        if not DOTTED.fullmatch(segment) or segment == RESERVED_SEGMENT:
            raise WrongValueError(
                f'"{shown(text)}" must be a path such as "research/vision": ASCII letters, digits or "._@+-", '
                f'parts joined by "/", no part named "{RESERVED_SEGMENT}"'
            )
    return text


def env_key(text: str, most: int) -> str:
    """The text, when it can name an environment variable.

    Raises:
        WrongValueError: it cannot.
    """
    if len(text) <= most and ENV_KEY.fullmatch(text):
        return text
    raise WrongValueError(
        f'"{shown(bare_name(text))}" must be letters, digits and "_", not beginning with a digit, at most {most}'
    )


def bare_name(text: str) -> str:
    """A name as it may be repeated: what somebody wrote behind "=" was meant as a value, perhaps a secret one."""
    name, equals, _ = text.partition("=")
    return f"{name}=..." if equals else name


def _check_visible(text: str) -> None:
    for character in text:
        if character not in _JOINERS and unicodedata.category(character) in _REFUSED_CATEGORIES:
            raise WrongValueError(f'"{shown(text)}" contains the invisible character U+{ord(character):04X}')
