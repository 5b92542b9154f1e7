"""How dated capacity and prices are shown and changed."""

from msgspec.structs import replace

from gangline_core.reserving.closures import overlapping
from gangline_core.reserving.windows import Window
from gangline_gateway.call import Answer, Call
from gangline_gateway.changing import answer, ask, document_of
from gangline_gateway.problems import ProblemError, invalid, not_found
from gangline_gateway.settings import etag, read_settings, why_of
from gangline_wire.requests import RemoveWindow, SetPrices, SetWindow
from gangline_wire.views import DoneView, PricesView, WindowsView, WindowView


async def list_windows(call: Call) -> WindowsView:
    """GET /v1/windows: what is kept for whom and when, soonest first."""
    windows = sorted(call.state.kept.windows.values(), key=lambda window: (window.start_ms, window.name))
    return WindowsView(windows=tuple(_view(call, window) for window in windows))


async def get_window(call: Call) -> Answer:
    """GET /v1/windows/{name}."""
    window = call.state.kept.windows.get(call.part("name"))
    if window is None:
        raise not_found("such window")
    return Answer(_view(call, window), headers=etag(window.version))


async def put_window(call: Call) -> Answer:
    """PUT /v1/windows/{name}: set capacity aside, or change it as a whole."""
    _check_admin(call)
    name = call.part("name")
    window = replace(read_settings(await document_of(call, name=name, pool="default"), Window), version=0)
    if window.name != name:
        raise invalid("name", "must be the one of the address")
    return answer(call, await ask(call, SetWindow(window=window, by=call.caller.user)))


async def remove_window(call: Call) -> DoneView:
    """DELETE /v1/windows/{name}."""
    _check_admin(call)
    request = RemoveWindow(name=call.part("name"), by=call.caller.user, why=why_of(call))
    reply = await call.desk.asker.change(request)
    return DoneView(seq=reply.seq)


async def get_prices(call: Call) -> Answer:
    """GET /v1/prices."""
    kept = call.state.kept
    return Answer(PricesView(milli=kept.prices, version=kept.prices_version), headers=etag(kept.prices_version))


async def put_prices(call: Call) -> Answer:
    """PUT /v1/prices: the price list as a whole; it holds for allocations that end from now on."""
    _check_admin(call)
    prices = read_settings(await call.document(), PricesView)
    return answer(call, await ask(call, SetPrices(milli=prices.milli, by=call.caller.user)))


def _view(call: Call, window: Window) -> WindowView:
    """A window, and for administrators the jobs that still run into it."""
    now = call.desk.site.now_ms()
    jobs = overlapping(call.state, window, now) if call.caller.sees_all else []
    return WindowView(window=window, is_on=window.start_ms <= now < window.end_ms, running_jobs=tuple(jobs[:100]))


def _check_admin(call: Call) -> None:
    if not call.caller.is_admin:
        raise ProblemError("forbidden", "Only administrators keep capacity and set prices.")
