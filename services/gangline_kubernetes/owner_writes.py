"""Changing objects of others: never over a change that somebody else made since we read them."""

from collections.abc import Callable
from typing import Any

import msgspec

from gangline_kit.errors import TemporaryError
from gangline_kubernetes.api import MERGE, Api, RefusedError, path_of
from gangline_kubernetes.objects import OwnerObject
from gangline_kubernetes.owner_kinds import OwnerKind
from gangline_kubernetes.shallow import read

TRIES_MAX = 8
"""So often an object is read anew at once, when somebody changed it between our reading and our writing."""

Change = Callable[[OwnerObject], dict[str, Any]]
"""From an object as it is to a merge patch of it; lists in it are whole, as a merge replaces them."""


class OwnerWriter:
    """Patches with the version they were made from, made anew when that is no longer the object's."""

    def __init__(self, api: Api) -> None:
        """Write through this API."""
        self._api = api
        self._object = msgspec.json.Decoder(OwnerObject)

    async def change(self, kind: OwnerKind, found: OwnerObject, change: Change) -> OwnerObject | None:
        """Change an object, and give what became of it; one that is gone, or another by now, stays as it is.

        Raises:
            RefusedError: as `Api.call`.
            TemporaryError: somebody else changes it all the time, or as `Api.call`.
        """
        uid, path = found.metadata.uid, self._path(kind, found)
        try:
            for number in range(1, TRIES_MAX + 1):
                patch = change(found)
                seen = {"uid": uid, "resourceVersion": found.metadata.resource_version}
                try:
                    body = {**patch, "metadata": patch.get("metadata", {}) | seen}
                    return read(self._object, await self._api.call("PATCH", path, body, form=MERGE))
                except RefusedError as error:
                    if error.code != 409:
                        raise
                if number > 2:
                    await self._api.pause(1)
                found = read(self._object, await self._api.call("GET", path))
                if found.metadata.uid != uid:
                    return None
        except RefusedError as error:
            if not error.is_gone and not error.is_another:
                raise
            return None
        raise TemporaryError(f"{kind.name} {found.metadata.name} is changed by others all the time")

    async def write_status(self, kind: OwnerKind, found: OwnerObject, status: dict[str, Any]) -> None:
        """Set single fields of the object's status; never a list.

        Raises:
            RefusedError, TemporaryError: as `Api.call`.
        """
        body = {"metadata": {"uid": found.metadata.uid}, "status": status}
        try:
            await self._api.call("PATCH", f"{self._path(kind, found)}/status", body, form=MERGE)
        except RefusedError as error:
            if not error.is_gone and not error.is_another:
                raise

    @staticmethod
    def _path(kind: OwnerKind, found: OwnerObject) -> str:
        meta = found.metadata
        return path_of(kind.group_version, kind.plural, namespace=meta.namespace, name=meta.name)
