"""How job files and run flags become the documents the platform is asked to admit."""

import json
import os.path
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import msgspec

from gangline_client.batch_script import SHELLS, is_script, read_script
from gangline_client.batch_terms import PASSED_ON
from gangline_client.errors import InputError, UsageError
from gangline_client.job_names import is_number
from gangline_client.moments import moment_ms
from gangline_client.page_lines import lines_of
from gangline_wire.fields import str_key

FILE_BYTES_MAX = 16 * 1024 * 1024
STANDARD_INPUT = "-"
OBJECT_GROUP = "gangline.dev/"
"""API group of Job objects, whose spec is a job file."""

Document = dict[str, Any]  # Any: what YAML and JSON hold; the platform is the judge of every field


@dataclass(frozen=True)
class Source:
    """A job and where it was written, for messages."""

    document: Document
    place: str
    """Such as "train.yaml" or "train.yaml, document 2"."""
    notes: tuple[str, ...] = ()
    """What its author should know."""
    is_script: bool = False


def read_files(
    names: list[str],
    *,
    standard_input: TextIO,
    environ: Mapping[str, str] | None = None,
    folder: str = "",
    now_ms: int = 0,
) -> list[Source]:
    """All jobs of the files, in order; a batch script is one job, with variables and folder of whoever hands it in.

    Raises:
        InputError: a file cannot be read, or holds something else than jobs.
    """
    sources: list[Source] = []
    for name in names:
        shown = "standard input" if name == STANDARD_INPUT else name
        if sources and sources[-1].is_script and name != STANDARD_INPUT and not Path(name).exists():
            raise InputError(f"{name} cannot be read", next_step="Arguments of a script stand last: `--args ...`.")
        text = standard_input.read() if name == STANDARD_INPUT else _read(Path(name))
        if is_script(text):
            script = read_script(text, shown, environ=environ or {}, folder=folder, now_ms=now_ms)
            found = [Source(script.document, shown, script.notes, is_script=True)]
        else:
            found = _load(text, shown, is_json=name.endswith(".json"))
        if not found:
            raise InputError(f"{shown} holds no job")
        sources.extend(found)
    return sources


def run_document(args: Namespace, *, environ: Mapping[str, str], folder: str, now_ms: int) -> Document:
    """The job that the flags of `gangline run` describe.

    Raises:
        UsageError: no command, or a flag that cannot be understood.
    """
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError(
            "there is no command to run", next_step="Write it last: `gangline run --gpus 1 -- python train.py`."
        )
    attributes: Document = {"workdir": args.workdir or folder, **pairs(args.attribute, flag="--attribute")}
    document: Document = {
        "name": args.name,
        "group": args.group,
        "pool": args.pool,
        "command": command,
        "env": _environment(args, environ),
        "secrets": _secrets(args, environ),
        "attributes": {name: _typed(value) for name, value in attributes.items()},
        "gpus": args.gpus,
        "gpu_memory": args.gpu_memory,
        "gpu_models": [model for text in args.gpu_model for model in text.split(",") if model],
        "cpus": args.cpus,
        "memory": args.memory,
        "topology": _given({"required": args.topology, "preferred": args.topology_preferred}),
        "node_selector": pairs(args.node_selector, flag="--node-selector"),
        "level": args.level,
        "service_class": args.service_class,
        "time_limit": args.time_limit,
        "estimate": args.estimate,
        "grace": args.grace,
        "after": [int(job) if is_number(job) else job for job in args.after],
        "singleton": args.singleton,
        "checkpoints": args.checkpoints,
        "not_before": moment_ms(args.begin, flag="--begin", now_ms=now_ms) if args.begin else "",
        "deadline": moment_ms(args.deadline, flag="--deadline", now_ms=now_ms) if args.deadline else "",
        "array": args.array,
        "hold": args.hold,
        "labels": pairs(args.label, flag="--label"),
    }
    numbers = {
        "tasks": args.tasks,
        "min": args.min_tasks,
        "max": args.max_tasks,
        "priority": args.priority,
        "retries": args.retries,
    }
    return _given(document) | {name: value for name, value in numbers.items() if value is not None}


def with_flags(source: Source, args: Namespace, *, folder: str) -> Document:
    """The source's document with what the flags of `gangline submit` say over it; paths begin in the folder.

    Raises:
        UsageError: a field's value is no YAML, or a job file is given arguments, which only scripts take.
    """
    document = source.document | _set(args.set)
    if args.after:
        known = document.get("after", [])
        own = [int(job) if is_number(job) else job for job in args.after]
        document["after"] = [*(known if isinstance(known, list) else [known]), *own]
    if args.hold:
        document["hold"] = True
    if isinstance(inside := document.get("workdir"), str) and inside:
        document["workdir"] = os.path.normpath(os.path.join(folder, os.path.expanduser(inside)))
    if args.args:
        if not source.is_script:
            raise UsageError(
                f"{source.place}: only batch scripts take arguments", next_step="A job file has them in its `command`."
            )
        name = [Path(source.place).name] if Path(document["command"][0]).name in SHELLS else []
        document["command"] = [*document["command"], *name, *args.args]
    return document


