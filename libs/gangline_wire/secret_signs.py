"""Which texts look like secrets: names of variables and options, and shapes of values.

Texts come from strangers, so every pattern takes time in proportion to the text: it begins at the beginning of a word
only, or its length is bounded.
"""

import re
from functools import lru_cache

WORDS = frozenset(
    {
        "token",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "key",
        "apikey",
        "credential",
        "credentials",
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "pat",
        "dsn",
    }
)
"""A name with one of these as a whole word (split at "_", "-", "." and between lower and upper case) is secret."""
ENDINGS = ("token", "secret", "password", "passwd", "apikey", "credential", "credentials", "accesskey", "privatekey")
"""A word that ends so is secret too: "hftoken", "dbpassword"."""

SHAPES = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[\s\S]*
    | (?<![A-Za-z0-9_\-])
      (?:
        (?:hf_|gh[opsu]_|github_pat_|glpat-|xox[abposr]-|sk-|npg_|dckr_pat_|pypi-)[A-Za-z0-9_\-]{10,}
        | AKIA[0-9A-Z]{16}(?![A-Za-z0-9])
        | eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*
      )
    """,
    re.VERBOSE,
)
"""Values known by their shape: private keys, tokens of well-known services, signed web tokens."""
AFTER_SCHEME = re.compile(r"""\b(?:bearer|basic|token|apikey)\s+([^\s'"]+)""", re.IGNORECASE)
"""What follows the name of an authentication scheme, as in "Authorization: Bearer abc"."""
IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
"""The password of an address such as postgres://user:password@host."""
NAME_CHARS_MAX = 128
"""No name of a variable or option is longer."""
NAMED = re.compile(r"(?<![A-Za-z0-9_.\-])([A-Za-z_][A-Za-z0-9_.\-]{0,127})[ \t]{0,8}[=:][ \t]{0,8}", re.ASCII)
AFTER_OPTION = re.compile(r"(?<![A-Za-z0-9_.\-])--?([A-Za-z][A-Za-z0-9_.\-]{0,127})[ \t]{0,8}[= ][ \t]{0,8}", re.ASCII)
"""The name before a value given in one text, as in "API_TOKEN=abc", "X-Api-Key: abc", "--api-key abc"."""
VALUE = re.compile(r"""\"[^\"]*\"|'[^']*'|[^\s'\"&;|]+""")
"""The value after such a name."""
OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_.\-]*)")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@lru_cache(maxsize=1024)  # names repeat from job to job; values are never kept here
def is_secret_name(name: str) -> bool:
    """True when a variable or option of this name is likely to hold a secret: "API_TOKEN", "dbPassword"."""
    lowered = name.lower()
    if not any(ending in lowered for ending in _HINTS):
        return False
    return any(word in WORDS or word.endswith(ENDINGS) for word in map(str.lower, _WORD.findall(name)))


def find_secrets(text: str) -> list[tuple[int, int]]:
    """Where in a text secrets stand, as (start, end), not overlapping, in order."""
    if not may_hold_secrets(text):
        return []
    spans = [match.span() for match in SHAPES.finditer(text)]
    spans += [match.span(1) for pattern in (AFTER_SCHEME, IN_URL) for match in pattern.finditer(text)]
    for pattern in (NAMED, AFTER_OPTION):
        spans += _named_values(text, pattern)
    return _merged(spans)


def _named_values(text: str, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """Values whose name looks secret; the inside of a value that was found is not looked at again."""
    spans: list[tuple[int, int]] = []
    done = 0
    for match in pattern.finditer(text):
        if match.start() < done or not is_secret_name(match.group(1)):
            continue
        value = VALUE.match(text, match.end())
        if value is not None and value.group().lower() not in _SCHEMES:
            spans.append(value.span())
            done = value.end()
    return spans


def may_hold_secrets(text: str) -> bool:
    """False when `find_secrets` finds nothing and no name in the text is secret: a quick look before the slow one."""
    lowered = text.lower()
    return any(map(lowered.__contains__, _SIGNS))


def named_option(text: str) -> bool:
    """True for an option whose value is secret and comes in the next argument: "--api-key"."""
    if not text.startswith("-") or len(text) > NAME_CHARS_MAX:
        return False
    return OPTION.fullmatch(text) is not None and is_secret_name(text.lstrip("-"))


_SCHEMES = frozenset({"bearer", "basic", "token", "apikey", "true", "false", "none", "null"})
"""Words after a secret name that are no secret themselves."""
_HINTS = tuple(sorted(WORDS))
"""Quick test: a name without any of these cannot be secret."""
_SIGNS = (
    *_HINTS, "passw", "basic", "@", "hf_", "ghp_", "gho_", "ghs_", "ghr_", "ghu_", "github_pat", "glpat", "xox", "sk-",
    "npg_", "dckr_", "pypi-", "akia", "eyj", "begin",
)  # fmt: skip
"""Quick test: a text without any of these, in small letters, holds no secret that could be found here."""


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged
