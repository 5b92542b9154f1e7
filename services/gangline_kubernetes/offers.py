"""The GPUs that a driver publishes in ResourceSlices, and the number that each keeps for good: pure."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Gpu
from gangline_kubernetes.claims import Place
from gangline_kubernetes.devices import Device, DeviceTaint, ResourceSlice, TaintRule
from gangline_kubernetes.names import LABEL_MODEL, UNKNOWN_MODEL
from gangline_kubernetes.quantities import mebibytes

NOT_OFFERED = "its driver does not offer it any more"
KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
WHOLE = "gpu"
"""The type of a device that is a whole card; slices of cards have types of their own."""


class Offer(Struct, frozen=True):
    """One whole GPU that a driver offers."""

    place: Place
    model: str
    memory_mib: int
    uuid: str
    socket: int
    problem: str
    """Why nothing new may be put there, when the driver says so."""


def complete(slices: Iterable[ResourceSlice]) -> dict[str, tuple[Offer, ...] | None]:
    """The GPUs of each pool's newest generation; None for a pool of which slices are still to come."""
    pools: dict[str, list[ResourceSlice]] = {}
    for one in slices:
        held = pools.setdefault(one.spec.pool.name, [])
        if held and held[0].spec.pool.generation < one.spec.pool.generation:
            held.clear()
        if not held or held[0].spec.pool.generation == one.spec.pool.generation:
            held.append(one)
    return {
        pool: tuple(_offer(pool, device) for one in held for device in one.spec.devices if _is_whole(device))
        if len(held) >= max(one.spec.pool.resource_slice_count for one in held)
        else None
        for pool, held in pools.items()
    }


def ruled(offers: Iterable[Offer], rules: Iterable[TaintRule], driver: str) -> tuple[Offer, ...]:
    """The offers with what rules from outside say against them; the first by name is told.

    A rule that says by an expression, or by a class, which devices it means is taken to mean all others fit it, too: a
    device too few is given out rather than one too many.
    """
    known = sorted((one for one in rules if one.spec.taint.effect in KEEPS_AWAY), key=lambda one: one.metadata.name)
    return tuple(_ruled(one, known, driver) for one in offers)


def _ruled(offer: Offer, rules: Sequence[TaintRule], driver: str) -> Offer:
    if offer.problem:
        return offer
    for rule in rules:
        chosen = rule.spec.device_selector
        if chosen is None:
            continue
        pool, device = offer.place
        if chosen.driver in (None, driver) and chosen.pool in (None, pool) and chosen.device in (None, device):
            said = f"{_said(rule.spec.taint)} ({rule.spec.taint.effect})"
            return replace(offer, problem=f"tainted by rule {rule.metadata.name}: {said}")
    return offer


def _said(taint: DeviceTaint) -> str:
    return f"{taint.key}={taint.value}" if taint.value else taint.key


def _is_whole(device: Device) -> bool:
    """A card as such, and not a part of one or one that parts may be taken of."""
    kind = next(
        (value.string for name, value in device.told.attributes.items() if name.rpartition("/")[2] == "type"), WHOLE
    )
    return kind == WHOLE and not device.told.consumes_counters


def _offer(pool: str, device: Device) -> Offer:
    told = device.told
    attributes = {name.rpartition("/")[2]: value for name, value in told.attributes.items()}
    capacity = {name.rpartition("/")[2]: value for name, value in told.capacity.items()}
    taint = next((one for one in told.taints if one.effect in KEEPS_AWAY), None)
    return Offer(
        place=(pool, device.name),
        model=attributes["productName"].string if "productName" in attributes else "",
        memory_mib=mebibytes(capacity["memory"].value) if "memory" in capacity else 0,
        uuid=attributes["uuid"].string if "uuid" in attributes else "",
        socket=attributes["numaNode"].number if "numaNode" in attributes else 0,
        problem=f"tainted by its driver: {_said(taint)} ({taint.effect})" if taint is not None else "",
    )


def numbers_of(
    offers: Sequence[Offer], known: Sequence[Gpu], remembered: Mapping[Place, int] | None = None
) -> dict[Place, int]:
    """Number of each device, offered now or known to the log: what the log has stands, and new ones get new numbers.

    Tasks hold numbers, so a number means one device for as long as the log has it. `remembered` are numbers that were
    given before, of devices that the log does not have now, such as those that claims of others hold.
    """
    found = {place_of(gpu): gpu.index for gpu in known if gpu.device}
    # A log that was written before devices were named knows some by their uuid.
    unnamed = {gpu.uuid: gpu.index for gpu in known if gpu.uuid and not gpu.device}
    for one in offers:
        if one.uuid in unnamed:
            found.setdefault(one.place, unnamed[one.uuid])
    taken = set(found.values())
    for place, number in (remembered or {}).items():
        if place not in found and number not in taken:
            found[place] = number
            taken.add(number)
    for one in sorted(offers, key=lambda one: (len(one.place[1]), one.place[1], one.place[0])):
        if one.place not in found:
            found[one.place] = next(k for k in range(len(taken) + 1) if k not in taken)
            taken.add(found[one.place])
    return found


def place_of(gpu: Gpu) -> Place:
    """Pool and name of the device that a GPU of the log is."""
    pool, _, name = gpu.device.rpartition("/")
    return pool, name


def gpus_of(
    offers: Sequence[Offer], known: Sequence[Gpu], numbers: Mapping[Place, int], labels: Mapping[str, str]
) -> tuple[Gpu, ...]:
    """The offered GPUs, and those of the log that left their pool: these keep their number and take nothing new."""
    found = [_gpu(numbers[one.place], one, labels) for one in offers]
    there = {one.place for one in offers}
    found.extend(
        replace(as_offered(gpu), healthy=False, problem=NOT_OFFERED, driver_problem=NOT_OFFERED)
        for gpu in known
        if gpu.device and place_of(gpu) not in there
    )
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def as_offered(gpu: Gpu) -> Gpu:
    """A GPU of the log without what telemetry holds against it."""
    return replace(gpu, healthy=not gpu.driver_problem, problem=gpu.driver_problem, suspect="")


def offer_of(gpu: Gpu) -> Offer:
    """A GPU of the log as its driver offered it last."""
    return Offer(
        place=place_of(gpu),
        model=gpu.model,
        memory_mib=gpu.memory_mib,
        uuid=gpu.uuid,
        socket=gpu.socket,
        problem=gpu.driver_problem,
    )


def _gpu(index: int, offer: Offer, labels: Mapping[str, str]) -> Gpu:
    model = labels.get(LABEL_MODEL) or offer.model
    return Gpu(
        index=index,
        model=model.replace(" ", "-") or UNKNOWN_MODEL,
        memory_mib=offer.memory_mib,
        uuid=offer.uuid,
        socket=offer.socket,
        healthy=not offer.problem,
        problem=offer.problem,
        device="/".join(offer.place),
        driver_problem=offer.problem,
    )
