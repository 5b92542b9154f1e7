"""What the written pages name exists: links, files, make targets, verbs of the command."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline_client.verbs import HANDOVERS, VERBS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "services/*/README.md", "libs/**/README.md")
    for path in ROOT.glob(pattern)
)
KNOWN_VERBS = {verb.name for verb in (*VERBS, *HANDOVERS)}
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:libs|services|tests|tools|docs|docker|requirements)/[\w./*-]*)`")
VERB = re.compile(r"(?:^|[`$>] ?)gangline ([a-z]+)", re.MULTILINE)
MAKE = re.compile(r"(?:^|[`$>] ?)make ([a-z]+)", re.MULTILINE)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def code(page: str) -> Iterator[str]:
    """The page's code, inline and in blocks."""
    return (found.group().strip("`") for found in CODE.finditer(text(page)))


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_leads_somewhere(page: str) -> None:
    links = [link for link in LINK.findall(text(page)) if "://" not in link]
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_named_file_is_there(page: str) -> None:
    named = {path.rstrip("/") for path in PATH.findall(text(page))}
    assert [path for path in sorted(named) if not list(ROOT.glob(path))] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_shown_command_is_one_of_ours(page: str) -> None:
    shown = "\n".join(code(page))
    assert set(VERB.findall(shown)) - KNOWN_VERBS == set()
    assert set(MAKE.findall(shown)) - TARGETS == set()


def test_every_folder_of_tests_is_run_by_the_check() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if list(path.rglob("test_*.py"))}
    words = set(re.findall(r"[a-z_]+", (ROOT / "tools/check").read_text(encoding="utf-8")))
    assert folders - words == set()
