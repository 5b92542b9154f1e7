"""Finish-time fairness: whoever will end latest, compared with a cluster of its own, goes first (Themis, NSDI 2020).

rho = (time since submission + predicted rest) / (predicted time alone on 1/N of the pool), N being the jobs that run or
wait. The auction of the paper shares GPUs among elastic bidders; gangs take all or nothing, so here the worst rho goes
first, which is the order in which the paper offers.
"""

from gangline_core.ordering.scored import Scored, in_levels
from gangline_core.scoring.finish_ratio import rho
from gangline_core.scoring.waiting import Waiting


def finish_time(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level plus rho."""
    return in_levels(waiting, "rho", rho(waiting))
