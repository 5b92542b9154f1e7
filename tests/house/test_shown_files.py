"""Files that pages show are read by whoever reads them: job files, Kubernetes objects, policies, lists of machines."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.house.test_docs import PAGES, text

from gangline_agent.topology_file import read_place
from gangline_lab.policyfile import read_policy
from gangline_wire.jobfile import parse_job
from gangline_wire.jobfile_beside import beside
from gangline_wire.policyfile import parse_policy

BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHOWN = [(page, number) for page in PAGES for number in range(len(BLOCK.findall(text(page))))]
Reader = Callable[[Path, dict[str, object]], object]


def job(_path: Path, document: dict[str, object]) -> object:
    """A job file, or the part of one that a page is about."""
    return parse_job({"command": ["true"], **document} if "roles" not in document else document)


def read_all(documents: list[object]) -> None:
    """The jobs of one file, of which later ones may name those before."""
    others = beside(documents)
    for document in documents:
        others.before.append(parse_job(document, others))


READERS: dict[str, Reader] = {
    "kind": lambda path, document: job(path, dict(document["spec"])),  # type: ignore[call-overload]  # an object's spec
    "policy": lambda path, document: read_policy(path),
    "pools": lambda path, document: parse_policy(document),
    "nodes": lambda path, document: read_place(str(path), "gpu-a07"),
}
"""By a field that such a file has; all others are job files."""


@pytest.mark.parametrize(("page", "number"), SHOWN)
def test_a_file_that_a_page_shows_is_one_that_can_be_read(page: str, number: int, tmp_path: Path) -> None:
    path = tmp_path / "shown.yaml"
    path.write_text(BLOCK.findall(text(page))[number], encoding="utf-8")
    documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    if len(documents) > 1:
        read_all(documents)
        return
    document = documents[0]
    reader = next((read for field, read in READERS.items() if field in document), job)
    assert reader(path, document)


def test_the_pages_show_files_of_each_kind() -> None:
    shown = "".join(block for page in PAGES for block in BLOCK.findall(text(page)))
    assert [field for field in READERS if not re.search(rf"^{field}:", shown, re.MULTILINE)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if PROGRAM.search(text(page))])
def test_a_program_that_a_page_shows_is_one(page: str) -> None:
    for program in PROGRAM.findall(text(page)):
        ast.parse(program)
