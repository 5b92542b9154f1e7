"""Volume claims of pods of others: those that are not bound yet would wait for a scheduler that chooses a volume."""

from collections.abc import Iterable
from typing import Any

import msgspec

from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.objects import Pod

BOUND = "Bound"


class VolumeClaim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim as far as it matters here."""

    status: dict[str, Any] = {}


def claims_of(pod: Pod) -> list[str]:
    """Names of the volume claims that a pod uses, those that are made for it among them."""
    found = []
    for volume in pod.spec.volumes or ():
        if claim := volume.get("persistentVolumeClaim"):
            found.append(str(claim.get("claimName", "")))
        elif volume.get("ephemeral"):
            found.append(f"{pod.metadata.name}-{volume.get('name', '')}")
    return found


class Volumes:
    """Asks the server which claims have their volume."""

    def __init__(self, api: Api) -> None:
        """Ask through this API."""
        self._api = api
        self._claim = msgspec.json.Decoder(VolumeClaim)

    async def unbound(self, pods: Iterable[Pod]) -> Unfit | None:
        """Why pods cannot be bound yet; None when all of their claims have volumes, or we may not read them.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        names = {(pod.metadata.namespace, name): None for pod in pods for name in claims_of(pod)}
        for namespace, name in names:
            path = path_of("v1", "persistentvolumeclaims", namespace=namespace, name=name)
            try:
                phase = self._claim.decode(await self._api.call("GET", path)).status.get("phase", "Pending")
            except RefusedError as error:
                if error.code == 403:
                    return None
                if not error.is_gone:
                    raise
                phase = "not there"
            if phase != BOUND:
                return Unfit(
                    f"volume claim {name} is {phase}; no volume is chosen here: use a storage class with"
                    " volumeBindingMode Immediate, or have the claim bound before",
                    is_for_now=True,
                )
        return None
