"""Devices that drivers offer, and claims on them, as far as we read them."""

from typing import Any

import msgspec
from msgspec import Struct

from gangline_kubernetes.objects import Meta


class Driver(Struct, frozen=True):
    """A device's attribute: exactly one of the fields is there."""

    string: str = ""
    number: int = msgspec.field(name="int", default=0)
    version: str = ""


class Quantity(Struct, frozen=True):
    """An amount a device has."""

    value: Any = "0"


class DeviceTaint(Struct, frozen=True):
    """What a driver says against a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceChoice(Struct, frozen=True, rename="camel"):
    """Which devices a rule is about: those that fit all that is said."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class RuleSpec(Struct, frozen=True, rename="camel"):
    """A taint from outside, for the devices chosen; without a choice for none."""

    device_selector: DeviceChoice | None = None
    taint: DeviceTaint = DeviceTaint()


class TaintRule(Struct, frozen=True):
    """A DeviceTaintRule: what an administrator, or a controller, says against devices."""

    metadata: Meta
    spec: RuleSpec = RuleSpec()


class Told(Struct, frozen=True, rename="camel"):
    """What is said of a device."""

    attributes: dict[str, Driver] = {}
    capacity: dict[str, Quantity] = {}
    taints: tuple[DeviceTaint, ...] = ()
    consumes_counters: tuple[Any, ...] = ()


class Device(Told, frozen=True, rename="camel"):
    """One device of a slice."""

    name: str = ""
    basic: Told | None = None
    """Where v1beta1 says all of it."""

    @property
    def told(self) -> Told:
        """What is said of it, in whichever version."""
        return self if self.basic is None else self.basic


class SlicePool(Struct, frozen=True, rename="camel"):
    """The pool of devices a slice belongs to."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Struct, frozen=True, rename="camel"):
    """Devices that a driver offers on a node."""

    driver: str = ""
    node_name: str = ""
    pool: SlicePool = SlicePool()
    devices: tuple[Device, ...] = ()


class ResourceSlice(Struct, frozen=True):
    """A slice of a node's devices."""

    metadata: Meta
    spec: SliceSpec = SliceSpec()


class Result(Struct, frozen=True, rename="camel", gc=False):
    """A device that a claim holds."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class Results(Struct, frozen=True):
    """Devices that a claim holds."""

    results: tuple[Result, ...] = ()


class Allocation(Struct, frozen=True):
    """What was given to a claim."""

    devices: Results = Results()


class Consumer(Struct, frozen=True, gc=False):
    """Who may use a claim."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(Struct, frozen=True, rename="camel"):
    """What became of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class Exactly(Struct, frozen=True, rename="camel"):
    """So many devices of a class."""

    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    selectors: tuple[Any, ...] = ()
    capacity: dict[str, Any] | None = None


class DeviceRequest(Exactly, frozen=True, rename="camel"):
    """One request of a claim; v1beta1 says in it what later versions say under `exactly`."""

    name: str = ""
    exactly: Exactly | None = None
    first_available: tuple[Any, ...] = ()

    @property
    def wants(self) -> Exactly | None:
        """What it asks for, in whichever version; None for a choice of several."""
        return self if self.exactly is None and self.device_class_name else self.exactly


class DeviceRequests(Struct, frozen=True):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Any, ...] = ()


class ClaimSpec(Struct, frozen=True):
    """What a claim asks for."""

    devices: DeviceRequests = DeviceRequests()


class Claim(Struct, frozen=True):
    """A ResourceClaim."""

    metadata: Meta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def devices(self) -> tuple[Result, ...]:
        """Devices that nobody else may have while it holds them; looking after devices takes none."""
        held = self.status.allocation.devices.results if self.status.allocation is not None else ()
        return tuple(one for one in held if not one.admin_access)

    @property
    def pods(self) -> tuple[str, ...]:
        """Uids of the pods that use it, or for which it was made."""
        used = tuple(one.uid for one in self.status.reserved_for if one.resource == "pods")
        return used or self.metadata.pods_above


class TemplateSpec(Struct, frozen=True):
    """What the claims of a template are like."""

    spec: ClaimSpec = ClaimSpec()


class ClaimTemplate(Struct, frozen=True):
    """A ResourceClaimTemplate."""

    metadata: Meta
    spec: TemplateSpec = TemplateSpec()
