"""How pools' policies are shown and changed."""

from gangline_core.cluster import Policy
from gangline_core.elasticity import POLICIES
from gangline_core.kept import PoolState
from gangline_core.ordering import ORDERINGS
from gangline_core.placement import PLACERS
from gangline_core.scoring.factors import FACTORS
from gangline_gateway.call import Answer, Call
from gangline_gateway.changing import answer, ask
from gangline_gateway.problems import ProblemError, not_found
from gangline_gateway.settings import etag, pool_of, read_settings
from gangline_wire.requests import SetPolicy
from gangline_wire.views import PoliciesView, PolicyView, SchedulerView


async def list_policies(call: Call) -> PoliciesView:
    """GET /v1/policies: every pool's, and what one may choose from."""
    pools = call.state.kept.pools
    return PoliciesView(
        policies=tuple(_view(pool) for _, pool in sorted(pools.items())),
        orderings=tuple(sorted(ORDERINGS)),
        placements=tuple(sorted(PLACERS)),
        elastics=tuple(sorted(POLICIES)),
        factors={name: factor.doc for name, factor in FACTORS.items()},
    )


def _view(pool: PoolState) -> PolicyView:
    is_band = pool.policy.elastic == "band"
    return PolicyView(
        pool=pool.pool.name,
        policy=pool.policy,
        version=pool.policy.version,
        nodes_wanted=pool.nodes_wanted if is_band else 0,
        utility_permille=pool.utility_permille if is_band else 0,
        schedulers=tuple(
            SchedulerView(number=number, commits=own.commits, conflicts=own.conflicts, delay_ms=own.delay_ms)
            for number, own in sorted(pool.schedulers.items())
        ),
        levels=pool.pool.levels,
    )


async def get_policy(call: Call) -> Answer:
    """GET /v1/policies/{pool}."""
    pool = call.state.kept.pools.get(pool_of(call))
    if pool is None:
        raise not_found("such pool")
    view = _view(pool)
    return Answer(view, headers=etag(view.version))


async def put_policy(call: Call) -> Answer:
    """PUT /v1/policies/{pool}: the policy as a whole; it holds from the next round on."""
    pool = pool_of(call)
    if not call.caller.is_admin:
        raise ProblemError("forbidden", "Only administrators change policies.")
    if pool not in call.state.kept.pools:
        raise not_found("such pool")
    policy = read_settings(await call.document(), Policy)
    return answer(call, await ask(call, SetPolicy(pool=pool, policy=policy, by=call.caller.user)))
