"""Asking whether a pod may go now: a disruption budget may say that it has to stay for a while."""

from typing import Any

from gangline_kit.errors import OutcomeUnknownError
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.objects import Meta

SEVERAL = "more than one PodDisruptionBudget"
"""What the server says, as a fault of its own, of pods that nobody can ever evict."""


class KeptError(Exception):
    """A disruption budget keeps the pod for now."""


async def evict(api: Api, pod: Meta, options: dict[str, Any], *, is_asked_only: bool = False) -> None:
    """Have the pod evicted, or only ask whether it may be.

    Raises:
        KeptError: a budget does not allow it now.
        RefusedError, TemporaryError: as `Api.call`.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options | ({"dryRun": ["All"]} if is_asked_only else {}),
    }
    path = path_of("v1", "pods", namespace=pod.namespace, name=pod.name, sub="eviction")
    try:
        await api.call("POST", path, body)
    except RefusedError as error:
        if error.code == 429:
            raise KeptError(error.message) from error
        raise
    except OutcomeUnknownError as error:
        if SEVERAL in str(error):
            raise KeptError(str(error)) from error
        raise
