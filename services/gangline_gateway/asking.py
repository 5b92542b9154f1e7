"""How a change is asked for: one message to the admission leader, repeated until it is answered or time is up."""

import logging
from typing import cast

import msgspec
from msgspec.structs import replace

from gangline_core.facts import LeadershipTaken
from gangline_core.fold import Message
from gangline_core.groups import user_key
from gangline_core.ids import NodeId
from gangline_core.settings.document_change import facts
from gangline_core.step import Step
from gangline_gateway.problems import ProblemError
from gangline_kit.errors import OutcomeUnknownError, PermanentError, TemporaryError
from gangline_kit.service import Site
from gangline_wire import streams, subjects
from gangline_wire.problem import FieldError
from gangline_wire.requests import (
    Admitted,
    ApplySettings,
    Denied,
    Done,
    ForgetNode,
    Refused,
    RemoveGroup,
    RemoveUser,
    RemoveWindow,
    Reply,
    Request,
    SetGroup,
    SetPolicy,
    SetPool,
    SetPrices,
    SetUser,
    SetWindow,
    Unavailable,
)

MESSAGE_BYTES_MAX = streams.MESSAGE_BYTES_MAX // 2
"""Largest request; its facts must fit a message of the log, beside those of others."""

log = logging.getLogger(__name__)

ADMISSION = "admission"
"""The lane whose leader answers."""
TRY_S_MAX = 5.0
"""How long one try waits for its answer."""
PAUSE_S = 0.1
"""Between tries, while a new leader takes over."""
PAUSE_S_MAX = 1.0
RETRY_AFTER_S = 2.0
"""What a client is told when nobody answered in time."""
REACH_S_MAX = 2.0
"""How long an answered change is waited for in our own fold, so that the client's next read sees it."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


class Asker:
    """The gateway's voice towards admission.

    Every request may be repeated safely: submits carry their submit_id, the others say what shall be, not by how much.
    """

    def __init__(self, site: Site, *, answer_s_max: float) -> None:
        """Give up after `answer_s_max`."""
        self._site = site
        self._answer_s_max = answer_s_max
        site.follower.listen(self._note)

    def _note(self, message: Message, step: Step) -> None:
        """Whom we asked before this is gone, perhaps without a word: ask the new leader, and do not wait in vain."""
        if message.lane == ADMISSION and any(isinstance(fact, LeadershipTaken) for fact in message.facts):
            self._site.bus.abandon(subjects.API_ADMISSION, "the door changed hands")

    async def ask(self, request: Request) -> Admitted | Refused | Done | Denied:
        """The leader's answer; when it is a yes, our own fold has it, too.

        Raises:
            ProblemError: nobody answered in time, or it is too large.
        """
        data = _encoder.encode(request)
        if len(data) > MESSAGE_BYTES_MAX:
            detail = f"The request takes {len(data)} bytes inside; at most {MESSAGE_BYTES_MAX} are allowed."
            raise ProblemError("body_too_large", detail)
        reply, was_unknown = await self._ask(data)
        is_late = isinstance(reply, Denied) and reply.kind in ("conflict", "not_found") and was_unknown
        if is_late and is_done(self._site, request):
            # An earlier try had been carried out although its answer was lost.
            return Done()
        if isinstance(reply, Admitted | Done) and reply.seq > self._site.follower.state.kept.seq:
            try:
                await self._site.follower.reached(reply.seq, timeout_s=REACH_S_MAX)
            except TemporaryError:
                log.warning("the fold is behind the log", extra={"seq": reply.seq})
        return reply

    async def change(self, request: Request, *, conflict: str = "conflict") -> Done:
        """Ask for what is only ever done or denied; `conflict` is the code when a version did not match.

        Raises:
            ProblemError: it was denied, nobody answered in time, or it is too large.
        """
        reply = await self.ask(request)
        if isinstance(reply, Denied):
            raise denied(reply, conflict=conflict)
        return cast("Done", reply)

    async def _ask(self, data: bytes) -> tuple[Admitted | Refused | Done | Denied, bool]:
        clock = self._site.clock
        deadline_s = clock.monotonic_s() + self._answer_s_max
        pause_s, why, was_unknown = PAUSE_S, "", False
        while (left_s := deadline_s - clock.monotonic_s()) > 0:
            try:
                answer = await self._site.bus.request(subjects.API_ADMISSION, data, timeout_s=min(TRY_S_MAX, left_s))
                reply = _decoder.decode(answer)
                if not isinstance(reply, Unavailable):
                    return reply, was_unknown
                why, pause_s = reply.message, max(pause_s, reply.retry_after_s)
            except TemporaryError as error:
                why, was_unknown = str(error), was_unknown or isinstance(error, OutcomeUnknownError)
            except PermanentError as error:
                raise ProblemError("internal", str(error)) from error
            if clock.monotonic_s() + pause_s >= deadline_s:
                break
            await clock.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)
        detail = f"No answer within {self._answer_s_max:g} s; repeat the request, with the same Idempotency-Key. {why}"
        raise ProblemError("unavailable", detail.strip(), retry_after_s=RETRY_AFTER_S)


def is_done(site: Site, request: Request) -> bool:
    """True when the folded state already is what the request wants, apart from its version."""
    kept = site.follower.state.kept
    match request:
        case SetGroup(group=wanted):
            known = kept.groups.get(wanted.path)
            return known is not None and replace(known, version=wanted.version) == wanted
        case SetUser(user=user):
            held = kept.users.get(user_key(user.group, user.name))
            return held is not None and replace(held, version=user.version) == user
        case SetPolicy(pool=pool, policy=policy):
            found = kept.pools.get(pool)
            return found is not None and replace(found.policy, version=policy.version) == policy
        case SetWindow(window=window):
            kept_one = kept.windows.get(window.name)
            return kept_one is not None and replace(kept_one, version=window.version) == window
        case SetPrices(milli=milli):
            return kept.prices == {model.lower(): price for model, price in milli.items()}
        case SetPool(pool=pool_wanted):
            made = kept.pools.get(pool_wanted.name)
            return made is not None and replace(made.pool, version=pool_wanted.version) == pool_wanted
        case RemoveGroup(path=path):
            return path not in kept.groups or kept.groups[path].closing
        case RemoveUser(group=group, user=name):
            member = kept.users.get(user_key(group, name))
            return member is None or member.closing
        case RemoveWindow(name=gone):
            return gone not in kept.windows
        case ForgetNode(node=node):
            return NodeId(node) not in kept.nodes
        case ApplySettings(document=document):
            return not facts(site.follower.state, document, by="")
        case _:
            return False


DENIED_CODES = {
    "not_found": "not_found",
    "conflict": "conflict",
    "invalid": "invalid_fields",
    "forbidden": "forbidden",
    "too_large": "body_too_large",
}


def denied(reply: Denied, *, conflict: str = "conflict") -> ProblemError:
    """The problem that tells of a denial; `conflict` is the code when a version did not match."""
    code = DENIED_CODES.get(reply.kind, "conflict")
    errors = [FieldError(path=reply.field, message=reply.message)] if code == "invalid_fields" else []
    return ProblemError(conflict if code == "conflict" else code, reply.message, errors=errors)
