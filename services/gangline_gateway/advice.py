"""What jobs like this one used of what they had, and where they were fastest, told before and while the job waits."""

from gangline_core.foresight.affinity import told_speeds
from gangline_core.foresight.right_size import from_history, usable_memory_mib
from gangline_core.limits.budgets import cost_alike
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_wire.durations import show_seconds


def advice(state: State, spec: JobSpec) -> tuple[str, ...]:
    """One sentence for each thing that could be asked for in a smaller size, then its affinity; often there is none."""
    if spec.pool not in state.kept.pools:
        return ()
    stocks = state.inventory(spec.pool).stocks()
    sizes = {(gpu.model, gpu.memory_mib) for stock in stocks for gpu in stock.kind.gpus}
    smaller = from_history(state.kept.use_history, spec, gpu_memory_mib=usable_memory_mib(spec, sizes))
    return (*smaller, *_affinity(state, spec))


def _affinity(state: State, spec: JobSpec) -> tuple[str, ...]:
    """On which GPU models jobs like it were fastest, and what the system makes of that."""
    known = state.kept.affinities
    tiers = known.of(spec)
    if len(tiers) < 2:
        return ()
    written = {gpu.model.lower(): gpu.model for node in state.kept.nodes.values() for gpu in node.gpus}
    best = " or ".join(written.get(model, model or "models of which it says nothing") for model in tiers[0])
    if told_speeds(spec):
        rests_on = f"It says that it is fastest on {best}"
    else:
        middles = known.middles(spec)
        models = [model for tier in tiers for model in tier]
        took = (
            f"{show_seconds(middles[model][1] // 1000)} on {written.get(model, model)} ({middles[model][0]} runs)"
            for model in models
        )
        rests_on = f"Jobs like it took {', '.join(took)}"
    if any(role.resources.gpu_models for role in spec.roles):
        then = "the job names its models itself"
    elif not state.kept.pools[spec.pool].policy.model_affinity:
        then = "the pool's policy has model_affinity off"
    elif not cost_alike(state.kept.prices, state.room(spec.pool).layout.by_number):
        then = "they cost differently, so name the models that it may go to"
    else:
        then = f"it goes to {best} first where there is room"
    return (f"{rests_on}; {then}.",)
