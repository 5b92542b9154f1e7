"""A round that ends before all were looked at leaves the rest the dates that they have; the next one follows at once.

Dates below limits bind other pools, which may decide in between. And a date that nobody can know yet would begin anew,
a day from now, each time.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from gangline_core.facts import LimitDate, Reservation
from gangline_core.ids import JobId
from gangline_core.table import Table

Dated = TypeVar("Dated", LimitDate, Reservation)


def keep_dates(table: Table, rest: Collection[JobId]) -> None:
    """What the last round dated of these jobs holds on, unless it is over."""
    table.limit_dates += _still(table, table.pool.limit_dates, rest)
    table.reservations += _still(table, table.pool.reservations, rest)


def _still(table: Table, dates: Iterable[Dated], rest: Collection[JobId]) -> Iterator[Dated]:
    return (date for date in dates if date.job in rest and date.start_ms > table.now)
