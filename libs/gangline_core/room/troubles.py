"""What went wrong on a node before, as whoever judges it next must know: its cards' events, its closures."""

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.ids import NodeId


class CardTrouble(Struct, frozen=True, omit_defaults=True, gc=False):
    """What the log knows of the events of one card."""

    event: int = 0
    """Number of the last event that was judged; agents repeat events, and each is judged once."""
    failures: int = 0
    """How often an event took the card out: each time it is tried again later."""


class Trouble(Struct, frozen=True, omit_defaults=True):
    """What the log knows of one node."""

    cards: dict[int, CardTrouble] = {}
    closed: int = 0
    """How often it was closed for failing every start: each time it is tried again later."""


BY_EVENT = "Xid"
"""Problems that begin so are events, not conditions: nothing shows when they are over but time."""
NONE = Trouble()
NO_CARD = CardTrouble()
Troubles = dict[NodeId, Trouble]


def note_event(troubles: Troubles, node: NodeId, gpu: int, *, event: int, problem: str = "") -> None:
    """An event of a card was judged, and took it out if that is the problem; 0 is none."""
    if not event:
        return
    known = troubles.get(node, NONE)
    card = known.cards.get(gpu, NO_CARD)
    # One event that came with two signs is told twice, and still one.
    failures = card.failures + int(problem.startswith(BY_EVENT) and event > card.event)
    card = CardTrouble(event=max(event, card.event), failures=failures)
    troubles[node] = replace(known, cards={**known.cards, gpu: card})


def note_closed(troubles: Troubles, node: NodeId) -> None:
    """A node was closed."""
    known = troubles.get(node, NONE)
    troubles[node] = replace(known, closed=known.closed + 1)


def forget_closures(troubles: Troubles, node: NodeId) -> None:
    """An administrator knows better: what was held against the node counts no more."""
    known = troubles.get(node, NONE)
    if known.closed:
        troubles[node] = replace(known, closed=0)
