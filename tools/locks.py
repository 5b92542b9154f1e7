"""Holds the dependency locks: no address inside, every pin hashed, and every asked-for package pinned."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = ("run", "dev", "build", "programs", "installer")

PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)


def normal(name: str) -> str:
    """A package's name as the registry compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def names(lines: list[str]) -> set[str]:
    """Packages that requirement lines ask for, without versions, markers, comments and options."""
    wanted = (line.split("#")[0].strip() for line in lines)
    found = (re.match(r"[A-Za-z0-9._-]+", line) for line in wanted if line and not line.startswith("-"))
    return {normal(match.group()) for match in found if match}


def pins(text: str) -> dict[str, str]:
    """Pinned versions by package."""
    return {normal(name): version for name, version in PIN.findall(text)}


def problems(root: Path) -> Iterator[str]:
    """Everything wrong with the locks under `root`."""
    folder = root / "requirements"
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    asked = {name: names((folder / f"{name}.in").read_text(encoding="utf-8").splitlines()) for name in SETS}
    locked = {name: (folder / f"{name}.txt").read_text(encoding="utf-8") for name in SETS}
    declared = names(project["project"]["dependencies"])
    if declared != asked["run"]:
        yield f"pyproject.toml and requirements/run.in differ: {sorted(declared ^ asked['run'])}"
    builders = names(project["build-system"]["requires"])
    if builders - asked["build"]:
        yield f"requirements/build.in lacks what pyproject.toml builds with: {sorted(builders - asked['build'])}"
    for name in SETS:
        yield from problems_of_lock(name, asked=asked[name], text=locked[name])
    run, dev = pins(locked["run"]), pins(locked["dev"])
    if apart := sorted(name for name in run if dev.get(name) != run[name]):
        yield f"requirements/dev.txt pins other versions than run.txt: {apart}"


def problems_of_lock(name: str, *, asked: set[str], text: str) -> Iterator[str]:
    """What is wrong with one lock alone."""
    for number, line in enumerate(text.splitlines(), start=1):
        if "://" in line or line.startswith("-"):
            yield f"requirements/{name}.txt:{number}: a lock holds pins and hashes only: {line.strip()}"
    if missing := asked - set(pins(text)):
        yield f"requirements/{name}.txt does not pin {sorted(missing)}: run make lock"
    entries = re.split(r"\n(?=\S)", text.strip())
    if bare := [entry.split("==")[0] for entry in entries if "--hash=sha256:" not in entry]:
        yield f"requirements/{name}.txt has pins without a hash: {bare}"


def main() -> int:
    """Print every problem; 1 when there is any."""
    found = list(problems(ROOT))
    print("\n".join(found) if found else "locks: nothing to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
