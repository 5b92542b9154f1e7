"""Writing the status of objects of our own kinds: never over what somebody else wrote since we read them."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gangline_kit.errors import TemporaryError
from gangline_kubernetes.api import MERGE, Api, RefusedError
from gangline_kubernetes.objects import JobObject, SettingObject
from gangline_kubernetes.shallow import read
from gangline_kubernetes.statuses import shortened

TRIES_MAX = 5
"""So often an object is read anew at once, when somebody changed it between our reading and our writing."""

Own = TypeVar("Own", JobObject, SettingObject)


async def write_status(api: Api, path: str, found: Own, make: Callable[[Own], dict[str, Any]]) -> None:
    """Write the status that `make` gives for the object; one that is gone, or another by now, has none to write.

    An object that has no room for all of it gets it shortened.

    Raises:
        RefusedError: as `Api.call`.
        TemporaryError: somebody else changes it all the time, or as `Api.call`.
    """
    uid, is_large = found.metadata.uid, False
    try:
        for _ in range(TRIES_MAX):
            status = shortened(make(found)) if is_large else make(found)
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
                if error.code != 409 and (is_large or not error.is_too_large):
                    raise
                is_large |= error.is_too_large
            found = read(msgspec.json.Decoder(type(found)), await api.call("GET", path))
    except RefusedError as error:
        if not error.is_gone and not error.is_another:
            raise
        return
    raise TemporaryError(f"{path} is changed by others all the time")
