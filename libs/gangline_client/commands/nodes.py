"""`gangline nodes`, `drain`, `assign`, `forget` and `resume`: the machines, what is taken there, who takes work."""

from argparse import Namespace

from gangline_client import quantities as q
from gangline_client.errors import InputError
from gangline_client.job_names import find_job
from gangline_client.session import Session, emit, repeat, watch_interval
from gangline_client.table import Cell, Column, Paint, Row, bar
from gangline_client.words import STATE_PAINT, state_cell
from gangline_wire import views as v

COLUMNS = (
    Column("NODE"),
    Column("POOL"),
    Column("STATE"),
    Column("GPU"),
    Column("USED", right=True),
    Column("GPUS", right=True),
    Column(""),
    Column("BUSY", right=True),
    Column("CPUS", right=True),
    Column("MEMORY", right=True),
    Column("TASKS", right=True),
    Column("WHY", gives_way=True),
)
GPU_COLUMNS = (
    Column("GPU", right=True),
    Column("MODEL"),
    Column("USED", right=True),
    Column(""),
    Column("MEMORY", right=True),
    Column("HEALTH"),
)
BAR_CELLS = 8


async def nodes(session: Session, args: Namespace) -> int:
    """List the nodes, or show the named ones GPU by GPU."""

    async def draw() -> None:
        if args.nodes:
            for position, name in enumerate(args.nodes):
                if position and session.console.is_for_people:
                    session.console.say()
                _show_one(session, await session.client.node(name))
            return
        found = await session.client.nodes(args.pool or session.settings.pool)
        answer = v.NodesView(nodes=tuple(found))
        emit(session.console, answer, names=[node.id for node in found], people=lambda: _table(session, found))

    await repeat(session, every_s=watch_interval(args), draw=draw)
    return 0


async def drain(session: Session, args: Namespace) -> int:
    """Let nodes take no new work."""
    for node in args.nodes:
        await session.client.drain(node, why=args.why)
        session.console.say(f"Node {node} takes no new work; what runs there goes on.")
    return 0


async def assign(session: Session, args: Namespace) -> int:
    """Let nodes serve another pool."""
    for node in args.nodes:
        await session.client.assign(node, args.pool or "", why=args.why)
        where = f"serves pool {args.pool}" if args.pool else "serves the pool of its agent again"
        session.console.say(f"Node {node} {where}; what runs there goes on.")
    return 0


async def forget(session: Session, args: Namespace) -> int:
    """Take lost nodes off the books."""
    for node in args.nodes:
        await session.client.forget(node, gone=args.gone, why=args.why)
        session.console.say(f"Node {node} is off the books; if it comes back, it is a new one.")
    return 0


async def resume(session: Session, args: Namespace) -> int:
    """Let suspended jobs go on, or drained nodes take work again."""
    nodes = {node.id for node in await session.client.nodes()}
    for target in args.targets:
        if target in nodes:
            await session.client.resume(target)
            session.console.say(f"Node {target} takes work again.")
        else:
            await session.client.resume_job(await _job(session, target), urgent=args.urgent)
            session.console.say(f"Job {target} goes on.")
    return 0


async def _job(session: Session, target: str) -> int:
    """The job that is meant, or what to say of a word that names no node either."""
    try:
        return await find_job(session.client, target)
    except InputError:
        advice = "See the nodes with `gangline nodes` and the jobs with `gangline show`."
        raise InputError(f"there is neither a node nor a job named {target}", next_step=advice) from None


def _show_one(session: Session, view: v.NodeView) -> None:
    emit(session.console, view, names=[view.id], people=lambda: _tell(session, view))


def _table(session: Session, found: list[v.NodeView]) -> None:
    if not found:
        session.console.note("No nodes. Join a machine with `gangline agent`, or start one here with `gangline up`.")
        return
    session.console.table(COLUMNS, [_row(node) for node in found])
    used, total = sum(map(_used_milli, found)), sum(len(node.gpus) for node in found)
    ready = sum(node.state == "ready" for node in found)
    session.console.note(f"{ready} of {len(found)} nodes ready, {q.gpus(used)} of {total} GPUs in use.")


def _row(node: v.NodeView) -> Row:
    models = sorted({gpu.model for gpu in node.gpus})
    used = _used_milli(node)
    return [
        node.id,
        node.pool,
        state_cell(node.state),
        ",".join(models) or "-",
        q.gpus(used),
        str(len(node.gpus)),
        Cell(bar(used, len(node.gpus) * q.GPU_MILLI, cells=BAR_CELLS), Paint.BUSY),
        "-" if node.utilisation_percent is None else f"{node.utilisation_percent}%",
        f"{q.cpus(node.cpu_milli_used)}/{q.cpus(node.cpu_milli)}",
        f"{q.memory(node.memory_mib_used)}/{q.memory(node.memory_mib)}",
        str(node.task_count),
        "; ".join(filter(None, [node.why, _sick_gpus(node)])),
    ]


def _used_milli(node: v.NodeView) -> int:
    return sum(gpu.milli_used for gpu in node.gpus)


def _sick_gpus(node: v.NodeView) -> str:
    sick = [gpu for gpu in node.gpus if not gpu.healthy]
    return f"GPU {', '.join(str(gpu.index) for gpu in sick)}: {sick[0].problem}" if sick else ""


def _tell(session: Session, node: v.NodeView) -> None:
    console = session.console
    console.say(console.paint(f"Node {node.id}", Paint.STRONG))
    state = console.paint(node.state, STATE_PAINT.get(node.state, Paint.PLAIN))
    console.fact("State", f"{state}: {node.why}" if node.why else state)
    console.fact("Pool", node.pool)
    console.fact("Agent", node.agent)
    console.fact("CPUs", f"{q.cpus(node.cpu_milli_used)} of {q.cpus(node.cpu_milli)} taken")
    console.fact("Memory", f"{q.memory(node.memory_mib_used)} of {q.memory(node.memory_mib)} taken")
    console.fact(
        "Devices",
        ", ".join(f"{name} {node.devices_used.get(name, 0)}/{count}" for name, count in sorted(node.devices.items())),
    )
    console.fact("Tasks", str(node.task_count))
    console.fact("Labels", ", ".join(f"{key}={value}" for key, value in sorted(node.labels.items())))
    console.fact("Taints", ", ".join(node.taints))
    console.fact(
        "Seen", f"{q.moment(node.seen_ms)} ({q.age(node.seen_ms, now_ms=session.now_ms())} ago)" if node.seen_ms else ""
    )
    if node.gpus:
        console.say()
        console.table(GPU_COLUMNS, [_gpu_row(gpu) for gpu in node.gpus])


def _gpu_row(gpu: v.GpuView) -> Row:
    return [
        str(gpu.index),
        gpu.model,
        q.gpus(gpu.milli_used),
        Cell(bar(gpu.milli_used, q.GPU_MILLI, cells=BAR_CELLS), Paint.BUSY),
        f"{q.memory(gpu.memory_mib_used)}/{q.memory(gpu.memory_mib)}",
        Cell("healthy", Paint.GOOD) if gpu.healthy else Cell(gpu.problem or "sick", Paint.BAD),
    ]
