"""Lists of Kubernetes objects as `kubectl get pods,jobs -o json` (or yaml) and `kubectl get events -o json` write them.

From pods: created, started (`status.startTime`) and ended (the last container's `terminated.finishedAt`), with
requests of `nvidia.com/gpu` (and `amd.com/gpu`, `nvidia.com/mig-*` as a GPU each), `cpu` and `memory`. From events
(Scheduled, Started, Killing, Completed): the same times for pods that are gone. Pods without an end are left out and
counted. A pod's group is its namespace; pods that one owner (a Job, a PyTorchJob) made together are one gang.
"""

import zlib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role
from gangline_lab.rows import TraceError, unpacked
from gangline_lab.sim.workload import Arrival, Work, Workload, workload
from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import read_mebibytes, read_milli

GPU_NAMES = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-")
"""How the names of resources begin that stand for GPUs or for instances of them."""
HEAD_BYTES = 10_000
JOB = "job "
"""Before the name of an event's Job, which has no name of a pod."""
FIRST = "first "
"""Before an event's reason: the first time of it instead of the last."""
TOGETHER_S = 120
"""Pods of one owner that were created within this time of the first are its gang."""
FILE_BYTES_MAX = 2_000_000_000


class Pod(Struct, frozen=True):
    """One pod, as far as a trace needs it."""

    name: str
    namespace: str
    owner: str
    created_s: float
    started_s: float
    ended_s: float
    resources: Resources
    failed: bool


def read_kubernetes(path: Path) -> Workload:
    """All pods that ended, as jobs.

    Raises:
        TraceError: with the number of the item and the path of the field.
    """
    pods: list[Pod] = []
    left_out: Counter[str] = Counter()
    unended: set[tuple[str, str]] = set()
    events: dict[tuple[str, str], dict[str, float]] = {}
    for number, item in enumerate(_items(path), start=1):
        place = _Place(path.name, number)
        kind = item.get("kind", "Pod")
        try:
            pod = _pod(item, place) if kind == "Pod" else None
            if kind == "Event":
                _note_event(item, place, events, left_out)
        except (AttributeError, TypeError, KeyError) as error:
            # Objects are taken apart as they come: what is no object where Kubernetes has one shows in its use.
            raise place.error("metadata, spec or status", f"is no {kind} as Kubernetes writes it ({error})") from error
        if pod is not None:
            pods.append(pod)
        elif kind == "Pod":
            left_out["pods without an end"] += 1
            unended.add((str(item["metadata"].get("namespace", "default")), str(item["metadata"].get("name", ""))))
    known = {(pod.namespace, pod.name) for pod in pods}
    told = _from_events(events, known)
    of_pods = {name for name in events if not name[1].startswith(JOB)}
    never = of_pods - known - unended - {(pod.namespace, pod.name) for pod in told}
    if never:
        left_out["pods of which no event tells start and end"] += len(never)
    pods += told
    begin = min((pod.created_s for pod in pods), default=0.0)
    return workload(path.name, [_arrival(gang, begin) for gang in _gangs(pods)], left_out=left_out)


class _Place:
    """Where in the file something is wrong."""

    def __init__(self, file: str, number: int) -> None:
        self._file, self._number = file, number

    def error(self, field: str, problem: str) -> TraceError:
        return TraceError(problem, file=self._file, line=self._number, column=field)


