"""Lists of Kubernetes objects as `kubectl get pods,jobs -o json` (or yaml) and `kubectl get events -o json` write them.

From pods: created, started (`status.startTime`) and ended (the last container's `terminated.finishedAt`), with
requests of `nvidia.com/gpu` (and `amd.com/gpu`, `nvidia.com/mig-*` as a GPU each), `cpu` and `memory`. From events
(Scheduled, Started, Killing, Completed): the same times for pods that are gone. Pods without an end are left out and
counted. A pod's group is its namespace; pods that one owner (a Job, a PyTorchJob) made together are one gang.
Times are RFC 3339, in UTC where they name no zone; amounts are Kubernetes quantities, memory rounded up to MiB.
"""

import zlib
from collections import Counter
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role
from gangline_lab.readers.object_places import JSON, LINES, YAML, Places, place_of_mistake
from gangline_lab.rows import TraceError, shown, unpacked
from gangline_lab.sim.workload import Arrival, Work, Workload, workload
from gangline_wire.kube_quantity import read_quantity
from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import MEBIBYTE

GPU_NAMES = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-")
"""How the names of resources begin that stand for GPUs or for instances of them."""
HEAD_BYTES = 10_000
JOB = "job "
"""Before the name of an event's Job, which has no name of a pod."""
FIRST = "first "
"""Before an event's reason: the first time of it instead of the last."""
STATUSES, TERMINATED = ("status", "containerStatuses"), ("state", "terminated", "finishedAt")
"""The path of a container's end."""
TOGETHER_S = 120
"""Pods of one owner that were created within this time of the first are its gang."""
NO_LIST = "no list of Kubernetes objects: its `items` are no list"
GPUS_MAX = 10_000
"""Most GPUs of one container that are believed."""
AMOUNT_MAX = 10**9
"""Most thousandths of a core and MiB of one container that are believed."""


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
        TraceError: with the line and column at which the field stands, and its path in the item.
    """
    pods: list[Pod] = []
    left_out: Counter[str] = Counter()
    unended: set[tuple[str, str]] = set()
    backwards: list[TraceError] = []
    events: dict[tuple[str, str], dict[str, float]] = {}
    items, places = _items(path)
    for number, item in enumerate(items):
        place = _Place(places, number)
        kind = item.get("kind", "Pod")
        try:
            odd = len(backwards)
            pod = _pod(item, place, backwards) if kind == "Pod" else None
            if kind == "Pod" and pod is None:
                if len(backwards) == odd:
                    left_out["pods without an end"] += 1
                meta = item.get("metadata", {})
                unended.add((str(meta.get("namespace", "default")), str(meta.get("name", ""))))
            if kind == "Event":
                _note_event(item, place, events, left_out)
        except (AttributeError, TypeError, KeyError) as error:
            # Objects are taken apart as they come: what is no object where Kubernetes has one shows in its use.
            raise place.error((), f"is no {kind} as Kubernetes writes it ({error})") from error
        if pod is not None:
            pods.append(pod)
    if backwards:
        left_out[f"pods that end before they start, the first at line {backwards[0].line}"] = len(backwards)
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

    def __init__(self, places: Places, number: int) -> None:
        self._places, self._number = places, number

    def error(self, path: tuple[str | int, ...], problem: str) -> TraceError:
        return self._places.error(self._number, path, problem)


def _items(path: Path) -> tuple[list[dict[str, Any]], Places]:
    """The file's objects, of a List or one object on each line, and where they stand."""
    try:
        data = unpacked(path)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"no list of Kubernetes objects: {error}", file=path.name, line=1) from error
    if _is_yaml(data):
        return _objects(_of_yaml(data, path.name), Places(path.name, data, YAML))
    listed = _listed(data, path.name)
    if listed is not None:
        return _objects(listed, Places(path.name, data, JSON))
    lines = [_line(line, path.name, number) for number, line in enumerate(data.splitlines(), start=1) if line.strip()]
    return _objects(lines, Places(path.name, data, LINES))


def _objects(items: list[Any], places: Places) -> tuple[list[dict[str, Any]], Places]:
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise places.error(number, (), "is no Kubernetes object")
    return items, places


