"""How everything that a batch script's header says becomes the document of one job."""

import re
from collections.abc import Mapping
from math import ceil
from typing import Any

from gangline_client.batch_terms import PASSED_ON, Terms
from gangline_client.slurm_names import told
from gangline_wire.durations import show_seconds

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def document_of(terms: Terms) -> dict[str, Any]:
    """The job file of everything that was said; what does not go together goes to the faults."""
    counts, document = terms.counts, dict(terms.fields)
    nodes = counts.get("nodes", 0)
    per_node = counts.get("per_node", 0)
    tasks = counts.get("tasks") or (nodes or 1) * (per_node or 1)
    if nodes and not per_node:
        per_node = ceil(tasks / nodes)
    if nodes and per_node * nodes < tasks:
        terms.faults.append(f"{tasks} tasks are more than {nodes} nodes with {per_node} each")
    document["tasks"] = tasks
    if terms.time_s:
        # Who is to be told before the end is told that it is over then, and has the rest of its time as grace.
        ends_early = terms.time_s > terms.notice_s
        document["time_limit"] = show_seconds(terms.time_s - (terms.notice_s if ends_early else 0))
    gpus = _gpus(terms, tasks, per_node or tasks)
    if gpus:
        document["gpus"] = gpus
        if "cpus_per_gpu" in counts:
            document["cpus"] = counts["cpus_per_gpu"] * gpus
    if terms.model:
        document["gpu_models"] = [terms.model]
    memory = _memory_mib(counts, gpus, per_node or tasks)
    if memory:
        document["memory"] = f"{memory}Mi"
    devices = {name: _share(terms, name, count, per_node or tasks) for name, count in terms.devices.items()}
    document |= {"devices": devices} if devices else {}
    document["env"] = {**_environment(terms), **told(counts, nodes, per_node, gpus), "SLURM_SUBMIT_DIR": terms.folder}
    document["attributes"] = {"workdir": terms.workdir or terms.folder}
    if per_node > 1:
        terms.notes.append(
            "how many tasks share a node is the placement's to find; ask with `topology` where it matters"
        )
    return document


def _gpus(terms: Terms, tasks: int, per_node: int) -> int:
    """GPUs of each task, however they were counted."""
    counts = terms.counts
    if "gpus_per_task" in counts:
        return counts["gpus_per_task"]
    if "gpus_per_node" in counts:
        return _share(terms, "GPUs of a node", counts["gpus_per_node"], per_node)
    return _share(terms, "GPUs", counts["gpus"], tasks) if "gpus" in counts else 0


def _share(terms: Terms, what: str, count: int, among: int) -> int:
    if count % among:
        terms.faults.append(f"{count} {what} cannot be shared evenly among {among} tasks")
    return count // among


def _memory_mib(counts: Mapping[str, int], gpus: int, per_node: int) -> int:
    if "memory_per_cpu" in counts:
        return counts["memory_per_cpu"] * counts.get("cpus", 1)
    if "memory_per_gpu" in counts:
        return counts["memory_per_gpu"] * max(1, gpus)
    return ceil(counts["memory"] / per_node) if "memory" in counts else 0


def _environment(terms: Terms) -> dict[str, str]:
    """ALL and NONE as sbatch means them, but of all variables only those that make a program the same there as here."""
    found: dict[str, str] = {}
    for word in terms.export.split(","):
        name, equals, value = word.strip().partition("=")
        if name.upper() == "ALL" and not equals:
            found |= {name: terms.environ[name] for name in PASSED_ON if terms.environ.get(name)}
        elif name.upper() in ("NONE", "NIL", "") and not equals:
            continue
        elif not NAME.fullmatch(name):
            terms.faults.append(f"--export: {name[:80]!r} is no name of a variable")
        elif equals or name in terms.environ:
            found[name] = value if equals else terms.environ[name]
    return found
