"""From a long run that fails to the shortest story that fails in the same way."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from dollhouse.connection import Rates
from dollhouse.plan import Ask, Event, Plan
from dollhouse.play import Outcome

TRIES_MAX = 120

Play = Callable[[Plan], Outcome]
Tell = Callable[[int, int], None]


def shrink(plan: Plan, play: Play, *, tries: int = TRIES_MAX, tell: Tell | None = None) -> Plan:
    """The shortest plan found in so many tries that breaks the same promise; `tell` hears of tries and events left."""
    wanted = play(plan).kind
    done = 0

    def fails(candidate: Plan) -> bool:
        nonlocal done
        done += 1
        if tell is not None:
            tell(done, len(candidate.events))
        return play(candidate).kind == wanted

    best, size = plan, max(1, len(plan.events) // 2)
    while done < tries:
        shorter = next((each for each in _shorter(best, size) if done < tries and fails(each)), None)
        if shorter is not None:
            best = shorter
        elif size > 1:
            size //= 2
        else:
            simpler = next((each for each in _simpler(best) if done < tries and fails(each)), None)
            if simpler is None:
                break
            best = simpler
    return best


def _shorter(plan: Plan, size: int) -> Iterator[Plan]:
    """Without some events in a row."""
    for first in range(0, len(plan.events), size):
        yield replace(plan, events=(*plan.events[:first], *plan.events[first + size :]))


def _simpler(plan: Plan) -> Iterator[Plan]:
    """With fewer copies, a better bus, fewer jobs, plainer jobs."""
    if plan.rates != Rates():
        yield replace(plan, rates=Rates())
    if plan.log_keep_s:
        yield replace(plan, log_keep_s=0)
    if plan.copies > 1:
        yield replace(plan, copies=1)
    for position, event in enumerate(plan.events):
        for simple in _simpler_event(event):
            yield replace(plan, events=(*plan.events[:position], simple, *plan.events[position + 1 :]))


def _simpler_event(event: Event) -> Iterator[Event]:
    if len(event.asks) > 1:
        for left_out in range(len(event.asks)):
            yield replace(event, asks=(*event.asks[:left_out], *event.asks[left_out + 1 :]))
    for position, ask in enumerate(event.asks):
        for field in Ask.__struct_fields__:
            usual = getattr(Ask(), field)
            if getattr(ask, field) != usual:
                plain = replace(ask, **{field: usual})
                yield replace(event, asks=(*event.asks[:position], plain, *event.asks[position + 1 :]))
