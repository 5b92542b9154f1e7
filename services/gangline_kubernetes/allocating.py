"""Giving ResourceClaims their devices, in mode dra: nobody else may have them, before our write and after it.

The API server does not look whether a device is allocated twice. So we look ourselves: at what all claims hold before
we write, and again when the watch has told our own write, which is after everything that was written before it. What
another scheduler writes later, without having looked, is found by the inventory (`Carrier.contest`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from gangline_kit.carrying.known import Order
from gangline_kubernetes import manifests
from gangline_kubernetes.api import MERGE, Api, RefusedError, path_of
from gangline_kubernetes.claims import Claims, Place
from gangline_kubernetes.config import Config
from gangline_kubernetes.devices import Claim
from gangline_kubernetes.handing import Request, Unfit, requests_of
from gangline_kubernetes.names import MANAGER
from gangline_kubernetes.objects import Meta
from gangline_kubernetes.shallow import read

PROTECTED = "resource.kubernetes.io/delete-protection"
"""With this finalizer the cluster's own controller keeps a claim until it is given back."""
TRIES_MAX = 5
"""So often a claim is read anew at once, when somebody changed it between our reading and our writing."""


class Share(Struct, frozen=True):
    """What one claim of a task's pod gets."""

    claim: Claim
    results: tuple[tuple[str, Place], ...]
    """Request of the claim, and the device for it."""


