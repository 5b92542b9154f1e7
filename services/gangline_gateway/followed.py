"""Which of the jobs that new ones are to follow the sender may not know of: for it they are as good as not there."""

from collections.abc import Sequence

from gangline_core.door.arrays import lookup
from gangline_core.spec import JobSpec
from gangline_gateway.access import visible_job
from gangline_gateway.call import Call
from gangline_gateway.problems import ProblemError
from gangline_kit.errors import TemporaryError
from gangline_wire import streams

REACH_S_MAX = 5.0
"""How long our own fold may take to know what the log has."""


async def hidden(call: Call, specs: Sequence[JobSpec]) -> tuple[int, ...]:
    """Numbers that these jobs follow and the caller may not know of, also those that we do not know of ourselves.

    What was admitted a moment ago may be somebody else's and not in our fold yet, so one that names a number we do not
    know waits until we know all that is in the log; a job that comes after that cannot be followed by this call.

    Raises:
        ProblemError: nobody can tell us now what is in the log.
    """
    followed = sorted({one.job for spec in specs for one in spec.after if one.entry < 0})
    if not followed or call.caller.sees_all:
        return ()
    if any(lookup(call.state, job) is None for job in followed):
        await _catch_up(call)
    return tuple(job for job in followed if visible_job(call.state, call.caller, job) is None)


async def _catch_up(call: Call) -> None:
    site = call.desk.site
    try:
        await site.follower.reached(await site.bus.last_seq(streams.LOG.name), timeout_s=REACH_S_MAX)
    except TemporaryError as error:
        raise ProblemError("unavailable", str(error), retry_after_s=2.0) from None
