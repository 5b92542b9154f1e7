"""How a batch script with `#SBATCH` and `#GANGLINE` lines becomes the document of a job.

The lines before the first command count, as they do for sbatch. What they say is read by `batch_terms`; this file finds
them. The script itself runs in every task of the job, as it would under srun, with the interpreter of its first line.
"""

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from gangline_client.batch_document import document_of
from gangline_client.batch_terms import COUNTS, FLAGS, SHORT, TERMS, Terms
from gangline_client.errors import InputError
from gangline_client.slurm_names import first_line

SHEBANG = "#!"
SBATCH, OURS = "#SBATCH", "#GANGLINE"
LINES_MOST = 1_000
"""A header has fewer lines."""
FAULTS_SHOWN = 10
SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
PYTHON = re.compile(r"python[0-9.]*", re.ASCII)
Document = dict[str, Any]  # Any: as in a job file, whose fields the platform judges


@dataclass
class Header:
    """What the lines before the first command say, and what is wrong with them."""

    options: list[tuple[int, str, str]] = field(default_factory=list)
    """Line, long name of the option, and its value."""
    own: list[tuple[int, str]] = field(default_factory=list)
    """Line and YAML of each `#GANGLINE` line."""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_miscounted: bool = False
    """What could not be read may have said how many of something there are."""


@dataclass(frozen=True)
class Script:
    """A job, and what its author should know."""

    document: Document
    notes: tuple[str, ...]


def is_script(text: str) -> bool:
    """True for a script, which begins with its interpreter."""
    return text.startswith(SHEBANG)


def read_script(text: str, place: str, *, environ: Mapping[str, str], folder: str, now_ms: int) -> Script:
    """The job that a script describes; `environ` and `folder` are those of whoever hands it in.

    Raises:
        InputError: some of its lines cannot be understood, each with its number and why.
    """
    header = _header(text)
    terms = Terms(environ=environ, folder=folder, now_ms=now_ms)
    for line, name, value in header.options:
        terms.line = line
        TERMS[name](terms, value)
    command = _command(text, header)
    document: Document = {} if header.is_miscounted or terms.is_miscounted else document_of(terms)
    faults = [*header.faults, *terms.faults]
    for line, written in header.own:
        document |= _fields(written, line, faults)
    if faults:
        more = [f"and {len(faults) - FAULTS_SHOWN} more"] if len(faults) > FAULTS_SHOWN else []
        told = [*sorted(faults, key=_line_of)[:FAULTS_SHOWN], *more]
        if len(told) == 1:
            raise InputError(f"{place}: {told[0]}")
        raise InputError(f"{place} cannot be submitted:", faults=told)
    document.setdefault("command", command)
    return Script(document=document, notes=tuple(dict.fromkeys([*header.notes, *terms.notes])))


def _line_of(fault: str) -> int:
    """The line that a fault names; those of the script as a whole come last."""
    number = fault.removeprefix("line ").partition(":")[0]
    return int(number) if number.isdecimal() else sys.maxsize


def _header(text: str) -> Header:
    header = Header()
    began = False
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        is_ours = line.startswith((f"{SBATCH} ", f"{SBATCH}\t", f"{OURS} ", f"{OURS}\t"))
        if stripped and not stripped.startswith("#"):
            began = True
            if stripped.split(maxsplit=1)[0] == "srun":
                header.notes.append(
                    f"line {number}: the script runs in every task, and srun runs its command right there"
                )
        elif is_ours and began:
            header.notes.append(f"line {number} stands after the first command and does not count")
        elif is_ours and len(header.options) + len(header.own) >= LINES_MOST:
            header.faults.append(f"line {number}: more than {LINES_MOST} lines say something about the job")
            break
        elif line.startswith(OURS):
            if is_ours:
                header.own.append((number, line[len(OURS) :].strip()))
        elif is_ours:
            _read_options(header, number, line[len(SBATCH) :])
    return header


def _read_options(header: Header, line: int, text: str) -> None:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        header.faults.append(f"line {line}: {str(error).lower()}")
        header.is_miscounted = True
        return
    while words:
        word = words.pop(0)
        name, given, value = _split(word)
        if name not in TERMS:
            near = get_close_matches(name, list(TERMS), n=1, cutoff=0.6)
            advice = f"; did you mean --{near[0]}?" if near else ""
            header.is_miscounted |= bool(COUNTS.intersection(near))
            header.faults.append(f"line {line}: {word.partition('=')[0][:80]} is no option that is known here{advice}")
            return
        if name in FLAGS:
            header.options.append((line, name, value))
            continue
        if not given:
            if not words:
                header.faults.append(f"line {line}: --{name} needs a value")
                header.is_miscounted |= name in COUNTS
                return
            value = words.pop(0)
        header.options.append((line, name, value))


def _split(word: str) -> tuple[str, bool, str]:
    """Long name of an option, whether its value stands in the same word, and the value."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return name, bool(equals), value
    if len(word) > 1 and word.startswith("-") and word[1] in SHORT:
        value = word[2:].removeprefix("=")
        return SHORT[word[1]], bool(value), value
    return word, False, ""


def _fields(written: str, line: int, faults: list[str]) -> Document:
    """The fields of a job file on one line."""
    import yaml

    try:
        found = yaml.safe_load(written)
    except (yaml.YAMLError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        faults.append(f"line {line}: {OURS} is followed by a field of a job file, such as `priority: 3`")
        return {}
    return found


def _command(text: str, header: Header) -> list[str]:
    """The interpreter of the first line, with the script."""
    first, _, rest = text.partition("\n")
    try:
        words = shlex.split(first.removeprefix(SHEBANG))
    except ValueError:
        words = []
    if words[:1] in (["/usr/bin/env"], ["/bin/env"]):
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
    name = words[0].rpartition("/")[2] if words else ""
    if name in SHELLS:
        return [*words, "-c", f"{first_line()}\n{rest}"]
    if PYTHON.fullmatch(name):
        return [*words, "-c", rest]
    header.faults.append(f"line 1: {name[:80] or 'nothing'} cannot run a script here; shells and Python can")
    return []
