"""How pods of others can be given GPUs that we choose, mode by mode; where they cannot, what would help. Pure.

A pod that exists already takes no new environment and no other claims. So in mode annotation it must take the
variable from an annotation that we set when we bind it, and in mode dra it must use claims, which we then allocate.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gangline_kubernetes.adoption import FOREIGN, FRACTION, GPU_COUNT, SHARE_MEMORY, resources_of
from gangline_kubernetes.config import Config, DeviceMode
from gangline_kubernetes.devices import Claim, ClaimSpec, ClaimTemplate
from gangline_kubernetes.names import NOTE_VISIBLE
from gangline_kubernetes.needs import needs_of
from gangline_kubernetes.objects import Pod, PodClaim, Variable
from gangline_kubernetes.watch import Key

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
FIELD = f"metadata.annotations['{NOTE_VISIBLE}']"
"""What a container of somebody else's pod takes its variable from, in mode annotation."""
REASON = "DevicesNotGiven"

Request = tuple[str, int]
"""Name of a claim's request, and how many GPUs it asks for."""


class Unfit(Struct, frozen=True):
    """Why a pod cannot be given its GPUs here, and what to do about it."""

    message: str
    is_for_now: bool = False
    """True when something that it names may still come."""


def fitted(
    pod: Pod, config: Config, claims: Mapping[Key, Claim], templates: Mapping[Key, ClaimTemplate]
) -> Pod | Unfit:
    """The pod with the number of GPUs that its claims ask for, or why it cannot be given any."""
    asked, needs = resources_of(pod, config.gpu_resource), needs_of(pod)
    if (shared := _shared(pod, config)) is not None:
        return shared
    is_ours = pod.spec.scheduler_name == config.scheduler_name
    if not is_ours and config.mode is not DeviceMode.COUNT and (pod.spec.resource_claims or asked.gpu_milli):
        # Whoever binds it gives out what the device plugin counts, and nothing else.
        return Unfit(
            f"mode {config.mode.value} gives GPUs only to pods that name schedulerName {config.scheduler_name}"
        )
    by_plugin = [config.gpu_resource] if needs.get(config.gpu_resource) else []
    wants_gpus = bool(asked.gpu_milli or asked.gpu_memory_mib)
    if config.mode is DeviceMode.DRA:
        if wants_gpus:
            what = by_plugin[0] if by_plugin else "an annotation"
            return Unfit(
                f"mode dra gives GPUs through ResourceClaims: ask for devices of class {config.device_class}"
                f" in spec.resourceClaims instead of {what}"
            )
        return _claiming(pod, config, claims, templates)
    if pod.spec.resource_claims:
        return Unfit(f"mode {config.mode.value} allocates no ResourceClaims: ask for {config.gpu_resource} instead")
    if not wants_gpus:
        return pod
    if config.mode is DeviceMode.COUNT:
        if by_plugin:
            return pod
        return Unfit(f"mode count leaves the choice to the device plugin: ask for {config.gpu_resource}")
    if by_plugin:
        return Unfit(
            f"mode annotation has no device plugin: say {GPU_COUNT[0]} in an annotation instead of {by_plugin[0]},"
            f" and take {VISIBLE_DEVICES} from the field {FIELD}"
        )
    if not any(_takes(one.env) for one in pod.spec.containers):
        return Unfit(f"mode annotation: a container has to take {VISIBLE_DEVICES} from the field {FIELD}")
    return pod


def fitted_parts(
    parts: Sequence[Sequence[Pod]],
    config: Config,
    *,
    claims: Mapping[Key, Claim],
    templates: Mapping[Key, ClaimTemplate],
) -> list[list[Pod]] | Unfit:
    """The same for the pods that an owner will make, part by part."""
    found = [fitted(one, config, claims, templates) for (one, *_) in parts]
    unfit = next((one for one in found if isinstance(one, Unfit)), None)
    fits = [one for one in found if isinstance(one, Pod)]
    return unfit or [[one] * len(part) for one, part in zip(fits, parts, strict=True)]


