"""The values that a job was given in secret, for whoever starts its tasks."""

from collections.abc import Mapping

from gangline_core.door.sealed import vault_names
from gangline_core.ids import JobId
from gangline_core.state import State
from gangline_kit.bus import Kv
from gangline_wire.codec import decode


async def sealed_values(bucket: Kv, state: State, job: JobId) -> Mapping[str, str]:
    """The values by name, of an array those of all its elements; empty when nothing is kept.

    Raises:
        TemporaryError: the bus is away.
    """
    for name in vault_names(state.kept, job):
        found = await bucket.get(name)
        if found is not None:
            return decode(found[0], dict[str, str])
    return {}
