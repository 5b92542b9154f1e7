"""In which version a cluster serves claims and devices, of those that we can read: the newest one."""

import msgspec
from msgspec import Struct

from gangline_kit.errors import TemporaryError
from gangline_kubernetes.api import Api, RefusedError

GROUP = "resource.k8s.io"
NEWEST, FLAT = f"{GROUP}/v1", f"{GROUP}/v1beta1"
"""In the flat one a request says itself what it asks for, and a device has its words one level further down."""
READ = (NEWEST, f"{GROUP}/v1beta2", FLAT)


class Version(Struct, frozen=True, rename="camel"):
    """One version of a group."""

    group_version: str = ""


class Served(Struct, frozen=True):
    """What a server says of a group."""

    versions: tuple[Version, ...] = ()


async def served(api: Api) -> str:
    """The newest version that is served and that we read; where none is, the newest of all: that is what is missed."""
    number = 0
    while True:
        number += 1
        try:
            found = msgspec.json.decode(await api.call("GET", f"/apis/{GROUP}"), type=Served)
        except (RefusedError, msgspec.MsgspecError):
            return NEWEST
        except TemporaryError:
            await api.pause(number)
            continue
        names = {one.group_version for one in found.versions}
        return next((version for version in READ if version in names), NEWEST)