def _set(texts: list[str]) -> Document:
    """FIELD=VALUE texts as fields of a job file."""
    import yaml

    found: Document = {}
    for field, text in pairs(texts, flag="--set").items():
        try:
            found[field] = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UsageError(f"--set {field}: {text[:80]!r} is no value of YAML") from error
    return found


def with_defaults(document: Document, *, group: str, pool: str) -> Document:
    """The document with group and pool where it names none."""
    return _given({"group": group, "pool": pool}) | document


def pairs(texts: list[str], *, flag: str) -> dict[str, str]:
    """KEY=VALUE texts as a mapping.

    Raises:
        UsageError: a text has no key or no "=".
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"{flag} {text!r} is not KEY=VALUE")
        found[key] = value
    return found


def _environment(args: Namespace, environ: Mapping[str, str]) -> dict[str, str]:
    found = {} if args.clean_env else {name: environ[name] for name in PASSED_ON if environ.get(name)}
    for text in args.env:
        name, equals, value = text.partition("=")
        if not equals and name not in environ:
            raise UsageError(
                f"--env {name}: you have no variable {name} to pass on", next_step="Write --env NAME=VALUE."
            )
        found[name] = value if equals else environ[name]
    return found


def _secrets(args: Namespace, environ: Mapping[str, str]) -> dict[str, str]:
    for name in args.secret:
        if name not in environ:
            raise UsageError(f"--secret {name}: you have no variable {name} to pass on")
    return {name: environ[name] for name in args.secret}


def _typed(text: str) -> str | int | float | bool:
    """An attribute's value as YAML would read it: numbers and truth values are not text."""
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if value == value and abs(value) != float("inf") else text
    return text


def _given(document: Mapping[str, Any]) -> Document:
    return {name: value for name, value in document.items() if value not in ("", 0, False, None, [], {})}


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InputError(f"{path} is larger than {FILE_BYTES_MAX} bytes; that is no job file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {cause}") from error


def _load(text: str, place: str, *, is_json: bool) -> list[Source]:
    documents = _load_json(text, place) if is_json else _load_yaml(text, place)
    sources: list[Source] = []
    many = len(documents) > 1
    for number, document in enumerate(documents, start=1):
        here = f"{place}, document {number}" if many else place
        jobs = document if isinstance(document, list) else [document]
        for index, job in enumerate(jobs):
            where = f"{here}, job {index + 1}" if isinstance(document, list) else here
            if not isinstance(job, dict):
                script = "; a batch script begins with #!, such as #!/bin/bash" if isinstance(job, str) else ""
                raise InputError(f"{where}: a job is a mapping of fields, not {type(job).__name__}{script}")
            plain = _unwrapped(job, where)
            _check_sendable(plain, where)
            sources.append(Source(plain, where))
    return sources


def _unwrapped(job: Document, where: str) -> Document:
    """The job inside a Job object of Kubernetes, as the cluster would take it; any other document as it is.

    Raises:
        InputError: it is an object of another kind.
    """
    if "apiVersion" not in job:
        return job
    kind, spec, meta = job.get("kind"), job.get("spec"), job.get("metadata") or {}
    if not str(job["apiVersion"]).startswith(OBJECT_GROUP) or kind != "Job" or not isinstance(spec, dict):
        raise InputError(
            f"{where}: only objects of kind Job of gangline.dev are jobs, not {job['apiVersion']} {kind}",
            next_step="Objects of a cluster go to it with kubectl; Gangline schedules them there (docs/kubernetes.md).",
        )
    return {"name": meta.get("name", ""), **spec} if isinstance(meta, dict) and meta.get("name") else spec


def _check_sendable(job: Document, where: str) -> None:
    """YAML can say things that JSON, in which jobs travel, cannot."""
    try:
        msgspec.json.encode(job)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: cannot be sent as JSON: {error}") from error


def _load_json(text: str, place: str) -> list[Any]:
    try:
        return [json.loads(text, object_pairs_hook=partial(_object, place))]
    except ValueError as error:
        raise InputError(f"{place} is not JSON: {error}") from error


def _object(place: str, pairs: list[tuple[str, Any]]) -> Document:
    found = dict(pairs)
    if len(found) < len(pairs):
        often = Counter(name for name, _ in pairs)
        raise InputError(f"{place}: {str_key(next(name for name in found if often[name] > 1))} stands twice")
    return found


def _load_yaml(text: str, place: str) -> list[Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for node in yaml.compose_all(text, Loader=loader):
            lines_of(node, place)
        return [document for document in yaml.load_all(text, Loader=loader) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise InputError(f"{place}: {line}{getattr(error, 'problem', None) or error}") from error
