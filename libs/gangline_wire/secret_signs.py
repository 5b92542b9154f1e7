"""Which texts look like secrets: names of variables and options, and shapes of values."""

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
    | \b(?:hf_|gh[opsu]_|github_pat_|glpat-|xox[abposr]-|sk-|npg_|dckr_pat_|pypi-)[A-Za-z0-9_\-]{10,}
    | \bAKIA[0-9A-Z]{16}\b
    | \beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*
    """,
    re.VERBOSE,
)
"""Values known by their shape: private keys, tokens of well-known services, signed web tokens."""
AFTER_SCHEME = re.compile(r"""\b(?:bearer|basic|token|apikey)\s+([^\s'"]+)""", re.IGNORECASE)
"""What follows the name of an authentication scheme, as in "Authorization: Bearer abc"."""
IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
"""The password of an address such as postgres://user:password@host."""
ASSIGNED = re.compile(r"""([A-Za-z][A-Za-z0-9_.\-]*)\s*[=:]\s*(?=("[^"]*"|'[^']*'|[^\s'"&;|]+))""")
"""Something named and given in one text, as in "API_TOKEN=abc", "--api-key=abc" or "X-Api-Key: abc". The value is only
looked ahead at, so that a name inside it is found as well: "--env=API_TOKEN=abc"."""
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
    for match in ASSIGNED.finditer(text):
        if is_secret_name(match.group(1)) and match.group(2).lower() not in _SCHEMES:
            spans.append(match.span(2))
    return _merged(spans)


def may_hold_secrets(text: str) -> bool:
    """False when `find_secrets` finds nothing and no name in the text is secret: a quick look before the slow one."""
    lowered = text.lower()
    return any(map(lowered.__contains__, _SIGNS))


def named_option(text: str) -> bool:
    """True for an option whose value is secret and comes in the next argument: "--api-key"."""
    return text.startswith("-") and OPTION.fullmatch(text) is not None and is_secret_name(text.lstrip("-"))


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
