"""What administrators may set about dated capacity and prices."""

import re
from collections.abc import Mapping

from gangline_core.limits.budgets import ANY_MODEL, PRICE_MILLI_MAX
from gangline_core.reserving.windows import Window
from gangline_core.settings.amounts import Problem
from gangline_core.spec import MOMENT_MS_MAX
from gangline_core.state import State

WINDOWS_MAX = 256
WINDOW_NODES_MAX = 10_000
WINDOW_HOLDERS_MAX = 64
WINDOW_MS_MAX = 366 * 86_400_000
PRICES_MAX = 256
MODEL_CHARS_MAX = 64

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_window(state: State, window: Window, at: int) -> Problem | None:
    """What is wrong with setting this capacity aside; None when nothing is."""
    if not _NAME.fullmatch(window.name):
        return Problem("invalid", f"{window.name!r} cannot be a window's name", "name")
    if window.name not in state.kept.windows and len(state.kept.windows) >= WINDOWS_MAX:
        return Problem("conflict", f"there are {WINDOWS_MAX} windows already; remove some that are over")
    if window.pool not in state.kept.pools:
        return Problem("invalid", f"there is no pool {window.pool}", "pool")
    for field, at_ms in (("start_ms", window.start_ms), ("end_ms", window.end_ms)):
        if not 0 <= at_ms <= MOMENT_MS_MAX:
            return Problem("invalid", "must be milliseconds since 1970, before the year 10000", field)
    if window.end_ms <= window.start_ms:
        return Problem("invalid", "must be after the start", "end_ms")
    if window.end_ms <= at:
        return Problem("invalid", "is over already", "end_ms")
    if window.end_ms - window.start_ms > WINDOW_MS_MAX:
        return Problem("invalid", "must be within a year of the start", "end_ms")
    if len(window.nodes) > WINDOW_NODES_MAX or len(set(window.nodes)) < len(window.nodes):
        return Problem("invalid", f"must be at most {WINDOW_NODES_MAX} different nodes", "nodes")
    for node in window.nodes:
        known = state.kept.nodes.get(node)
        if known is None or known.pool != window.pool:
            return Problem("invalid", f"pool {window.pool} has no node {node}", "nodes")
    return _holders_problem(state, window)


def _holders_problem(state: State, window: Window) -> Problem | None:
    if len(window.groups) > WINDOW_HOLDERS_MAX or len(window.users) > WINDOW_HOLDERS_MAX:
        field = "groups" if len(window.groups) > WINDOW_HOLDERS_MAX else "users"
        return Problem("invalid", f"must be at most {WINDOW_HOLDERS_MAX}", field)
    for group in window.groups:
        if group not in state.kept.groups:
            return Problem("invalid", f"there is no group {group or '(none)'}", "groups")
    return None


def check_prices(milli: Mapping[str, int]) -> Problem | None:
    """What is wrong with this price list; None when nothing is."""
    if len(milli) > PRICES_MAX:
        return Problem("invalid", f"has {len(milli)} models; at most {PRICES_MAX} are allowed", "milli")
    if len({model.lower() for model in milli}) < len(milli):
        return Problem("invalid", "names one model twice; upper and lower case are the same", "milli")
    for model, price in milli.items():
        if not model or len(model) > MODEL_CHARS_MAX:
            return Problem("invalid", f'must be GPU models, or "{ANY_MODEL}" for any other', "milli")
        if not 0 <= price <= PRICE_MILLI_MAX:
            return Problem("invalid", f"is {price}; it must be from 0 to {PRICE_MILLI_MAX}", f"milli.{model}")
    return None
