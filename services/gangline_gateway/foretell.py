"""What a dry run tells beside the verdict: the core's look at the job, as a view."""

from msgspec.structs import replace

from gangline_core.door.array_record import array_size
from gangline_core.foresight.foretell import Effect, foretell
from gangline_core.limits.budgets import GPU_HOUR
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_gateway.advice import advice
from gangline_gateway.show import reason_view
from gangline_wire.views import EffectView, ForetoldView

FORETOLD_MAX = 20
"""Jobs of one batch that are looked at."""


def foretold_view(state: State, spec: JobSpec, now: int) -> ForetoldView | None:
    """What would become of the job, or of an array's first element; None for a pool without a machine."""
    if spec.pool not in state.kept.pools:
        return None
    many = "" if spec.array is None else f"Of the first of {array_size(spec.array)} elements. "
    told = foretell(state, replace(spec, array=None), now)
    return ForetoldView(
        has_room=told.has_room,
        reason=reason_view(told.reason, job=0) if told.reason else None,
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


def _effect(effect: Effect) -> EffectView:
    return EffectView(
        holder=effect.holder or "(all)",
        dimension=effect.dimension,
        used=effect.used,
        needed=effect.needed,
        limit=effect.limit if effect.limit >= 0 else None,
        guaranteed=effect.guaranteed if effect.guaranteed >= 0 else None,
    )
