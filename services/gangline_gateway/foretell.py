"""What a dry run tells beside the verdict: the core's look at the job, as a view."""

from msgspec.structs import replace

from gangline_core.door.array_record import array_size
from gangline_core.foresight.expected import Expectation
from gangline_core.foresight.foretell import Effect, Foretold, foretell
from gangline_core.limits.budgets import GPU_HOUR
from gangline_core.reasons import Reason, ReasonCode, sentence
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_gateway.advice import advice
from gangline_gateway.show import reason_view
from gangline_wire.views import EffectView, ForetoldView

FORETOLD_MAX = 20
"""Jobs of one batch that are looked at."""
FIRST_TOLD = frozenset({ReasonCode.DEADLINE, ReasonCode.DEPENDENCY, ReasonCode.DEPENDENCY_FAILED})
"""Said before that a job waits for one of the same call."""


def foretold_view(state: State, spec: JobSpec, now: int, *, behind: str = "") -> ForetoldView | None:
    """What would become of the job, or of an array's first element; None for a pool without a machine.

    `behind` is the name of the job of the same call that it waits for.
    """
    if spec.pool not in state.kept.pools:
        return None
    many = "" if spec.array is None else f"Of the first of {array_size(spec.array)} elements. "
    told = foretell(state, replace(spec, array=None, after=tuple(one for one in spec.after if one.entry < 0)), now)
    if behind and (told.reason is None or told.reason.code not in FIRST_TOLD):
        told = _waiting_for(told, behind, is_held=spec.hold)
    return ForetoldView(
        has_room=told.has_room,
        reason=reason_view(state, told.reason, job=0) if told.reason else None,
        position=told.position,
        waiting=told.waiting,
        effects=tuple(_effect(one) for one in told.effects),
        nodes=told.nodes,
        nodes_suitable=told.nodes_suitable,
        start_from_ms=told.start.from_ms,
        start_to_ms=told.start.to_ms,
        confidence=told.start.confidence,
        start_note=many + told.start.note,
        advice=advice(state, spec),
        cost_milli=told.cost * 1000 // GPU_HOUR if told.cost >= 0 else None,
    )


def _waiting_for(told: Foretold, behind: str, *, is_held: bool) -> Foretold:
    """The same for who has to wait until another one of the call has ended, of which nothing runs yet."""
    reason = Reason(ReasonCode.DEPENDENCY, {"job": behind})
    start = told.start if is_held else Expectation(note=sentence(reason))
    return replace(told, has_room=False, reason=reason, start=start)


def _effect(effect: Effect) -> EffectView:
    return EffectView(
        holder=effect.holder or "(all)",
        dimension=effect.dimension,
        used=effect.used,
        needed=effect.needed,
        limit=effect.limit if effect.limit >= 0 else None,
        guaranteed=effect.guaranteed if effect.guaranteed >= 0 else None,
    )
