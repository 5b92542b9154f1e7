"""What a dry run tells: room, place in the queue, expected start, nodes, cost, and what is left of each limit."""

from gangline_client.session import Session
from gangline_client.table import Column
from gangline_client.words import start_range
from gangline_core.limits.dimension_names import shown
from gangline_wire import views as v

EFFECT_COLUMNS = (
    Column("HOLDER"),
    Column("WHAT"),
    Column("USED", right=True),
    Column("NEEDS", right=True),
    Column("GUARANTEED", right=True),
    Column("LIMIT", right=True),
)


def tell(session: Session, told: v.ForetoldView) -> None:
    """For people."""
    console = session.console
    if told.has_room:
        console.fact("Room", "there is room for it now")
    else:
        console.fact("Room", told.reason.sentence if told.reason is not None else "none at the moment")
    console.fact("Position", f"{told.position} of {told.waiting} waiting")
    if told.start_from_ms is not None and told.start_to_ms is not None:
        times = start_range(told.start_from_ms, told.start_to_ms, now_ms=session.now_ms())
        console.fact("Expected start", f"{times} ({told.confidence})" if told.confidence else times)
    else:
        console.fact("Expected start", "unknown")
    console.fact("", told.start_note)
    named = ", ".join(told.nodes)
    more = told.nodes_suitable - len(told.nodes)
    if told.has_room:
        console.fact("Nodes", f"{named} (of {told.nodes_suitable} suitable)")
    else:
        console.fact("Nodes", f"{named} and {more} more suitable" if more > 0 else named)
    console.fact("Cost", _cost(told.cost_milli))
    for sentence in told.advice:
        console.fact("Advice", sentence)
    if told.effects:
        console.say()
        console.table(EFFECT_COLUMNS, [_row(effect) for effect in told.effects])


def _cost(cost_milli: int | None) -> str:
    if cost_milli is None:
        return "no bound: the job has no time limit"
    return f"at most {cost_milli / 1000:g} GPU-hours by the price list"


def _row(effect: v.EffectView) -> list[str]:
    amounts = [effect.used, effect.needed, effect.guaranteed, effect.limit]
    label = shown(effect.dimension, 0)[0]
    cells = ["-" if amount is None else str(shown(effect.dimension, amount)[1]) for amount in amounts]
    return [effect.holder, label, *cells]
