"""Objects of others that make pods: how many, of which shape, and where it says that they shall not exist yet. Pure."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gangline_kubernetes.adoption import GATE, QUEUE, said
from gangline_kubernetes.config import Config
from gangline_kubernetes.objects import Meta, OwnerObject, Pod, PodSpec
from gangline_kubernetes.quantities import whole
from gangline_wire.limits import most as most_of

Spec = dict[str, Any]
Path = tuple[str | int, ...]
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
LABEL_STOPPED = "gangline.dev/stopped-job"
"""Annotation of an owner whose job was ended by us: it is not taken up again before this is removed."""


class Part(Struct, frozen=True):
    """Equal pods of an owner."""

    name: str
    count: int
    template: Spec
    path: Path
    """Where in the object their template is."""
    sizes: tuple[Path, ...] = ()
    """Where their number stands, when it may change while they run."""
    indexes: tuple[int, ...] = ()
    """Their numbers, where those are not the first ones; others are done already."""


class OwnerKind(Struct, frozen=True):
    """One kind of object that makes pods."""

    group_version: str
    plural: str
    name: str
    suspend: tuple[str, ...]
    """Path of the field that keeps its pods from existing."""
    parts: Callable[[Spec], list[Part]]
    part_label: str = ""
    """Label by which a pod says which part it is of."""

    @property
    def suspend_path(self) -> Path:
        """The same as a path like any other."""
        return self.suspend


class Group(Struct, frozen=True):
    """One kind of object that says how many pods belong together; a cluster may serve it in several versions."""

    group_version: str
    plural: str = "podgroups"


def _job(spec: Spec) -> list[Part]:
    """As many at the same time as it has left to complete."""
    count = int(spec.get("parallelism", 1))
    if spec.get("completions") is not None:
        count = min(count, int(spec["completions"]))
    is_fixed = spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism", 1)
    sizes: tuple[Path, ...] = () if is_fixed else (("spec", "parallelism"), ("spec", "completions"))
    return [Part("", count, spec.get("template") or {}, ("spec", "template"), sizes)]


def _job_set(spec: Spec) -> list[Part]:
    found = []
    for number, one in enumerate(spec.get("replicatedJobs") or ()):
        (inner,) = _job(one.get("template", {}).get("spec") or {})
        path = ("spec", "replicatedJobs", number, "template", *inner.path)
        count = inner.count * int(one.get("replicas", 1))
        found.append(Part(one.get("name", ""), count, inner.template, path))
    return found


def _replicas(field: str) -> Callable[[Spec], list[Part]]:
    def parts(spec: Spec) -> list[Part]:
        return [
            Part(
                name.lower(),
                int(one.get("replicas", 1)),
                one.get("template") or {},
                ("spec", field, name, "template"),
                (("spec", field, name, "replicas"),) if name == "Worker" else (),
            )
            for name, one in sorted((spec.get(field) or {}).items())
        ]

    return parts


def _ray(*above: str) -> Callable[[Spec], list[Part]]:
    def parts(spec: Spec) -> list[Part]:
        for step in above:
            spec = spec.get(step) or {}
        head = spec.get("headGroupSpec") or {}
        found = [Part("headgroup", 1, head.get("template") or {}, ("spec", *above, "headGroupSpec", "template"))]
        for number, one in enumerate(spec.get("workerGroupSpecs") or ()):
            path: Path = ("spec", *above, "workerGroupSpecs", number)
            hosts = int(one.get("numOfHosts", 1))
            count = int(one.get("replicas", one.get("minReplicas", 1))) * hosts
            sizes = ((*path, "replicas"),) if hosts == 1 else ()
            found.append(Part(one.get("groupName", ""), count, one.get("template") or {}, (*path, "template"), sizes))
        return found

    return parts


REPLICA_INDEX = "training.kubeflow.org/replica-index"
KUBEFLOW, MPI = "training.kubeflow.org/replica-type", "training.kubeflow.org/job-role"
RUN_POLICY = ("spec", "runPolicy", "suspend")
PLAIN = ("spec", "suspend")
KINDS = (
    OwnerKind("batch/v1", "jobs", "Job", PLAIN, _job),
    OwnerKind(
        "jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet", PLAIN, _job_set, "jobset.sigs.k8s.io/replicatedjob-name"
    ),
    OwnerKind("kubeflow.org/v1", "pytorchjobs", "PyTorchJob", RUN_POLICY, _replicas("pytorchReplicaSpecs"), KUBEFLOW),
    OwnerKind("kubeflow.org/v1", "tfjobs", "TFJob", RUN_POLICY, _replicas("tfReplicaSpecs"), KUBEFLOW),
    # As the training operator serves it, and as the MPI operator does: a cluster has one of them.
    OwnerKind("kubeflow.org/v1", "mpijobs", "MPIJob", RUN_POLICY, _replicas("mpiReplicaSpecs"), KUBEFLOW),
    OwnerKind("kubeflow.org/v2beta1", "mpijobs", "MPIJob", RUN_POLICY, _replicas("mpiReplicaSpecs"), MPI),
    OwnerKind("ray.io/v1", "rayjobs", "RayJob", PLAIN, _ray("rayClusterSpec"), "ray.io/group"),
    OwnerKind("ray.io/v1", "rayclusters", "RayCluster", PLAIN, _ray(), "ray.io/group"),
)


def _replicated(spec: Spec) -> list[Part]:
    return [Part("", int(spec.get("replicas", 1)), spec.get("template") or {}, ("spec", "template"))]


COUNTED = (OwnerKind("apps/v1", "statefulsets", "StatefulSet", (), _replicated),)
"""Kinds that nothing keeps from making pods: they only say how many belong together."""
GROUPS = (
    Group("scheduling.x-k8s.io/v1alpha1"),
    Group("scheduling.volcano.sh/v1beta1"),
    Group("scheduling.run.ai/v2alpha2"),
    Group("scheduling.k8s.io/v1alpha3"),
    Group("scheduling.k8s.io/v1alpha2"),
    Group("scheduling.k8s.io/v1alpha1", "workloads"),
)
"""PodGroups of the coscheduling plugin, Volcano and KAI, which say `spec.minMember`, and the cluster's own."""