def _shared(pod: Pod, config: Config) -> Unfit | None:
    """Why a resource of another scheduler is not given out: its device plugin would choose the card."""
    needs = needs_of(pod)
    name = next((one for one in FOREIGN if needs.get(one)), None)
    if name is None:
        return None
    return Unfit(f"{name} is given only by the scheduler that it belongs to: {_instead(config)}")


def _instead(config: Config) -> str:
    """What gives a part of a GPU here."""
    if config.mode is DeviceMode.ANNOTATION:
        words = f"{FRACTION[0]} or {SHARE_MEMORY[0]}"
        return f"say {words} in an annotation, and take {VISIBLE_DEVICES} from the field {FIELD}"
    return f"mode {config.mode.value} gives whole GPUs only; fractions need mode annotation"


def _takes(variables: Sequence[Variable]) -> bool:
    """True for a container whose GPUs are those that we name."""
    sources = (one.value_from for one in variables if one.name == VISIBLE_DEVICES)
    return any(one is not None and one.field_ref is not None and one.field_ref.field_path == FIELD for one in sources)


def _claiming(
    pod: Pod, config: Config, claims: Mapping[Key, Claim], templates: Mapping[Key, ClaimTemplate]
) -> Pod | Unfit:
    gpus = 0
    for one in pod.spec.resource_claims:
        found = _spec(pod, one, claims, templates)
        requests = found if isinstance(found, Unfit) else requests_of(found, config)
        if isinstance(requests, Unfit):
            return replace(requests, message=f"claim {one.name}: {requests.message}")
        gpus += sum(count for _, count in requests)
    if not gpus:
        return pod
    notes = {**pod.metadata.annotations, GPU_COUNT[0]: str(gpus)}
    return replace(pod, metadata=replace(pod.metadata, annotations=notes))


def _spec(
    pod: Pod, one: PodClaim, claims: Mapping[Key, Claim], templates: Mapping[Key, ClaimTemplate]
) -> ClaimSpec | Unfit:
    namespace = pod.metadata.namespace
    if one.resource_claim_template_name:
        template = templates.get((namespace, one.resource_claim_template_name))
        missing = f"there is no ResourceClaimTemplate {one.resource_claim_template_name} yet"
        return template.spec.spec if template is not None else Unfit(missing, is_for_now=True)
    claim = claims.get((namespace, one.resource_claim_name or ""))
    if claim is None:
        return Unfit(f"there is no ResourceClaim {one.resource_claim_name} yet", is_for_now=True)
    if claim.status.allocation is not None and claim.pods != (pod.metadata.uid,):
        return Unfit("somebody else has allocated it; a claim that several pods share is for the usual scheduler")
    return claim.spec


def requests_of(spec: ClaimSpec, config: Config) -> list[Request] | Unfit:
    """So many GPUs for each request of a claim; only what we can promise: whole numbers of devices of our class."""
    found: list[Request] = []
    for one in spec.devices.requests:
        wants = one.wants
        if wants is None or one.first_available:
            return Unfit("only requests with `exactly` are understood")
        if wants.device_class_name != config.device_class:
            return Unfit(f"devices of class {wants.device_class_name} are not given out here")
        if wants.allocation_mode not in ("", "ExactCount") or wants.selectors or wants.admin_access or wants.capacity:
            return Unfit("only an exact count without selectors, capacity or admin access is understood")
        found.append((one.name, wants.count))
    if spec.devices.constraints:
        return Unfit("constraints between devices are not understood")
    return found


def claim_names(pod: Pod) -> list[str] | None:
    """Names of the claims that a pod uses; None while one that is made for it is not there."""
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    names: list[str] = []
    for one in pod.spec.resource_claims:
        if one.resource_claim_name:
            names.append(one.resource_claim_name)
        elif one.name not in made:
            return None
        elif (name := made[one.name]) is not None:
            names.append(name)
    return names