def _listed(data: bytes, file: str) -> list[Any] | None:
    """The items of a List; None where the whole is not one object with items, as with an object on each line."""
    try:
        whole = msgspec.json.decode(data, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        if not data.strip() or _is_object(data.lstrip().partition(b"\n")[0]):
            return None
        raise _no_json(data, file, error) from error
    if not isinstance(whole.get("items", []), list):
        raise TraceError(NO_LIST, file=file, line=1, column="items")
    listed: list[Any] = whole.get("items", [whole])
    return listed


def _no_json(data: bytes, file: str, error: Exception) -> TraceError:
    line, column, problem = place_of_mistake(data)
    return TraceError(f"no list of Kubernetes objects: {problem or error}", file=file, line=line, column=column)


def _is_yaml(data: bytes) -> bool:
    """True where a line of the beginning is a field as `-o yaml` writes it."""
    head = data[:HEAD_BYTES].splitlines()
    return any(line.startswith((b"apiVersion:", b"kind:", b"items:")) for line in head)


def _of_yaml(data: bytes, file: str) -> list[Any]:
    """The items of a List, or each document."""
    try:
        documents = [one for one in yaml.safe_load_all(data) if one is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, str(mark.column + 1)) if mark is not None else (1, "")
        problem = f"no list of Kubernetes objects: {error.problem or error.context}"
        raise TraceError(problem, file=file, line=line, column=column) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise TraceError(f"no list of Kubernetes objects: {error}", file=file, line=1) from error
    found: list[Any] = []
    for one in documents:
        inside = one.get("items", [one]) if isinstance(one, dict) else [one]
        if not isinstance(inside, list):
            raise TraceError(NO_LIST, file=file, line=1, column="items")
        found += inside
    return found


def _is_object(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=dict[str, Any])
    except (ValueError, RecursionError):
        return False
    return True


def _line(data: bytes, file: str, number: int) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        _, column, problem = place_of_mistake(data)
        problem = f"no Kubernetes object: {problem or error}"
        raise TraceError(problem, file=file, line=number, column=column) from error


def _pod(item: dict[str, Any], place: _Place, backwards: list[TraceError]) -> Pod | None:
    """The pod; None where it is not over, or ends before it starts, as clocks of nodes that were set have it."""
    meta, status, spec = item.get("metadata", {}), item.get("status", {}), item.get("spec", {})
    containers = status.get("containerStatuses") or []
    ends = [(container.get("state", {}).get("terminated") or {}).get("finishedAt") for container in containers]
    # A container that was lost with its node is over, and nobody knows since when.
    if not ends or None in ends or not status.get("startTime"):
        return None
    owners = meta.get("ownerReferences", [])
    started_s = _time_s(status["startTime"], place, ("status", "startTime"))
    ended = [_time_s(end, place, (*STATUSES, k, *TERMINATED)) for k, end in enumerate(ends)]
    if max(ended) < started_s:
        backwards.append(place.error((*STATUSES, ended.index(max(ended)), *TERMINATED), "is before status.startTime"))
        return None
    return Pod(
        name=str(meta.get("name", "")),
        namespace=str(meta.get("namespace", "default")),
        owner=str(owners[0].get("uid") or owners[0].get("name")) if owners else "",
        created_s=_time_s(meta.get("creationTimestamp"), place, ("metadata", "creationTimestamp")),
        started_s=started_s,
        ended_s=max(ended),
        resources=_resources(spec.get("containers", []), place),
        failed=status.get("phase") == "Failed",
    )


def _time_s(text: object, place: _Place, field: tuple[str | int, ...]) -> float:
    try:
        read = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        # Kubernetes writes UTC; a time without a zone is no local one.
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise place.error(field, f"expected a time such as 2024-05-01T10:00:00Z, found {shown(str(text))}") from None


def _resources(containers: list[dict[str, Any]], place: _Place) -> Resources:
    gpus = cpu = memory = 0
    for number, container in enumerate(containers):
        asked = container.get("resources") or {}
        for kind in ("limits", "requests"):
            for name, told in (asked.get(kind) or {}).items():
                path = ("spec", "containers", number, "resources", kind, name)
                counts = kind == "requests" or name not in (asked.get("requests") or {})
                if name.startswith(GPU_NAMES):
                    gpus += counts * _amount(told, 1, GPUS_MAX, place, path)
                elif name == "cpu":
                    cpu += counts * _amount(told, 1000, AMOUNT_MAX, place, path)
                elif name == "memory":
                    memory += counts * _amount(told, Fraction(1, MEBIBYTE), AMOUNT_MAX, place, path)
    return Resources(gpu_milli=gpus * GPU_MILLI, cpu_milli=cpu, memory_mib=memory)


def _amount(told: object, units: int | Fraction, most: int, place: _Place, path: tuple[str | int, ...]) -> int:
    """A quantity in units of which a whole one has so many, rounded up."""
    try:
        number = ceil(Fraction(read_quantity(told)) * units)
    except WrongValueError as error:
        raise place.error(path, str(error)) from None
    if not 0 <= number <= most:
        raise place.error(path, f"expected an amount from 0 to {most / units:g}, found {shown(str(told))}")
    return number


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
    began = _time_s(first, place, ("firstTimestamp",))
    times[f"{FIRST}{reason}"] = min(began, times.get(f"{FIRST}{reason}", began))
    times[reason] = max(_time_s(last, place, ("lastTimestamp",)), times.get(reason, began))


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