def parts_of(kind: OwnerKind, found: OwnerObject) -> list[Part]:
    """The owner's parts that have pods still to run; none when it cannot be read."""
    try:
        parts = kind.parts(found.spec)
        left = _left(parts, found) if kind.name == "Job" else _not_ended(parts, found)
        return [part for part in left if part.count > 0]
    except (TypeError, ValueError, AttributeError, OverflowError):
        return []


def whole_parts(kind: OwnerKind, found: OwnerObject) -> list[Part]:
    """All of the owner's parts, also those whose pods have done their work."""
    return parts_of(kind, replace(found, ended_pods=(), status={}))


def _left(parts: list[Part], found: OwnerObject) -> list[Part]:
    """Of a Job that was stopped half-way, the pods that it will make now."""
    spec, status = found.spec, found.status
    done = int(status.get("succeeded") or 0)
    if not done or spec.get("completions") is None or "gangline.dev/max-size" in found.metadata.annotations:
        return parts
    (part,), wanted = parts, int(spec["completions"])
    most = min(int(spec.get("parallelism", 1)), wanted)
    if spec.get("completionMode") != "Indexed":
        return [replace(part, count=min(most, max(0, wanted - done)))]
    ended = _ranges(str(status.get("completedIndexes") or ""))
    left = [index for index in range(min(wanted, most_of("tasks"))) if index not in ended][:most]
    return [replace(part, count=len(left), indexes=tuple(left))]


def _not_ended(parts: list[Part], found: OwnerObject) -> list[Part]:
    """Parts without the numbers for which there is a pod that has done its work; of elastic owners all."""
    is_elastic = "elasticPolicy" in found.spec or "gangline.dev/max-size" in found.metadata.annotations
    if not found.ended_pods or is_elastic:
        return parts
    left = []
    for part in parts:
        numbers = range(min(part.count, most_of("tasks")))
        rest = tuple(number for number in numbers if f"{part.name.lower()}/{number}" not in found.ended_pods)
        left.append(part if len(rest) == part.count else replace(part, count=len(rest), indexes=rest))
    return left


def _ranges(text: str) -> set[int]:
    """Numbers such as "0,2-4"."""
    found: set[int] = set()
    for one in filter(None, text.split(",")):
        first, _, last = one.partition("-")
        found.update(range(int(first), min(int(last or first), most_of("tasks")) + 1))
    return found


def is_finished(found: OwnerObject) -> bool:
    """True for an owner that says of itself that it makes no pods any more."""
    conditions = found.status.get("conditions")
    ends = ("Complete", "Failed", "Completed", "Succeeded")
    return isinstance(conditions, list) and any(
        isinstance(one, dict) and one.get("type") in ends and one.get("status") == "True" for one in conditions
    )


def is_suspended(kind: OwnerKind, found: OwnerObject) -> bool:
    """True while its pods shall not exist."""
    value: Any = {"spec": found.spec}
    for step in kind.suspend:
        value = value.get(step) if isinstance(value, dict) else None
    return value is True


def wants(kind: OwnerKind, found: OwnerObject, config: Config) -> bool:
    """True for an owner that waits for us: suspended, with a queue's name on it or our scheduler's in its pods."""
    if found.metadata.deletion_timestamp or not is_suspended(kind, found) or is_finished(found):
        return False
    if LABEL_STOPPED in found.metadata.annotations:
        return False
    parts = parts_of(kind, found)
    return bool(parts) and (bool(said(Pod(metadata=found.metadata), QUEUE)) or any(_names_us(parts, config)))


