"""Whether what was told early in a round still holds at its end: others took room after that.

Who may not pass a reservation, or would run into a window, may lack plain room when the round ends, and of what is free
there is less. One more round would say so, but none follows as long as nothing else happens.
"""

from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import ReasonCode
from gangline_core.table import Table
from gangline_core.telling.recorded import EXACT_MAX
from gangline_core.telling.refusals import Refuser

OUTLIVED = frozenset({ReasonCode.RESERVED, ReasonCode.WINDOW})
"""What says that there is room but for something else, which is false when there is none."""
LASTING = frozenset({ReasonCode.NO_ELIGIBLE_NODE, ReasonCode.NO_LABEL, ReasonCode.POSTPONED})
"""What nobody's start changes, and what was not searched to its end."""


def look_again(table: Table) -> None:
    """Refusals of a round in which somebody started after one are those that the room at its end gives.

    Those told after the last start as well: equal jobs were told what the first of them was. Numbers of a crowd that
    lacks GPUs may be those of before.
    """
    if not table.refused_before:
        return
    refuser = Refuser(table)
    changing = ROOM_CODES - LASTING
    if len(table.refused) > EXACT_MAX:
        changing -= {ReasonCode.INSUFFICIENT_GPUS}
    for place, (job, told) in enumerate(table.refused):
        if told.code not in changing and told.code not in OUTLIVED:
            continue
        reason = refuser.anew(job, told)
        if reason.code in ROOM_CODES or told.code in OUTLIVED:
            table.refused[place] = job, reason
