"""How large requests and objects may be: what is too large is refused as the real servers refuse it."""

import msgspec

from kubedouble.errors import ApiError, invalid
from kubedouble.kinds import Kind
from kubedouble.store import Change, Object

BODY_BYTES_MAX = 3 << 20
"""The API server reads no more of a request."""
OBJECT_BYTES_MAX = 3 << 19
"""Its store takes no larger object. (Built-in kinds are stored more compactly than they are counted here.)"""
DATA_BYTES_MAX = 1 << 20
"""What a Secret or a ConfigMap holds."""


def check_body(body: bytes) -> None:
    """Refuse a request that nobody reads to its end.

    Raises:
        ApiError: 413.
    """
    if len(body) > BODY_BYTES_MAX:
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_BYTES_MAX}")


def check_data(kind: Kind, item: Object) -> None:
    """Refuse a Secret or ConfigMap that holds too much.

    Raises:
        ApiError: 422.
    """
    if kind.storage not in ("/secrets", "/configmaps"):
        return
    parts = (value for field in ("data", "stringData", "binaryData") for value in (item.get(field) or {}).values())
    if sum(len(str(value).encode()) for value in parts) > DATA_BYTES_MAX:
        raise invalid(
            kind.name, item["metadata"]["name"], [f"data: Too long: must have at most {DATA_BYTES_MAX} bytes"]
        )


class Sizes:
    """How large objects can be at most by now, so that only large ones are measured."""

    def __init__(self) -> None:
        """Nothing was stored."""
        self._most: dict[str, int] = {}
        """By uid."""
        self.weight = 0
        """Bytes of the request that is being carried out."""

    def check(self, item: Object) -> None:
        """Refuse an object that the store does not take: with an answer that calls it the server's own fault.

        Raises:
            ApiError: 500.
        """
        uid = item["metadata"]["uid"]
        most = self._most.get(uid, 0) + self.weight
        if most > OBJECT_BYTES_MAX:
            most = len(msgspec.json.encode(item))
            if most > OBJECT_BYTES_MAX:
                raise ApiError(500, "", "etcdserver: request is too large")
        self._most[uid] = most

    def hear(self, change: Change) -> None:
        """What is gone is forgotten."""
        if change.verb == "DELETED":
            self._most.pop(change.after["metadata"]["uid"], None)