def is_together(kind: OwnerKind, found: OwnerObject) -> bool:
    """True when its pods need each other: of a plain Job only those that are told apart and all run at a time.

    A StatefulSet makes its pods one after the other, each when the one before it is ready, unless it says otherwise.
    """
    spec = found.spec
    if kind.name == "StatefulSet":
        return spec.get("podManagementPolicy") == "Parallel"
    is_indexed = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism", 1)
    return kind.name != "Job" or is_indexed


def is_ours(parts: list[Part], config: Config) -> bool:
    """True when all its pods name our scheduler, and so are bound by us."""
    return all(_names_us(parts, config))


def is_held(parts: list[Part], config: Config) -> bool:
    """True when none of its pods runs without us: those that others bind are made with our gate."""
    return all(names_us(part, config) or has_gate(part) for part in parts)


def _names_us(parts: list[Part], config: Config) -> list[bool]:
    return [names_us(part, config) for part in parts]


def names_us(part: Part, config: Config) -> bool:
    """True for pods that we bind ourselves."""
    return (part.template.get("spec") or {}).get("schedulerName") == config.scheduler_name


def has_gate(part: Part) -> bool:
    """True for pods that nobody looks at before we take our gate off them."""
    gates = (part.template.get("spec") or {}).get("schedulingGates")
    return isinstance(gates, list) and {"name": GATE} in gates


def pods_of(parts: list[Part], found: OwnerObject) -> list[list[Pod]]:
    """The pods it will make, part by part, as far as anybody knows them now.

    Raises:
        msgspec.ValidationError: a template is no pod, or it asks for more of them than a job may have tasks.
    """
    asked = sum(part.count for part in parts)
    if asked > most_of("tasks"):
        raise msgspec.ValidationError(f"asks for {asked} pods; a job may have {most_of('tasks')} tasks")
    made = []
    for part in parts:
        meta, above = part.template.get("metadata") or {}, found.metadata
        pod = Pod(
            metadata=Meta(
                name=above.name,
                namespace=above.namespace,
                labels={**(meta.get("labels") or {}), **above.labels},
                annotations={**(meta.get("annotations") or {}), **above.annotations},
            ),
            spec=msgspec.convert(part.template.get("spec") or {}, PodSpec),
        )
        made.append([pod] * part.count)
    return made


def part_of(kind: OwnerKind, parts: list[Part], pod: Pod) -> int:
    """Number of the part a pod is of; the first when it does not say."""
    word = pod.metadata.labels.get(kind.part_label, "").lower()
    return next((k for k, part in enumerate(parts) if word and part.name.lower() == word), 0)


def index_of(kind: OwnerKind, part: Part, pod: Pod) -> int | None:
    """Which pod of its part it is, when it says so."""
    notes = {**pod.metadata.annotations, **pod.metadata.labels}
    if kind.name == "JobSet":
        job, inner = notes.get("jobset.sigs.k8s.io/job-index"), notes.get(COMPLETION_INDEX)
        replicas = whole(notes.get("jobset.sigs.k8s.io/replicatedjob-replicas", "1") or 1)
        if job is None or inner is None:
            return None
        return whole(job) * (part.count // max(1, replicas)) + whole(inner)
    word = notes.get(COMPLETION_INDEX) or notes.get(REPLICA_INDEX)
    return whole(word) if word else None


def unsuspended(kind: OwnerKind, found: OwnerObject, sizes: dict[int, int] | None = None) -> Spec:
    """A merge patch that lets its pods exist, so many of each part."""
    parts = parts_of(kind, found)
    edits: list[tuple[Path, Any]] = [(kind.suspend_path, False)]
    edits.extend((path, size) for number, size in (sizes or {}).items() for path in parts[number].sizes)
    return changed(found, edits)


def gated(kind: OwnerKind, found: OwnerObject, config: Config) -> Spec:
    """A merge patch by which pods of other schedulers are made with our gate; empty when they are already."""
    edits: list[tuple[Path, Any]] = []
    for part in parts_of(kind, found):
        if not names_us(part, config) and not has_gate(part):
            gates = (part.template.get("spec") or {}).get("schedulingGates") or []
            edits.append(((*part.path, "spec", "schedulingGates"), [*gates, {"name": GATE}]))
    return changed(found, edits) if edits else {}


def changed(found: OwnerObject, edits: list[tuple[Path, Any]]) -> Spec:
    """A merge patch of these fields. A merge replaces lists whole, so a list on the way is sent as it is, changed."""
    whole_spec: Any = msgspec.json.decode(msgspec.json.encode({"spec": found.spec}))
    for path, value in edits:
        holder: Any = whole_spec
        for step in path[:-1]:
            holder = holder.setdefault(step, {}) if isinstance(holder, dict) else holder[int(step)]
        holder[path[-1]] = value
    return {"spec": {field: whole_spec["spec"][field] for field in {path[1]: None for path, _ in edits}}}


def suspension(kind: OwnerKind) -> Spec:
    """A merge patch that keeps its pods from existing."""
    patch: Any = True
    for step in reversed(kind.suspend):
        patch = {step: patch}
    return dict(patch)
