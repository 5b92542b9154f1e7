"""Asking admission, as the gateway does: again with the same request until somebody answers."""

from gangline_kit.errors import TemporaryError
from gangline_kit.service import Site
from gangline_wire import subjects
from gangline_wire.codec import decode, encode
from gangline_wire.requests import Reply, Request, Unavailable

PAUSE_S = 0.2
PAUSE_S_MAX = 2.0
TRY_S_MAX = 5.0


async def ask(site: Site, request: Request, *, waits_for_fold: bool = True) -> Reply:
    """The admission leader's answer; when it is a yes, our own fold has it, too, unless nobody needs that."""
    pause_s = PAUSE_S
    data = encode(request)
    while True:
        try:
            raw = await site.bus.request(subjects.API_ADMISSION, data, timeout_s=TRY_S_MAX)
            reply: Reply = decode(raw, Reply)  # type: ignore[arg-type]  # a union is a valid msgspec type
        except TemporaryError:
            reply = Unavailable(retry_after_s=pause_s)
        if not isinstance(reply, Unavailable):
            seq = getattr(reply, "seq", 0)
            if seq and waits_for_fold:
                await site.follower.reached(seq, timeout_s=TRY_S_MAX)
            return reply
        await site.clock.sleep(max(pause_s, reply.retry_after_s))
        pause_s = min(pause_s * 2, PAUSE_S_MAX)
