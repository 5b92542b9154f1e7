"""Which texts look like secrets: names of variables and options, and shapes of values.

Texts come from strangers, so every pattern takes time in proportion to the text: it begins at the beginning of a word
only, or its length is bounded.
"""

import re
from collections.abc import Sequence
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
        "jwt",
        "creds",
        "netrc",
        "sshpass",
        "webhook",
        "sig",
        "signature",
    }
)
"""A name with one of these as a whole word (split at "_", "-", "." and between lower and upper case) is secret."""
TAILS = (
    ("pass",),
    ("pw",),
    ("pin",),
    ("session",),
    ("session", "id"),
    ("connection", "string"),
    ("conn", "str"),
    ("kubeconfig", "data"),
)
"""A name that ends in these words is secret: "DB_PASS", "--pin"; in front of others they mean something else."""
ALONE = frozenset({"private", "signing", "tokens"})
"""These are secret only as a whole name: "--private-network" and "MAX_TOKENS" are not."""
ENDINGS = ("token", "secret", "password", "passwd", "apikey", "credential", "credentials", "accesskey", "privatekey")
"""A word that ends so is secret too: "hftoken", "dbpassword"."""

SHAPES = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[\s\S]*
    | (?<![A-Za-z0-9_\-])
      (?:
        (?:hf_|gh[oprsu]_|github_pat_|glpat-|xox[abposr]-|sk-|[rs]k_live_|npg_|npm_|dckr_pat_|pypi-|AIza|nvapi-|r8_)
        [A-Za-z0-9_\-]{10,}
        | A[KS]IA[0-9A-Z]{16}(?![A-Za-z0-9])
        | hooks\.slack\.com/[a-z]{1,16}/[A-Za-z0-9_/+\-]+
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
USER_IN_URL = re.compile(r"://([^/\s:@]{12,256})(?::[^/\s@]{0,256})?@")
"""Who calls, where that is as long as tokens are: https://TOKEN@github.com; names of people are shorter."""
AFTER_USER = re.compile(
    r"""(?<![A-Za-z0-9_.\-])(?:-u|--user|--proxy-user)(?:[ \t]{1,8}|=)["']?[^\s:"'/]{1,128}:([^\s"']+)""", re.ASCII
)
"""The password of `curl -u user:password`."""
AFTER_PROGRAM = re.compile(
    r"""(?<![A-Za-z0-9_.\-])(?:sshpass[ \t]{1,8}-p[ \t]{0,8}|wandb[ \t]{1,8}login[ \t]{1,8}
        |mysql(?:dump|admin|import)?[ \t][^\n;|&]{0,256}?(?<=[ \t])-p
        |login[ \t](?:[^\n;|&]{0,128}?[ \t])??-p[ \t=]{0,8}
        |redis-cli[ \t](?:[^\n;|&]{0,128}?[ \t])??-a[ \t]{1,8}
        |aws_(?:secret_access_key|session_token)[ \t]{1,8}
        )(?!-)["']?([^\s"'\-][^\s"']*)""",
    re.ASCII | re.VERBOSE,
)
"""Passwords that well-known programs take without any name; `login -p` is that of container registries and others."""
INTO_STDIN = re.compile(
    r"""(?<![A-Za-z0-9_.\-])(?:echo|printf)[ \t]{1,8}(?:(?:-[a-zA-Z]{1,4}|["']?%s(?:\\n)?["']?)[ \t]{1,8}){0,2}
        ["']?([^\s"'|]{1,4096})["']?[ \t]{0,8}\|[^\n|;&]{0,128}--password-stdin""",
    re.ASCII | re.VERBOSE,
)
"""The password of `echo password | docker login --password-stdin`."""
NAME_CHARS_MAX = 128
"""No name of a variable or option is longer."""
NAMED = re.compile(
    r"(?<![A-Za-z0-9_.\-])([A-Za-z_][A-Za-z0-9_.\-]{0,127})(?:\\?[\"'])?[ \t]{0,8}[=:][ \t]{0,8}", re.ASCII
)
AFTER_OPTION = re.compile(r"(?<![A-Za-z0-9_.\-])--?([A-Za-z][A-Za-z0-9_.\-]{0,127})[ \t]{0,8}[= ][ \t]{0,8}", re.ASCII)
"""The name before a value given in one text, as in "API_TOKEN=abc", "X-Api-Key: abc", "--api-key abc"; in JSON, too."""
VALUE = re.compile(r"""\\\"[^\"]*\"|\"[^\"]*\"|'[^']*'|[^\s'\"&;|]+""")
"""The value after such a name."""
OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_.\-]*)")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@lru_cache(maxsize=1024)  # names repeat from job to job; values are never kept here
def is_secret_name(name: str) -> bool:
    """True when a variable or option of this name is likely to hold a secret: "API_TOKEN", "dbPassword"."""
    lowered = name.lower()
    if not any(ending in lowered for ending in _HINTS):
        return False
    words = tuple(map(str.lower, _WORD.findall(name)))
    if any(word in WORDS or word.endswith(ENDINGS) for word in words):
        return True
    if words[-1:] == ("pwd",):
        return len(words) > 1  # PWD is where a shell stands
    return any(words[-len(tail) :] == tail for tail in TAILS) or (len(words) == 1 and words[0] in ALONE)


