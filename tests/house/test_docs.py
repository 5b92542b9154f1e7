"""What the written pages name exists: links, files, make targets, verbs; and what lists things leaves none out."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline_client.verbs import HANDOVERS, VERBS
from gangline_wire.lanes import LANES, PENS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "services/*/README.md", "libs/**/README.md", "helm/*/README.md")
    for path in ROOT.glob(pattern)
)
SERVICES = sorted(path.parent for path in (ROOT / "services").glob("*/README.md"))
KNOWN_VERBS = {verb.name for verb in (*VERBS, *HANDOVERS)}
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:libs|services|tests|tools|docs|docker|requirements)/[\w./*-]*)`")
VERB = re.compile(r"(?:^|[`$>] ?)gangline ([a-z]+)", re.MULTILINE)
ADVISED = re.compile(r"`gangline ([a-z]+)")
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


def test_every_command_that_a_message_advises_is_one_of_ours() -> None:
    sources = (
        path for floor in ("libs", "services") for kind in ("py", "js") for path in (ROOT / floor).rglob(f"*.{kind}")
    )
    advised = {(verb, path.name) for path in sources for verb in ADVISED.findall(path.read_text(encoding="utf-8"))}
    assert len(advised) > len(KNOWN_VERBS)
    assert sorted((verb, name) for verb, name in advised if verb not in KNOWN_VERBS) == []


@pytest.mark.parametrize("folder", SERVICES)
def test_the_readme_of_a_service_names_each_of_its_files(folder: Path) -> None:
    files = {path.name for path in folder.glob("*.py")} - {"__init__.py", "__main__.py"}
    words = (folder / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(files) if f"`{name}`" not in words] == []
    ours = set(re.findall(r"`([a-z_]+\.py)`", words))
    assert sorted(ours - files) == []


@pytest.mark.parametrize(("pen", "folder"), [(pen, home) for pen, (home, _) in LANES.items() if pen in PENS.values()])
def test_the_readme_of_a_service_names_each_fact_that_it_writes(pen: str, folder: str) -> None:
    words = (ROOT / "services" / folder / "README.md").read_text(encoding="utf-8")
    facts = [fact.__name__ for fact, writer in PENS.items() if writer == pen]
    assert [name for name in facts if not re.search(rf"\b{name}\b", words)] == []


def test_the_map_names_each_folder_of_the_core_and_of_the_tests() -> None:
    words = text("ARCHITECTURE.md")
    core = [path.name for path in (ROOT / "libs/gangline_core").iterdir() if (path / "__init__.py").exists()]
    assert [name for name in sorted(core) if f"{name}/`" not in words] == []
    tests = [path.name for path in (ROOT / "tests").iterdir() if list(path.rglob("test_*.py"))]
    (line,) = [line for line in words.splitlines() if line.startswith("| `tests/`")]
    assert [name for name in sorted(tests) if not re.search(rf"[ ,]{name}\b", line)] == []


def test_every_folder_of_tests_is_run_by_the_check() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if list(path.rglob("test_*.py"))}
    words = set(re.findall(r"[a-z_]+", (ROOT / "tools/check").read_text(encoding="utf-8")))
    assert folders - words == set()