class Allocator:
    """Gives claims their devices and takes them back; safe to be asked twice, as answers may be lost."""

    def __init__(self, api: Api, config: Config, claims: Claims) -> None:
        """Write through this API; `claims` say what everybody holds."""
        self._api = api
        self._config = config
        self._claims = claims
        self._claim = msgspec.json.Decoder(Claim)

    async def make(self, order: Order, pod: Meta) -> Claim:
        """The claim of a pod that we made, or the one that an earlier try has made."""
        body = manifests.claim(order, self._config, pod, version=self._claims.version)
        path = path_of(self._claims.version, "resourceclaims", namespace=pod.namespace)
        try:
            made = await self._api.call("POST", path, body)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            made = await self._api.call("GET", f"{path}/{pod.name}")
        found = read(self._claim, made)
        if pod.uid not in found.metadata.pods_above:
            raise RefusedError(409, "Conflict", f"a ResourceClaim of somebody else is called {pod.name}")
        return found

    async def give(self, order: Order, pod: Meta, claims: Sequence[Claim], devices: dict[int, Place]) -> None:
        """Give the pod's claims the devices behind the task's GPUs.

        Raises:
            RefusedError: somebody else has one of them, or one of the claims.
        """
        missing = [share.index for share in order.task.gpus if share.index not in devices]
        if missing:
            raise RefusedError(409, "Conflict", f"the node's slices have no device for GPU {missing[0]}")
        places = [devices[share.index] for share in order.task.gpus]
        self._claims.pods[pod.uid] = order.task.id
        wanted = dict(zip(places, order.task.gpus, strict=True))
        await self._claims.free(wanted, pod.uid)
        for share in _shares(claims, places, self._config):
            version = await self._allocate(share, order, pod)
            await self._claims.reached(version)
        await self._claims.free(wanted, pod.uid)

    async def _allocate(self, share: Share, order: Order, pod: Meta) -> str:
        """Write one claim's devices and its pod; gives the version of that write."""
        claim = share.claim
        for _ in range(TRIES_MAX):
            if self._is_done(share, claim, pod):
                return claim.metadata.resource_version
            try:
                if claim.status.allocation is not None:
                    # What a try before us gave it on another node; nobody uses that, as the pod is not bound.
                    claim = await self._write_status(claim, {"allocation": None, "reservedFor": None})
                if claim.metadata.labels.get("app.kubernetes.io/managed-by") != MANAGER:
                    claim = await self._changed(claim, [*claim.metadata.finalizers, PROTECTED])
                status = manifests.allocation(self._config.device_class, share.results, order.task.node, pod)
                return (await self._write_status(claim, status)).metadata.resource_version
            except RefusedError as error:
                if error.code != 409:
                    raise
            claim = await self._read(claim.metadata)
        raise RefusedError(409, "Conflict", f"claim {claim.metadata.name} is changed by others all the time")

    def _is_done(self, share: Share, claim: Claim, pod: Meta) -> bool:
        """True when an earlier try of ours came through.

        Raises:
            RefusedError: the claim is somebody else's by now.
        """
        if claim.status.allocation is None and not claim.status.reserved_for:
            return False
        mine = [one.uid for one in claim.status.reserved_for] == [pod.uid]
        if mine:
            return [(one.pool, one.device) for one in claim.devices] == [place for _, place in share.results]
        raise RefusedError(409, "Conflict", f"claim {claim.metadata.name} was allocated by somebody else")

    async def take_back(self, pod: Meta, claims: Sequence[Claim] = ()) -> None:
        """Give back what claims of others hold for a pod that is over, or that did not get its node.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        for known in claims or self._claims.of_pod(pod.uid):
            try:
                for _ in range(TRIES_MAX):
                    if await self._took_back(await self._read(known.metadata), pod.uid):
                        break
            except RefusedError as error:
                if error.code != 404:
                    raise

    async def _took_back(self, claim: Claim, uid: str) -> bool:
        """False when somebody changed the claim meanwhile."""
        rest = [one for one in claim.status.reserved_for if one.uid != uid]
        if len(rest) == len(claim.status.reserved_for):
            return True
        status: dict[str, Any] = {"reservedFor": [msgspec.to_builtins(one) for one in rest] or None}
        try:
            after = await self._write_status(claim, status if rest else status | {"allocation": None})
            if not rest:
                await self._changed(after, [one for one in after.metadata.finalizers if one != PROTECTED])
        except RefusedError as error:
            if error.code != 409:
                raise
            return False
        return True

    async def drop(self, pod: Meta) -> None:
        """Delete the claim of a pod that we made, and so give its devices back."""
        try:
            await self._api.call("DELETE", self._path(pod))
        except RefusedError as error:
            if error.code != 404:
                raise

    def _path(self, meta: Meta) -> str:
        return path_of(self._claims.version, "resourceclaims", namespace=meta.namespace, name=meta.name)

    async def _read(self, meta: Meta) -> Claim:
        return read(self._claim, await self._api.call("GET", self._path(meta)))

    async def _changed(self, claim: Claim, finalizers: list[str]) -> Claim:
        """The claim with these finalizers; the list is sent whole, so with the version it was read in."""
        meta = claim.metadata
        wanted = list(dict.fromkeys(finalizers))
        if wanted == list(meta.finalizers):
            return claim
        change = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": wanted}
        return read(self._claim, await self._api.call("PATCH", self._path(meta), {"metadata": change}, form=MERGE))

    async def _write_status(self, claim: Claim, status: dict[str, Any]) -> Claim:
        meta = claim.metadata
        body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
        return read(self._claim, await self._api.call("PATCH", f"{self._path(meta)}/status", body, form=MERGE))


def _shares(claims: Sequence[Claim], places: Sequence[Place], config: Config) -> Iterator[Share]:
    """The devices, in the order of the claims and their requests.

    Raises:
        RefusedError: the claims ask for other devices than the task was given.
    """
    left = list(places)
    shares: list[Share] = []
    for claim in claims:
        requests: list[Request] | Unfit = requests_of(claim.spec, config)
        if isinstance(requests, Unfit):
            raise RefusedError(409, "Conflict", f"claim {claim.metadata.name}: {requests.message}")
        names = [name for name, count in requests for _ in range(count)]
        shares.append(Share(claim=claim, results=tuple(zip(names, left, strict=False))))
        left = left[len(names) :]
    if left or sum(len(one.results) for one in shares) != len(places):
        raise RefusedError(409, "Conflict", "its claims ask for another number of devices than it was placed with")
    return iter(shares)
