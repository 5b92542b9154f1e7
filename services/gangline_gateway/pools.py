"""How pools are shown, made and changed."""

from msgspec.structs import replace

from gangline_core.cluster import Pool
from gangline_gateway.call import Answer, Call
from gangline_gateway.changing import answer, ask, document_of
from gangline_gateway.problems import ProblemError, invalid, not_found
from gangline_gateway.settings import etag, pool_of, read_settings
from gangline_wire.requests import SetPool
from gangline_wire.views import PoolsView, PoolView


async def list_pools(call: Call) -> PoolsView:
    """GET /v1/pools: every pool's levels, topology and guarantees of shape."""
    return PoolsView(pools=tuple(_view(pool.pool) for _, pool in sorted(call.state.kept.pools.items())))


async def get_pool(call: Call) -> Answer:
    """GET /v1/pools/{pool}."""
    known = call.state.kept.pools.get(pool_of(call))
    if known is None:
        raise not_found("such pool")
    return Answer(_view(known.pool), headers=etag(known.pool.version))


async def put_pool(call: Call) -> Answer:
    """PUT /v1/pools/{pool}: its queue levels, topology levels and cells, as a whole."""
    name = pool_of(call)
    if not call.caller.is_admin:
        raise ProblemError("forbidden", "Only administrators change pools.")
    pool = read_settings(await document_of(call, name=name), Pool)
    if pool.name != name:
        raise invalid("name", "must be the pool of the address")
    return answer(call, await ask(call, SetPool(pool=replace(pool, version=0), by=call.caller.user)))


def _view(pool: Pool) -> PoolView:
    return PoolView(settings=pool, version=pool.version)
