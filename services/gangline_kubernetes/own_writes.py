"""Writing the status of objects of our own kinds: never over what somebody else wrote since we read them."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gangline_kit.errors import TemporaryError
from gangline_kubernetes.api import MERGE, Api, RefusedError
from gangline_kubernetes.objects import JobObject, SettingObject

TRIES_MAX = 5
"""So often an object is read anew at once, when somebody changed it between our reading and our writing."""

Own = TypeVar("Own", JobObject, SettingObject)


async def write_status(api: Api, path: str, found: Own, make: Callable[[Own], dict[str, Any]]) -> None:
    """Write the status that `make` gives for the object; one that is gone, or another by now, has none to write.

    Raises:
        RefusedError: as `Api.call`.
        TemporaryError: somebody else changes it all the time, or as `Api.call`.
    """
    uid = found.metadata.uid
    try:
        for _ in range(TRIES_MAX):
            status = make(found)
            if found.metadata.uid != uid or status == found.status:
                return
            # Fields that no longer hold are taken away by name: a merge keeps what it is not told.
            dropped = {key: None for key in found.status if key not in status}
            seen = {"uid": uid, "resourceVersion": found.metadata.resource_version}
            body = {"metadata": seen, "status": {**dropped, **status}}
            try:
                await api.call("PATCH", f"{path}/status", body, form=MERGE)
                return
            except RefusedError as error:
                if error.code != 409:
                    raise
            found = msgspec.json.decode(await api.call("GET", path), type=type(found))
    except RefusedError as error:
        if not error.is_gone and not error.is_another:
            raise
        return
    raise TemporaryError(f"{path} is changed by others all the time")
