"""Telling a waiting pod why it waits, by a condition of its status: never over a binding that was made meanwhile."""

import logging
from collections.abc import Callable
from typing import Any

from gangline_kit.errors import TemporaryError
from gangline_kubernetes.api import STRATEGIC, Api, RefusedError, path_of
from gangline_kubernetes.objects import Pod

log = logging.getLogger(__name__)

TRIES_MAX = 4
"""So often a pod is told that changes while it is told."""


async def tell(api: Api, pod: Pod, condition: dict[str, Any], present: Callable[[], Pod | None]) -> None:
    """Tell a pod; one that changed is told as it is now, which `present` knows, unless it waits no more."""
    uid, name = pod.metadata.uid, f"{pod.metadata.namespace}/{pod.metadata.name}"
    for number in range(1, TRIES_MAX + 1):
        meta = pod.metadata
        path = path_of("v1", "pods", namespace=meta.namespace, name=meta.name, sub="status")
        seen = {"uid": uid, "resourceVersion": meta.resource_version}
        try:
            body = {"metadata": seen, "status": {"conditions": [condition]}}
            await api.call("PATCH", path, body, form=STRATEGIC, tries=1)
            return
        except RefusedError as error:
            if error.code != 409:
                log.info("pod %s was not told why it waits: %s", name, error)
                return
        except TemporaryError as error:
            log.info("pod %s was not told why it waits: %s", name, error)
            return
        await api.pause(number)
        if (now := present()) is None:
            return
        pod = now
    log.info("pod %s was not told why it waits: it changes all the time", name)
