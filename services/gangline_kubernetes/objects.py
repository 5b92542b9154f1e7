"""Kubernetes objects as far as we read them: structs of the needed fields, so that thousands decode in milliseconds."""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct


class Owner(Struct, frozen=True, rename="camel", gc=False):
    """A reference to the object this one belongs to."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Meta(Struct, frozen=True, rename="camel"):
    """What every object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Owner, ...] = ()
    creation_timestamp: str | None = None
    """Null in bookmarks, and in templates."""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def pods_above(self) -> tuple[str, ...]:
        """Uids of the pods it belongs to."""
        return tuple(one.uid for one in self.owner_references if one.kind == "Pod")

    @property
    def is_gone(self) -> bool:
        """True when only a finalizer keeps the object: its kubelet is done with it, or somebody forced it away."""
        return self.deletion_timestamp is not None and self.deletion_grace_period_seconds == 0


class Condition(Struct, frozen=True, rename="camel"):
    """One condition of a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Requirements(Struct, frozen=True):
    """What a container asks for."""

    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}


class FieldPath(Struct, frozen=True, rename="camel", gc=False):
    """A field of the pod by which a variable is filled in."""

    field_path: str = ""


class Source(Struct, frozen=True, rename="camel"):
    """Where a variable's value comes from."""

    field_ref: FieldPath | None = None


class Variable(Struct, frozen=True, rename="camel"):
    """One variable of a container, by name and source; plain values are of no interest."""

    name: str = ""
    value_from: Source | None = None


class Port(Struct, frozen=True, rename="camel", gc=False):
    """A port of a container; 0 takes none of its node."""

    host_port: int = 0
    protocol: str = "TCP"


class Container(Struct, frozen=True, rename="camel"):
    """One container of a pod."""

    name: str = ""
    resources: Requirements = Requirements()
    env: tuple[Variable, ...] = ()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""
    """"Always" on an init container makes it run beside the others."""


class Named(Struct, frozen=True):
    """An entry that is told by its name."""

    name: str = ""


class PodToleration(Struct, frozen=True):
    """A taint a pod accepts."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class PodClaim(Struct, frozen=True, rename="camel", gc=False):
    """A claim that a pod uses, under the pod's own word for it: an object, or one that is made for it."""

    name: str = ""
    resource_claim_name: str | None = None
    """In a pod's status, null where no claim was made."""
    resource_claim_template_name: str | None = None


class SchedulingGroup(Struct, frozen=True, rename="camel", gc=False):
    """The cluster's own PodGroup that a pod belongs to."""

    pod_group_name: str = ""


class WorkloadRef(Struct, frozen=True, rename="camel", gc=False):
    """The same as it was said before there were PodGroups: a part of a Workload."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(Struct, frozen=True, rename="camel"):
    """What a pod asks for, and where it is."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Requirements = Requirements()
    overhead: dict[str, Any] = {}
    scheduling_gates: tuple[Named, ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[PodToleration, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    """"Never" has nobody make way for the pod."""
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    resource_claims: tuple[PodClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    affinity: dict[str, Any] | None = None
    topology_spread_constraints: tuple[dict[str, Any], ...] | None = None
    volumes: tuple[dict[str, Any], ...] | None = None


class Waiting(Struct, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Terminated(Struct, frozen=True, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Struct, frozen=True):
    """One of the three is there."""

    waiting: Waiting | None = None
    running: dict[str, Any] | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    """A container as the kubelet sees it."""

    name: str = ""
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, rename="camel"):
    """A pod as the kubelet sees it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodClaim, ...] = ()
    """Claims that were made for it."""


class Pod(Struct, frozen=True):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """True when all of its containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        """True when its containers run and say that they do their work."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)


class NodeTaint(Struct, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, rename="camel"):
    """What administrators say of a node."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class Address(Struct, frozen=True):
    """Where a node is reached."""

    type: str = ""
    address: str = ""


class NodeStatus(Struct, frozen=True):
    """A node as its kubelet describes it."""

    allocatable: dict[str, Any] = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[Address, ...] = ()


class KubeNode(Struct, frozen=True):
    """A node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """True when its kubelet said so lately."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)


class Namespace(Struct, frozen=True):
    """A namespace, whose annotations say whose jobs are in it."""

    metadata: Meta


class PriorityClass(Struct, frozen=True, rename="camel"):
    """A name for a priority."""

    metadata: Meta
    value: int = 0
    global_default: bool = False
    """True for the one that pods have which name none."""
    preemption_policy: str = ""
    """Of its pods; as there."""


class JobObject(Struct, frozen=True):
    """A Job of ours: its spec is a job file, whose fields the wire reads."""

    metadata: Meta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


T = TypeVar("T")


class SettingObject(Struct, frozen=True):
    """A Group, Pool or PolicyConfig of ours."""

    metadata: Meta
    kind: str = ""
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class OwnerObject(Struct, frozen=True):
    """An object of somebody else's kind that makes pods, or says how many of them belong together."""

    metadata: Meta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    ended_pods: tuple[str, ...] = ()
    """Part and number of pods that are there and have done their work; not said by the server, but by its pods."""


class ListMeta(Struct, frozen=True, rename="camel"):
    """What a list says of itself."""

    resource_version: str = ""
    next: str = msgspec.field(name="continue", default="")


class Listed(Struct, Generic[T], frozen=True):
    """A page of a list."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None
    """Some servers say null for none."""


class Event(Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Mark(Struct, frozen=True):
    """What a bookmark carries."""

    metadata: Meta


class Failure(Struct, frozen=True):
    """A Status object."""

    message: str = ""
    reason: str = ""
    code: int = 0
