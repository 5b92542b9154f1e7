"""Taking Gangline's finalizers off, when it is taken off a cluster: without them nothing hangs in Terminating for ever.

Pods go on as they are; objects stay until somebody deletes them.
"""

import logging
from typing import Any

import msgspec

from gangline_kit.errors import TemporaryError
from gangline_kubernetes.api import MERGE, Api, RefusedError, path_of
from gangline_kubernetes.names import FINALIZER, GROUP_VERSION, JOB_FINALIZER
from gangline_kubernetes.objects import Listed, Meta
from gangline_kubernetes.shallow import read

log = logging.getLogger(__name__)

PAGE = 500
ROUNDS_MAX = 10
"""So often everything is listed again, until nothing is left to do."""
OURS = (("v1", "pods", FINALIZER), (GROUP_VERSION, "jobs", JOB_FINALIZER))


class Thing(msgspec.Struct, frozen=True):
    """Any object."""

    metadata: Meta


async def leave(api: Api) -> int:
    """Take the finalizers off all that has one; gives how many those were.

    Raises:
        RefusedError: we may not, or as `Api.call`.
        TemporaryError: the server does not answer, or others put finalizers on all the time.
    """
    done = 0
    for number in range(1, ROUNDS_MAX + 1):
        left = [(kind, one) for kind in OURS for one in await _found(api, kind)]
        if not left:
            return done
        for (version, plural, finalizer), meta in left:
            done += await _release(
                api, path_of(version, plural, namespace=meta.namespace, name=meta.name), meta, finalizer
            )
        await api.pause(min(number, 3))
    raise TemporaryError("somebody puts finalizers on all the time: is the Kubernetes service still running?")


async def _found(api: Api, kind: tuple[str, str, str]) -> list[Meta]:
    version, plural, finalizer = kind
    query: dict[str, str] = {"limit": str(PAGE)}
    found: list[Meta] = []
    while True:
        try:
            data = await api.call("GET", path_of(version, plural), query=query)
        except RefusedError as error:
            if error.code == 404:
                # Its definition is gone already, and so is what it defined.
                return found
            raise
        page = read(msgspec.json.Decoder(Listed[Thing]), data)
        found += [one.metadata for one in page.items or () if finalizer in one.metadata.finalizers]
        if not page.metadata.next:
            return found
        query = {**query, "continue": page.metadata.next}


async def _release(api: Api, path: str, meta: Meta, finalizer: str) -> int:
    """1 when it was done; one that changed meanwhile is found again."""
    rest = [name for name in meta.finalizers if name != finalizer]
    body: dict[str, Any] = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": rest}}
    try:
        await api.call("PATCH", path, body, form=MERGE)
    except RefusedError as error:
        if not error.is_gone and not error.is_another and error.code != 409:
            raise
        return 0
    return 1
