"""Holds the house rules no other tool knows: sizes, names, words, suppressions, addresses, a README per service."""

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
TEST_FILE_LINES_MAX = 700
"""Promises about one thing are read one by one, so a list of them may be longer than code that must be held in mind."""

OVERSIZED: dict[str, str] = {}
"""Functions ("path:name") or files ("path") that may pass their limit, with the reason. The list may only shrink."""

MODULE_NAMES_BANNED = frozenset({"utils", "util", "common", "helpers", "helper", "base", "manager", "managers", "misc"})
WORDS_BANNED = {
    "TODO": "do it now or file an issue",
    "FIXME": "fix it now or file an issue",
    "XXX": "say what is meant",
    "raise NotImplementedError": "leave out what does not exist",
    "unittest.mock": "use a fake from tests/ or the real thing",
}
ADDRESSES_BANNED = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs\.org|deb\.debian\.org|proxy\.golang\.org|"
    r"--(?:extra-)?index-url|--find-links"
)
MACHINE_PATHS_BANNED = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/[\w.]|[A-Z]:\\\\Users")
SUPPRESSION = re.compile(r"#\s*(?:noqa|type:\s*ignore|mypy:|ruff:\s*noqa|pragma:\s*no cover)")
SUPPRESSION_WITH_RULE_AND_REASON = re.compile(
    r"#\s*(?:noqa:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*|type:\s*ignore\[[\w, -]+\]|pragma:\s*no cover)"
    r"\s+[-:#]*\s*\S.{8,}"
)

SPEAK_OF_THE_RULES = frozenset(
    {"tools/tidy.py", "tools/lock", "tests/house/test_tidy.py", "tests/house/test_locks.py", "CONTRIBUTING.md"}
)
"""Files that name what is banned in order to ban it."""
SERVICE_FILES = ("main.py", "app.py", "config.py", "README.md")
NO_SHELL = ("gangline_embedded/app.py",)
"""The room above the services runs their shells and has none of its own."""

FOLDERS_SKIPPED = frozenset({"__pycache__", "build", "dist", "out", "data"})
"""Besides every folder whose name starts with a dot, except .ci."""
TEXT_SUFFIXES = frozenset(
    {".py", ".md", ".toml", ".yml", ".yaml", ".conf", ".in", ".txt", ".sh", ".html", ".js", ".css", ""}
)


class Source(NamedTuple):
    """One text file of the project."""

    path: str
    """Relative to the root, with forward slashes."""
    text: str

    @property
    def lines(self) -> list[str]:
        """The file's lines."""
        return self.text.splitlines()

    @property
    def is_python(self) -> bool:
        """True for a Python module."""
        return self.path.endswith(".py")


class Problem(NamedTuple):
    """One broken rule and where."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        """As editors understand it."""
        return f"{self.path}:{self.line}: {self.message}"


def functions_fit_a_screen(source: Source) -> Iterator[Problem]:
    """No function passes 60 lines, its docstring not counted."""
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        size = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
        if size > FUNCTION_LINES_MAX and f"{source.path}:{node.name}" not in OVERSIZED:
            yield Problem(source.path, node.lineno, f"{node.name} has {size} lines; the limit is {FUNCTION_LINES_MAX}")


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines the docstring takes."""
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def files_stay_short(source: Source) -> Iterator[Problem]:
    """No module passes 400 lines, no file of tests 700."""
    size = len(source.lines)
    limit = TEST_FILE_LINES_MAX if Path(source.path).name.startswith("test_") else FILE_LINES_MAX
    if size > limit and source.path not in OVERSIZED:
        yield Problem(source.path, size, f"{size} lines; the limit is {limit}")


def modules_have_a_noun(source: Source) -> Iterator[Problem]:
    """No module or package is called utils, common, manager and the like."""
    for part in Path(source.path).with_suffix("").parts:
        if part.lower() in MODULE_NAMES_BANNED or part.lower().split("_")[-1] in MODULE_NAMES_BANNED:
            yield Problem(source.path, 1, f"the name {part} says nothing; a thing without a noun has no room yet")


def suppressions_name_rule_and_reason(source: Source) -> Iterator[Problem]:
    """Every suppression names its rule and gives a reason on the line."""
    for number, line in enumerate(source.lines, start=1):
        if SUPPRESSION.search(line) and not SUPPRESSION_WITH_RULE_AND_REASON.search(line):
            yield Problem(source.path, number, "a suppression names its rule and its reason on the line")


def skips_give_a_reason(source: Source) -> Iterator[Problem]:
    """Every skipped or expected-to-fail test says why."""
    for number, line in enumerate(source.lines, start=1):
        if re.search(r"pytest\.mark\.(?:skip|xfail)\s*$|pytest\.mark\.(?:skip|xfail)\(\s*\)|pytest\.skip\(\s*\)", line):
            yield Problem(source.path, number, "a skipped test gives its reason")


def no_banned_words(source: Source) -> Iterator[Problem]:
    """No half-finished work, no mocks of our own code."""
    for number, line in enumerate(source.lines, start=1):
        for word, advice in WORDS_BANNED.items():
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", line):
                yield Problem(source.path, number, f"{word}: {advice}")


def no_foreign_addresses(source: Source) -> Iterator[Problem]:
    """No address of a package index and no path of somebody's machine."""
    for number, line in enumerate(source.lines, start=1):
        if found := ADDRESSES_BANNED.search(line):
            yield Problem(source.path, number, f"names a package index: {found.group()}")
        if found := MACHINE_PATHS_BANNED.search(line):
            yield Problem(source.path, number, f"names a path of one machine: {found.group()}")


def services_are_whole(root: Path) -> Iterator[Problem]:
    """Every service has its composition root, shell, configuration and README."""
    for folder in sorted((root / "services").iterdir()):
        if not folder.is_dir() or not (folder / "__init__.py").exists():
            continue
        for name in SERVICE_FILES:
            if not (folder / name).is_file() and f"{folder.name}/{name}" not in NO_SHELL:
                yield Problem(folder.relative_to(root).as_posix(), 1, f"has no {name}")


PYTHON_RULES: tuple[Callable[[Source], Iterator[Problem]], ...] = (
    functions_fit_a_screen,
    files_stay_short,
    modules_have_a_noun,
)
TEXT_RULES: tuple[Callable[[Source], Iterator[Problem]], ...] = (
    suppressions_name_rule_and_reason,
    skips_give_a_reason,
    no_banned_words,
    no_foreign_addresses,
)


def sources(root: Path) -> Iterator[Source]:
    """Every text file of the project that people write."""
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if not is_skipped(name))
        for name in sorted(names):
            path = Path(folder, name)
            relative = path.relative_to(root)
            if path.suffix in TEXT_SUFFIXES and relative.parts[0] != "requirements":
                yield Source(relative.as_posix(), path.read_text(encoding="utf-8"))


def is_skipped(folder: str) -> bool:
    """True for folders that hold nothing people write."""
    return folder in FOLDERS_SKIPPED or folder.endswith(".egg-info") or (folder.startswith(".") and folder != ".ci")


def problems(root: Path) -> Iterator[Problem]:
    """Every broken rule of the tree."""
    for source in sources(root):
        if source.is_python:
            for rule in PYTHON_RULES:
                yield from rule(source)
        if source.path not in SPEAK_OF_THE_RULES:
            for rule in TEXT_RULES:
                yield from rule(source)
    yield from services_are_whole(root)


def main() -> int:
    """Print every problem; 1 when there is any."""
    found = list(problems(ROOT))
    for problem in found:
        print(problem)
    print(f"tidy: {len(found)} problems" if found else "tidy: nothing to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