def _items(path: Path) -> list[dict[str, Any]]:
    """The file's objects: of a List, or one object on each line."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise TraceError(f"more than {FILE_BYTES_MAX} bytes", file=path.name, line=0)
        data = unpacked(path)
        listed = _of_yaml(data) if _is_yaml(data) else _listed(data)
        if listed is not None:
            return listed
        lines = enumerate(data.splitlines(), start=1)
        return [_object(line, path.name, number) for number, line in lines if line.strip()]
    except (OSError, EOFError, zlib.error, ValueError, KeyError) as error:
        raise TraceError(f"no list of Kubernetes objects: {error}", file=path.name, line=1) from error


def _listed(data: bytes) -> list[dict[str, Any]] | None:
    """The items of a List; None where the whole is not one object with items, as with an object on each line."""
    try:
        whole = msgspec.json.decode(data, type=dict[str, Any])
    except ValueError:
        if not data.strip() or _is_object(data.lstrip().partition(b"\n")[0]):
            return None
        raise
    return msgspec.convert(whole["items"], list[dict[str, Any]]) if "items" in whole else [whole]


def _is_yaml(data: bytes) -> bool:
    """True where a line of the beginning is a field as `-o yaml` writes it."""
    head = data[:HEAD_BYTES].splitlines()
    return any(line.startswith((b"apiVersion:", b"kind:", b"items:")) for line in head)


def _of_yaml(data: bytes) -> list[dict[str, Any]]:
    """The items of a List, or each document."""
    try:
        documents = [one for one in yaml.safe_load_all(data) if one is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from error
    lists = msgspec.convert(documents, list[dict[str, Any]])
    return [item for one in lists for item in msgspec.convert(one.get("items", [one]), list[dict[str, Any]])]


def _is_object(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=dict[str, Any])
    except ValueError:
        return False
    return True


def _object(line: bytes, file: str, number: int) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except ValueError as error:
        raise TraceError(f"no Kubernetes object: {error}", file=file, line=number) from error


def _pod(item: dict[str, Any], place: _Place) -> Pod | None:
    meta, status, spec = item.get("metadata", {}), item.get("status", {}), item.get("spec", {})
    ends = [
        state["terminated"].get("finishedAt")
        for container in status.get("containerStatuses", [])
        if "terminated" in (state := container.get("state", {}))
    ]
    if not ends or len(ends) < len(status.get("containerStatuses", [])) or not status.get("startTime"):
        return None
    owners = meta.get("ownerReferences", [])
    return Pod(
        name=str(meta.get("name", "")),
        namespace=str(meta.get("namespace", "default")),
        owner=str(owners[0].get("uid") or owners[0].get("name")) if owners else "",
        created_s=_time_s(meta.get("creationTimestamp"), place, "metadata.creationTimestamp"),
        started_s=_time_s(status.get("startTime"), place, "status.startTime"),
        ended_s=max(_time_s(end, place, "state.terminated.finishedAt") for end in ends),
        resources=_resources(spec.get("containers", []), place),
        failed=status.get("phase") == "Failed",
    )


def _time_s(text: object, place: _Place, field: str) -> float:
    try:
        read = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        # Kubernetes writes UTC; a time without a zone is no local one.
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise place.error(field, f"expected a time such as 2024-05-01T10:00:00Z, found {text!r}") from None


def _resources(containers: list[dict[str, Any]], place: _Place) -> Resources:
    gpus = cpu = memory = 0
    for container in containers:
        asked = container.get("resources", {})
        requests = {**asked.get("limits", {}), **asked.get("requests", {})}
        try:
            gpus += sum(int(amount) for name, amount in requests.items() if name.startswith(GPU_NAMES))
            cpu += read_milli(str(requests.get("cpu", "0")))
            memory += read_mebibytes(str(requests.get("memory", "0Mi")))
        except (WrongValueError, ValueError) as error:
            raise place.error("spec.containers.resources", str(error)) from None
    return Resources(gpu_milli=gpus * GPU_MILLI, cpu_milli=cpu, memory_mib=memory)


def _note_event(
    item: dict[str, Any],
    place: _Place,
    events: dict[tuple[str, str], dict[str, float]],
    left_out: "Counter[str]",
) -> None:
    about = item.get("involvedObject", item.get("regarding", {}))
    if about.get("kind") not in ("Pod", "Job"):
        return
    first = item.get("firstTimestamp") or item.get("eventTime") or item.get("lastTimestamp")
    last = item.get("lastTimestamp") or item.get("eventTime") or first
    if first is None:
        left_out["events without a time"] += 1
        return
    mark = JOB if about["kind"] == "Job" else ""
    times = events.setdefault((str(about.get("namespace", "default")), mark + str(about.get("name", ""))), {})
    reason = str(item.get("reason", ""))
    # A repeated event is one with its first and last time: a pod came by the first, and ended by the last.
    began = _time_s(first, place, "firstTimestamp")
    times[f"{FIRST}{reason}"] = min(began, times.get(f"{FIRST}{reason}", began))
    times[reason] = max(_time_s(last, place, "lastTimestamp"), times.get(reason, began))


def _from_events(events: dict[tuple[str, str], dict[str, float]], known: set[tuple[str, str]]) -> list[Pod]:
    """Pods of which only events are left: when they were scheduled, started and over. They ask for one GPU."""
    pods = []
    for (namespace, name), times in sorted(events.items()):
        if name.startswith(JOB):
            continue
        # A normal end is told of the Job that made the pod, whose name the pod's begins with.
        whole = events.get((namespace, JOB + name.rpartition("-")[0]), {}).get("Completed")
        end = times.get("Completed", times.get("Killing", times.get("Failed", whole)))
        start = times.get("Started", times.get("Scheduled"))
        if end is None or start is None or (namespace, name) in known:
            continue
        created = min(start, times.get(f"{FIRST}FailedScheduling", times.get(f"{FIRST}Scheduled", start)))
        pods.append(
            Pod(
                name=name,
                namespace=namespace,
                owner="",
                created_s=created,
                started_s=start,
                ended_s=max(end, start),
                resources=Resources(gpu_milli=GPU_MILLI),
                failed="Failed" in times,
            )
        )
    return pods


def _gangs(pods: list[Pod]) -> list[list[Pod]]:
    gangs: list[list[Pod]] = []
    open_gangs: dict[tuple[str, str], list[Pod]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.created_s, pod.namespace, pod.name)):
        gang = open_gangs.get((pod.namespace, pod.owner)) if pod.owner else None
        alike = gang is not None and gang[0].resources == pod.resources
        if gang is not None and alike and pod.created_s - gang[0].created_s <= TOGETHER_S:
            gang.append(pod)
            continue
        gangs.append([pod])
        if pod.owner:
            open_gangs[pod.namespace, pod.owner] = gangs[-1]
    return gangs


def _arrival(gang: list[Pod], begin: float) -> Arrival:
    first = gang[0]
    run_s = max(1.0, max(pod.ended_s for pod in gang) - max(pod.started_s for pod in gang))
    role = Role(name="pod", count=len(gang), min_count=len(gang), max_count=len(gang), resources=first.resources)
    spec = JobSpec(name=first.name, group=first.namespace, user="trace", roles=(role,), estimate_s=max(1, round(run_s)))
    work = Work(run_ms=round(1000 * run_s), exit_code=int(any(pod.failed for pod in gang)))
    return Arrival(at_ms=round(1000 * (first.created_s - begin)), spec=spec, work=work)
