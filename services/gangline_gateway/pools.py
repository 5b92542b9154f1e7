"""How pools are made and changed."""

from gangline_core.cluster import Pool
from gangline_gateway.asking import asked_job
from gangline_gateway.call import Answer, Call
from gangline_gateway.problems import ProblemError, invalid
from gangline_gateway.settings import pool_of, read_settings
from gangline_wire.requests import SetPool
from gangline_wire.views import DoneView


async def put_pool(call: Call) -> Answer:
    """PUT /v1/pools/{pool}: its queue levels and topology levels, as a whole."""
    name = pool_of(call)
    if not call.caller.is_admin:
        raise ProblemError("forbidden", "Only administrators change pools.")
    document = await call.document()
    if isinstance(document, dict):
        document = {"name": name, **document}
    pool = read_settings(document, Pool)
    if pool.name != name:
        raise invalid("name", "must be the pool of the address")
    done = asked_job(await call.desk.asker.ask(SetPool(pool=pool, by=call.caller.user)))
    return Answer(DoneView(seq=done.seq, version=done.version))
