"""Whose job an object is: the namespace says it, since who may write there may write anything in the object. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.door.arrays import lookup
from gangline_core.groups import ancestors
from gangline_core.spec import PODS, JobSpec
from gangline_core.state import State
from gangline_kubernetes.config import Config
from gangline_kubernetes.names import LABEL_CLUSTER, NOTE_GROUP, NOTE_USER
from gangline_kubernetes.objects import Meta, Namespace
from gangline_wire.bounds import beyond

LABEL_NAMESPACE = "gangline.dev/namespace"
LABEL_NAME = "gangline.dev/name"
LABEL_UID = "gangline.dev/uid"
LABEL_PODS = PODS
"""Uids of the pods of an adopted job, in the order of its roles and their members."""

LABEL_OWNER = "gangline.dev/owner"
"""Label of a job that is the pods of somebody else's object: that object's uid."""
LABEL_KIND = "gangline.dev/owner-kind"
LABEL_KEPT = "gangline.dev/kept-by-budget"
"""Label of a job that a disruption budget keeps from being preempted now; without it, it could be."""
LABEL_GANG = "gangline.dev/gang-of"
"""Name of the gang that an adopted job's pods are."""


class Fault(Struct, frozen=True):
    """Why an object's job may not be submitted."""

    field: str
    message: str


def owned(spec: JobSpec, meta: Meta, namespace: Namespace | None, config: Config) -> JobSpec | Fault:
    """The job with the group and user of its namespace, or why it may not be theirs.

    A job may name a group below its namespace's; it may name no other user. Pods and owners say numbers that no job
    file could: those beyond the limits are refused here, before they are counted with.
    """
    group, user = _theirs(namespace, config)
    if not group and (namespace is None or NOTE_GROUP not in namespace.metadata.annotations):
        return Fault("group", f"namespace {meta.namespace} has no annotation {NOTE_GROUP}, so its jobs have no group")
    if spec.group and spec.group != group and not spec.group.startswith(f"{group}/" if group else ""):
        return Fault("group", f"namespace {meta.namespace} may submit to group {group} and below, not to {spec.group}")
    if spec.user and spec.user != user:
        return Fault("user", f"jobs of namespace {meta.namespace} are of user {user}, not of {spec.user}")
    if (fault := beyond(spec)) is not None:
        return Fault(fault[0], f"{fault[0]} {fault[1]}")
    marks = {LABEL_NAMESPACE: meta.namespace, LABEL_NAME: meta.name, LABEL_UID: meta.uid}
    labels = {key: value for key, value in spec.labels.items() if not key.startswith("gangline.dev/")}
    mine = at_home(spec, config)
    return replace(mine, name=spec.name or meta.name, group=spec.group or group, user=user, labels={**labels, **marks})


def at_home(spec: JobSpec, config: Config) -> JobSpec:
    """The job on nodes of this cluster only: elsewhere its object owns no pod, and members do not find each other."""
    here = {LABEL_CLUSTER: config.cluster}
    roles = tuple(
        role if role.node_selector is None else replace(role, node_selector={**role.node_selector, **here})
        for role in spec.roles
    )
    return replace(spec, roles=roles, node_selector={**spec.node_selector, **here})


def hidden(state: State, spec: JobSpec, namespace: Namespace | None, config: Config) -> tuple[int, ...]:
    """Numbers that a job of the namespace follows although they are no jobs of its user, in its group or below.

    Whoever could follow others' jobs would be told by the object's status how these ended. One that we do not know
    (yet) is nobody's.
    """
    group, user = _theirs(namespace, config)
    followed = sorted({one.job for one in spec.after})
    known = ((number, lookup(state, number)) for number in followed)
    return tuple(
        number
        for number, job in known
        if job is None or job.spec.user != user or group not in ancestors(job.spec.group)
    )


def _theirs(namespace: Namespace | None, config: Config) -> tuple[str, str]:
    """The group and the user of a namespace's jobs."""
    notes = namespace.metadata.annotations if namespace is not None else {}
    return notes.get(NOTE_GROUP, config.group), notes.get(NOTE_USER, config.user)
