"""What a pod says about the task it is: how far it has come, and why it ended. Pure."""

from msgspec import Struct

from gangline_core.facts import ExitCause
from gangline_kit.carrying.known import Local, Phase
from gangline_kubernetes.names import Mark
from gangline_kubernetes.objects import ContainerStatus, Pod

UNKNOWN_CODE = -1

REFUSED_PREFIXES = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "Topology", "NodeUnschedulable")
"""Reasons by which a kubelet turns a bound pod away before anything of it ran."""
MOVED = frozenset({"Evicted", "Preempting", "Terminated", "NodeShutdown", "NodeLost", "Shutdown"})
"""Reasons of an end that the task is not to blame for."""
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
"""Reasons of containers that the runtime could not start, although they count as ended."""
NOT_FOUND_AGAIN = "ContainerStatusUnknown"
"""Reason of an end that nobody saw, as the machine was started anew: the exit code is made up."""
OF_THE_NODE = (
    "nvidia-container-cli",
    "cdi device",
    "no space left on device",
    "read-only file system",
    "input/output error",
    "cannot allocate memory",
    "too many open files",
    "resource temporarily unavailable",
)
"""What runtimes say, in lower case, where it is the machine that cannot start a container."""
OF_THE_IMAGE = "requirement error"
"""What they say, among the same words, where the image asks for another driver."""
HOPELESS = frozenset({"InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull"})
"""Waiting reasons that no patience helps against, as far as anybody knows."""
WAITS = frozenset({"ErrImagePull", "ImagePullBackOff", *HOPELESS})


class Stuck(Struct, frozen=True):
    """Why a container does not start."""

    reason: str
    message: str


def local_of(pod: Pod, mark: Mark, *, stopping: ExitCause | None) -> Local:
    """The task as its pod shows it; `stopping` is the cause when we asked it to stop."""
    statuses = pod.status.container_statuses
    started = any(one.state.running is not None or _has_run(one) for one in statuses)
    if not pod.is_over and pod.metadata.is_gone:
        return vanished(_as_running(mark, started=started), stopping=stopping)
    if not pod.is_over:
        phase = Phase.RUNNING if started else Phase.STARTING
        return Local(
            task=mark.task,
            placed_ms=mark.placed_ms,
            phase=phase,
            pid=int(started),
            started=started,
            silent=True,
            pod=_name_of(pod),
        )
    cause, error = _cause(pod, started=started, stopping=stopping)
    return Local(
        task=mark.task,
        placed_ms=mark.placed_ms,
        phase=Phase.EMPTY,
        pid=int(started),
        started=started,
        cause=cause,
        exit_code=exit_code(statuses) if started else None,
        error=error,
        silent=True,
        pod=_name_of(pod),
    )


def _has_run(status: ContainerStatus) -> bool:
    return status.state.terminated is not None and status.state.terminated.reason not in NEVER_RAN


def is_of_the_node(message: str) -> bool:
    """True for words of a runtime that say nothing of the job: on another machine it would start."""
    said = message.lower()
    return any(word in said for word in OF_THE_NODE) and OF_THE_IMAGE not in said


def _name_of(pod: Pod) -> str:
    """As other exporters' metrics name it: namespace, pod and container, the first that has GPUs, else the first."""
    containers = pod.spec.containers
    with_gpus = (one.name for one in containers if any("gpu" in name for name in one.resources.limits))
    container = next(with_gpus, containers[0].name if containers else "")
    return "/".join((pod.metadata.namespace, pod.metadata.name, container))


def _as_running(mark: Mark, *, started: bool) -> Local:
    return Local(task=mark.task, placed_ms=mark.placed_ms, phase=Phase.RUNNING, pid=int(started), started=started)


def vanished(local: Local, *, stopping: ExitCause | None) -> Local:
    """The task of a pod that is gone without having said how it ended."""
    cause = stopping or ExitCause.PROCESS_LOST
    error = "" if stopping else "its pod was deleted"
    return Local(
        task=local.task,
        placed_ms=local.placed_ms,
        phase=Phase.EMPTY,
        pid=local.pid,
        started=local.started,
        cause=cause,
        error=error,
        silent=True,
    )


def _cause(pod: Pod, *, started: bool, stopping: ExitCause | None) -> tuple[ExitCause, str]:
    reason, message = pod.status.reason, pod.status.message
    if stopping is not None:
        return stopping, ""
    if reason == "DeadlineExceeded":
        return ExitCause.TIME_LIMIT, ""
    if not started and reason.startswith(REFUSED_PREFIXES):
        return ExitCause.PLACE_REFUSED, f"{reason}: {message}"
    if reason in MOVED or _is_disrupted(pod):
        return ExitCause.PROCESS_LOST, f"{reason}: {message}" if reason else "its pod was evicted"
    if pod.metadata.deletion_timestamp and pod.status.phase == "Failed":
        return ExitCause.PROCESS_LOST, "its pod was deleted"
    ends = [one.state.terminated for one in pod.status.container_statuses if one.state.terminated is not None]
    if any(end.reason == NOT_FOUND_AGAIN for end in ends):
        return ExitCause.PROCESS_LOST, "its container was not found again"
    if not started and pod.status.phase == "Failed":
        said = next((end for end in ends if end.reason in NEVER_RAN), pod.status)
        error = f"{said.reason}: {said.message}"
        return ExitCause.PLACE_REFUSED if is_of_the_node(error) else ExitCause.START_FAILED, error
    return ExitCause.EXITED, ""


def _is_disrupted(pod: Pod) -> bool:
    return any(one.type == "DisruptionTarget" and one.status == "True" for one in pod.status.conditions)


def exit_code(statuses: tuple[ContainerStatus, ...]) -> int:
    """The first exit code that is not 0, else 0; unknown when no container told one."""
    codes = [one.state.terminated.exit_code for one in statuses if one.state.terminated is not None]
    return next((code for code in codes if code), 0) if codes else UNKNOWN_CODE


def stuck(pod: Pod) -> Stuck | None:
    """Why the pod's containers do not start, when the kubelet says so."""
    for one in pod.status.container_statuses:
        waiting = one.state.waiting
        if waiting is not None and waiting.reason in WAITS:
            return Stuck(reason=waiting.reason, message=waiting.message)
    return None


def unbound(pod: Pod) -> Stuck:
    """Why a pod that another scheduler shall bind has no node yet, in that scheduler's words where it said any."""
    said = next((one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False"), None)
    message = f"{pod.spec.scheduler_name} did not bind pod {pod.metadata.name}"
    return Stuck(
        reason="Unbound", message=f"{message}: {said.message}" if said is not None and said.message else message
    )
