"""Commands that pages show are understood by the program they are for: its own parser reads every one of them."""

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.house.test_docs import PAGES, text

import gangline_gateway as gateway
from gangline_agent import main as agent
from gangline_client.parser import parse
from gangline_core.closed_hints import AWAY_HINT, SICK_HINT
from gangline_core.reasons import HINTS
from gangline_embedded import demo
from gangline_embedded import main as up
from gangline_lab import cli as lab

PARSERS: dict[str, Callable[[Sequence[str]], object]] = {
    "up": lambda words: up._parser().parse_args(words),
    "demo": lambda words: demo._parser().parse_args(words[1:]),
    "agent": lambda words: agent._parser().parse_args(words[1:]),
    "lab": lambda words: lab._parser().parse_args(words[1:]),
}
"""Verbs of other programs than the client's."""
CONSOLE = Path(gateway.__file__).parent / "console"
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(gangline [^`]+)`")
PARTS = re.compile(r"\s(?:\|\||&&|;|\||&)(?:\s|$)|\$\(")
"""What stands between two commands of one line."""
REDIRECTION = re.compile(r"\d?[<>]&?\d?")
BEFORE = re.compile(r"^(?:[A-Z_]+=\S* )+|^(?:\$|>) ")
"""Variables and a prompt."""


def in_blocks(page: str) -> Iterator[str]:
    """Whole commands, each on a line of its own."""
    for block in BLOCK.findall(text(page)):
        for line in block.replace("\\\n", " ").splitlines():
            for part in PARTS.split(BEFORE.sub("", line.strip())):
                if part.startswith("gangline ") and not part.startswith("gangline is "):
                    yield part


def in_sentences(page: str) -> Iterator[str]:
    """Commands and beginnings of commands, perhaps over the end of a line."""
    for found in INLINE.findall(BLOCK.sub("", text(page))):
        yield " ".join(found.split())


def trouble(command: str, folder: Path, *, whole: bool) -> str:
    """What the parser says of it; of a beginning, that something is missing is no trouble."""
    words = shlex.split(command, comments=True)[1:]
    end = next((place for place, word in enumerate(words) if REDIRECTION.fullmatch(word)), len(words))
    words = [_value(word.strip("[]"), folder) for word in words[:end] if word != "..."]
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            PARSERS.get(words[0] if words else "", parse)(words)
    except SystemExit as error:
        last = told.getvalue().strip().splitlines()[-1:] or [""]
        is_missing = re.search(r"arguments are required|expected (one|at least one) argument", last[0])
        return "" if not error.code or (is_missing and not whole) else last[0]
    return ""


def _value(word: str, folder: Path) -> str:
    """Something that may stand where the page has a word like JOB."""
    if word == "ARCHIVE":
        return str(folder)
    if word == "HASH":
        return "0" * 32
    return "1" if re.fullmatch(r"[A-Z]+", word) else word


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_shows_is_understood(page: str, tmp_path: Path) -> None:
    (tmp_path / "archive").touch()
    shown = [(command, True) for command in in_blocks(page)] + [(command, False) for command in in_sentences(page)]
    told = {command: trouble(command, tmp_path, whole=whole) for command, whole in shown}
    assert {command: words for command, words in told.items() if words} == {}


@pytest.mark.parametrize("file", sorted([*CONSOLE.glob("*.js"), *CONSOLE.glob("*.html")]), ids=lambda file: file.name)
def test_every_command_that_the_console_names_is_understood(file: Path, tmp_path: Path) -> None:
    """Somebody without a token was told of a verb that is none."""
    for command in re.findall(r"<code>(gangline [^<]+)</code>", file.read_text()):
        assert trouble(command, tmp_path, whole=False) == ""


@pytest.mark.parametrize("hint", [*HINTS.values(), SICK_HINT, AWAY_HINT])
def test_every_command_that_a_hint_names_is_understood(hint: str, tmp_path: Path) -> None:
    for command in INLINE.findall(re.sub(r"\{\w+\}", "1", hint)):
        assert trouble(command, tmp_path, whole=False) == ""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("gangline explain 7", "there is no verb explain"),
        ("gangline policy set --pool P elastic=NAME", "--pool is not known here"),
        ("gangline lab replay ARCHIVE --fast", "unrecognized arguments"),
        ("gangline quota set", "arguments are required"),
        ("gangline queue --user ada > queue.txt", ""),
        ("gangline lab why ARCHIVE JOB", ""),
    ],
)
def test_a_wrong_command_is_found(command: str, told: str, tmp_path: Path) -> None:
    found = trouble(command, tmp_path, whole=True)
    assert told in found
    assert bool(told) == bool(found)