def find_secrets(text: str) -> list[tuple[int, int]]:
    """Where in a text secrets stand, as (start, end), not overlapping, in order."""
    if not may_hold_secrets(text):
        return []
    spans = [match.span() for match in SHAPES.finditer(text)]
    spans += [match.span(1) for pattern in _ONE_GROUP for match in pattern.finditer(text)]
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
    return any(map(lowered.__contains__, _SIGNS)) or (":" in lowered and ("-u" in lowered or "user" in lowered))


def named_option(text: str) -> bool:
    """True for an option whose value is secret and comes in the next argument: "--api-key"."""
    if not text.startswith("-") or len(text) > NAME_CHARS_MAX:
        return False
    return OPTION.fullmatch(text) is not None and is_secret_name(text.lstrip("-"))


def argument_secret(command: Sequence[str], index: int) -> int | None:
    """Where in this argument a secret begins that only its place tells; None when none does.

    "curl -u user:password", "sshpass -p password", "wandb login key", "mysql -ppassword", "docker login -p password",
    "redis-cli -a password", "aws configure set aws_secret_access_key key".
    """
    before = command[index - 1] if index else ""
    argument = command[index]
    if before in _USER_OPTIONS and 0 < argument.find(":") < len(argument) - 1:
        return argument.index(":") + 1
    is_login = "login" in command[: min(index, _LOGIN_AT_MOST)]
    if argument.startswith("-"):
        is_password = argument.startswith("-p") and len(argument) > 2 and argument[2] != "-"
        programs = ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "sshpass")
        return (
            2
            if is_password
            and (is_login or any(_is_program(one, programs) for one in command[:index][:_PROGRAM_AT_MOST]))
            else None
        )
    if argument and (before in _AWS_NAMES or (before == "-p" and is_login)):
        return 0
    if argument and before == "-a" and any(_is_program(one, ("redis-cli",)) for one in command[:_PROGRAM_AT_MOST]):
        return 0
    if not argument or before not in ("-p", "login"):
        return None
    own = ("sshpass",) if before == "-p" else ("wandb",)
    return 0 if any(_is_program(one, own) for one in command[max(0, index - 3) : index]) else None


def _is_program(argument: str, names: tuple[str, ...]) -> bool:
    return argument.rpartition("/")[2] in names


_USER_OPTIONS = frozenset({"-u", "--user", "--proxy-user"})
_PROGRAM_AT_MOST = 4
"""A program stands so far at the front of an argument list, behind "env" or "sudo"."""
_LOGIN_AT_MOST = 8
"""The word "login" stands so far at the front: "sudo podman --log-level debug login"."""
_AWS_NAMES = frozenset({"aws_secret_access_key", "aws_session_token"})
_SCHEMES = frozenset({"bearer", "basic", "token", "apikey", "true", "false", "none", "null"})
"""Words after a secret name that are no secret themselves."""
_ONE_GROUP = (AFTER_SCHEME, IN_URL, USER_IN_URL, AFTER_USER, AFTER_PROGRAM, INTO_STDIN)
"""Patterns whose group is the secret."""
_HINTS = tuple(sorted({*WORDS, *ALONE, "pwd", *(tail[0] for tail in TAILS)}))
"""Quick test: a name without any of these cannot be secret."""
_ALL_SIGNS = (
    *sorted(WORDS - {"sig"}), *sorted(ALONE), "sig=", "pwd", "pass", "session", "conn", "kubeconfig",
    *(word + after for word in ("pin", "pw") for after in ("\0", "=", ":", " ", '"')), "basic", "@", "login", "mysql",
    "redis-cli", "hf_",
    "ghp_", "gho_", "ghs_", "ghr_", "ghu_", "github_pat", "glpat", "xox", "sk-", "k_live_", "npg_", "npm_",
    "dckr_", "pypi-", "akia", "asia", "aiza", "nvapi", "r8_", "eyj", "begin", "hooks.",
)  # fmt: skip
_SIGNS = tuple(one for one in _ALL_SIGNS if not any(other in one for other in _ALL_SIGNS if other != one))
"""Quick test: a text without any of these, in small letters, holds no secret that could be found here."""


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged
