"""Gauges of the whole pool, read off the folded state at each scrape, and the waits as they end."""

from collections import Counter

from gangline_core.cluster import free_gpu_milli
from gangline_core.fold import Message
from gangline_core.job import ENDS, JobState
from gangline_core.scoring.ageing import ready_ms
from gangline_core.spec import GPU_MILLI
from gangline_core.step import Step
from gangline_kit.service import Site


def watch(site: Site) -> None:
    """Keep the platform's gauges fresh for as long as the process lives."""
    site.metrics.before_render(lambda: refresh(site))
    site.follower.listen(lambda message, step: observe(site, message, step))


def observe(site: Site, message: Message, step: Step) -> None:
    """Enter waits and ends as they happen."""
    for moved in step.moves:
        job = site.follower.state.job(moved.job)
        if job is None:
            continue
        pool = job.spec.pool
        if moved.before == JobState.STARTING and moved.after == JobState.RUNNING:
            wait_s = max(0, step.at - ready_ms(site.follower.state, job)) / 1000
            site.metrics.observe("gangline_job_wait_seconds", wait_s, pool=pool)
        elif moved.after in ENDS:
            site.metrics.count("gangline_jobs_ended_total", pool=pool, state=moved.after.value)


def refresh(site: Site) -> None:
    """Set the gauges from the state."""
    metrics, kept = site.metrics, site.follower.state.kept
    for name in ("gangline_jobs", "gangline_nodes", "gangline_gpus", "gangline_gpu_utilisation_ratio"):
        metrics.clear(name)
    jobs = Counter((job.spec.pool, job.state.value) for job in kept.jobs.values() if job.state not in ENDS)
    for (pool, state), number in jobs.items():
        metrics.set("gangline_jobs", number, pool=pool, state=state)
    nodes: Counter[tuple[str, str]] = Counter()
    gpus: Counter[tuple[str, str, str]] = Counter()
    for node in kept.nodes.values():
        state = "lost" if node.lost else "drained" if node.drained else "ill" if node.problem else "ready"
        nodes[node.pool, state] += 1
        use = site.follower.state.use[node.id]
        # Held, but no longer reported: nothing is placed there, and somebody should look.
        missing = sum(milli for index, milli in enumerate(use.gpu_milli) if index not in {g.index for g in node.gpus})
        if missing:
            gpus[node.pool, "unknown", "missing"] += missing
        room = free_gpu_milli(node, use)
        for gpu in node.gpus:
            used = use.gpu_milli[gpu.index] if gpu.index < len(use.gpu_milli) else 0
            gpus[node.pool, gpu.model, "used"] += used
            free = room.get(gpu.index)
            kind = "unusable" if free is None else "tainted" if node.taints else "free"
            gpus[node.pool, gpu.model, kind] += max(0, GPU_MILLI - used) if free is None else free
    for (pool, state), number in nodes.items():
        metrics.set("gangline_nodes", number, pool=pool, state=state)
    for (pool, model, state), milli in gpus.items():
        metrics.set("gangline_gpus", milli / GPU_MILLI, pool=pool, model=model, state=state)
    for node_id, (percent, _) in kept.utilisation.items():
        if percent >= 0:
            metrics.set("gangline_gpu_utilisation_ratio", percent / 100, node=node_id)
