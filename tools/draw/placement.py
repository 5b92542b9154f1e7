"""Draws docs/placement.md: every placement policy with its source and use, and how the default decides."""

import inspect
from collections.abc import Callable

from draw.markdown import code, document, table
from gangline_core.placement import PLACERS
from gangline_core.placement.guide import GUIDE, Guide


def page() -> str:
    """The page."""
    return document(
        "Placement",
        "A pool's policy names its placement: `gangline policy set placement=fgd`, or `policy: {placement: "
        "fgd}` in the [policy file](policy-file.md). Whatever is named, a gang starts whole or not at all, "
        "and a job's own wishes (models, levels, slices, spread) come first: the placement decides among what "
        "they leave.",
        table(("Name", "From", "Use"), (advice(name, placer) for name, placer in sorted(PLACERS.items()))),
        *_DEFAULT,
        *_LEVELS,
        *_ROLES,
        *_VICTIMS,
        *_SCORING,
        *_CELLS,
        *_LOAD,
        *_SLICES,
        *_SEVERAL,
    )


def advice(name: str, placer: Callable[..., object]) -> tuple[str, str, str]:
    """One row: what the guide says of a placer, or else what its own docstring says."""
    known = GUIDE.get(name) or Guide("Gangline", (inspect.getdoc(placer) or "").partition("\n")[0])
    return code(name), known.source, known.use


_DEFAULT = (
    "## How the default decides",
    "A gang takes the smallest domain that holds it. A single task goes where it costs the pool's usual "
    "tasks least useful room. Useful for whom is learnt from what the pool's jobs ask for, to a 256th, "
    "until 95 % of all tasks are covered; below 20 known tasks a standard mix stands in. Two readings of "
    "useful are added. By cards, as FGD has it: everything free on the cards that hold one such task, if "
    "the node has the CPU for one. By tasks: what the tasks that fit at once would take, CPU counted by "
    "share. The first alone fills nodes until their CPU is gone and strands the GPUs; the second alone "
    "gives up large tasks too early.",
    "Costs are told apart to a tenth of a GPU and ties go to the first node in order of names. Both "
    "matter as much as the score: with random ties FGD's score gives out 5 % of a cluster less. Where "
    "nodes have islands, switches or sockets, closeness and the smallest free block come first.",
    "On the eight openb lists (1,213 machines, 130 % asked for) it gives out more than FGD, first fit and "
    "every published policy in the mean of each list: [the figures](openb.md), with the gap to the bound. "
    "`make bench NAME=placement` measures a few seeds anew, `ARGS=--seeds=10` all ten.",
    "**Affinity.** Who names no `gpu_models` takes the most common model first, so that rare ones stay for those who "
    "ask. But where jobs like it (of the same user, name and size, in the same pool) were faster on one model, it is "
    "tried there first: at least three runs on each model, and three of four over sooner there than three of four "
    "here. A job that tells its speeds (attributes `speed_<model>`) is believed instead. Only runs count that did the "
    "whole work at one size, alone on their GPUs. Other models still will do, "
    "nothing waits for its affinity, and limits and prices go before it: where models cost differently, the choice is "
    "the user's. `gangline why` and `gangline submit --dry-run` tell the run times it rests on; `gangline policy set "
    "model_affinity=false` leaves it ([why](decisions/0031-affinity-by-run-times.md)).",
    "Whatever places, no node is given more than `node_tasks_max` tasks (512 unless set: `gangline policy set "
    "node_tasks_max=200`), and on Kubernetes no more than its kubelet takes pods. So a job of thousands of tasks "
    "that ask for nothing cannot stall a machine's agent; those that wait for it say `InsufficientPlaces`.",
)
_LEVELS = (
    "## Levels, and where machines stand",
    "Inside a node the levels are `nvlink` (island), `switch` (PCIe) and `socket`, then `node`; the agent reads them "
    "from the driver's link matrix. Above it a pool has any levels its administrator names, smallest first, each with "
    "the node label that names its domains: `topology: {rack: topology.gangline.dev/rack, feed: power-feed}` in the "
    "[policy file](policy-file.md). Labels come from the agent's `--labels`, on Kubernetes from the nodes, or for "
    "many machines from one file (`gangline agent --topology-file`, `GANGLINE_AGENT_TOPOLOGY_FILE`), which may also "
    "say how GPUs hang together where a driver does not tell. It goes before the driver, and `--labels` before it; "
    "an agent reads it when it starts, which harms no task.",
    """```yaml
nodes:
  - names: ["gpu-a*"]
    labels: {topology.gangline.dev/rack: r1, power-feed: f1}
  - names: [gpu-a07, "gpu-b0[1-4]"]
    islands: [0, 0, 1, 1]
    switches: [0, 0, 1, 1]
    sockets: [0, 0, 1, 1]
    nics: [{name: ib0, socket: 0, switch: 0}]
```""",
    "Levels need not nest: where racks lie across power feeds, required levels, slices and spread hold all the same. "
    "A node without a level's label is in none of its domains.",
)
_ROLES = (
    "## Gangs of several roles",
    "Roles with different shapes can be in each other's way: whoever asks for most GPUs may take those "
    "beside the only free CPUs. A placer tries the quick ways first, role after role. Where they fail, "
    "whichever placer the pool names, an exact search follows: it counts what each node, rack and block "
    "can hold of all roles together (whole GPUs, shares, memory, slices of cut cards, CPU, devices, places "
    "for tasks), with models, the required level, slices, spread and excluded nodes, so that a gang waits "
    "only when no way to seat it exists, and takes the smallest wanted level that holds it. `numa_least`, "
    "`numa_most` and `numa_balanced` still refuse a task that no single socket holds: that is their policy.",
    "The same search tells how many tasks fit together when a gang waits, and at the door whether the "
    "empty machines could ever hold it. Its work is bounded by what it looks at, never by time, so that "
    "equal questions have equal answers; a gang for which the bound is reached waits and is told so "
    "([decision 0022](decisions/0022-gangs-of-roles-are-counted-exactly.md)).",
    "A slice is of one GPU model; different slices may be on different models unless `same_model` is set.",
)
_VICTIMS = (
    "## Who makes way",
    "Where a job may take room from others, first come those who stop anyway, then members of elastic jobs "
    "beyond their smallest size, then pauses, then whole jobs: the lowest class and priority that suffices, "
    "of these the set that loses least work (GPU time since their start), on however many nodes it stands. "
    "Nobody goes unless the job then starts, nobody who could be spared, and nobody inside its protected time "
    "or a guarantee. Who comes for its own guarantee takes it from whoever borrowed most; of what each group "
    "gives, the least work is lost.",
    "Where up to eight jobs could go, every set of them is weighed. Where more could, the search is led by "
    "what fails and mostly proves that no cheaper set exists; it seats the job at most 256 times, less often "
    "on large pools, and keeps the best plan it has when that is used up ([decision "
    "0013](decisions/0013-behind-a-reservation.md)).",
)
_SCORING = (
    "## Scores of other schedulers",
    "They are computed as their sources compute them, and the tables of their own tests are ours "
    "(`tests/oracles`). Where a source decides for one pod at a time, the tasks of a gang are placed one "
    "after the other, and nothing is booked unless all of them fit.",
)
_CELLS = (
    "## Cells: guarantees of shape",
    "A count of GPUs does not say that eight of them are on one node. With the placement `cells` a pool "
    "owes groups parts of its topology:",
    "```yaml\n"
    "pools:\n"
    "  default:\n"
    "    policy: {placement: cells}\n"
    "    cells:\n"
    "      research: {rack: 1, node: 2}\n"
    "      vision: {socket: 4, node@H100: 1, node@zone=east: 1}\n"
    "    pinned:\n"
    "      robots: {group: vision, level: node, cell: n17}\n"
    "```",
    "`node@H100` asks for nodes whose GPUs are all of that model, `node@zone=east` for nodes with that label. A "
    "pinned cell is one part of the machines for good: only jobs of its group that ask for it by name "
    "(`pinned_cell: robots`) stand there.",
    "The promise is refused, with the level that lacks, unless all of it fits the machines. From then on "
    "a job that fits the cells its group has left starts in the round in which it comes, whatever ran "
    "before. Jobs of other groups use what is not promised. Opportunistic jobs may use promised cells and "
    "are sent away, whole jobs only, when the owner comes. When machines break and not everything fits "
    "any more, large cells are kept before small ones and groups in order of their names. A task lies in one "
    "cell, never over two small ones.",
    "Inside a group the more important job goes first. A job with `lazy_preemption: true` in its file then "
    "loses its cell, not its run: it goes on where it is as an opportunistic job, and the cell becomes another "
    "part of the machines, if there is one that is free or lent. Any other job is evicted whole, and its room is "
    "claimed. Should a still more important job come while that room is being cleared, it takes the claim "
    "over, without new victims.",
)
_LOAD = (
    "## Measured load",
    "`target_load` and `load_risk` read the summaries that telemetry writes to the log, so a decision can "
    "be repeated. A node without a summary from the last five minutes is judged by what its tasks asked "
    "for.",
)
_SLICES = (
    "## MIG",
    "`mig: 3g.20gb` asks for one slice of a card that is cut. Where an agent reads a real card, the slices are "
    "those that its administrator made: each is given by its place and its name (`MIG-...`), and a card is never "
    "cut anew by a job. Where a node is simulated, a card of a named geometry is cut as jobs come, at the slots "
    "at which the vendor lets each profile begin, so that most else still fits. `gangline nodes` and `GET "
    "/v1/nodes` show how a card is cut.",
)
_SEVERAL = (
    "## Several schedulers",
    "One leader decides a pool's rounds. Where it alone is too slow, several schedulers decide side by side "
    "(ParSync, ATC 2021): `gangline policy set schedulers=4`, and as many placement services as schedulers "
    "(`GANGLINE_PLACEMENT_SCHEDULERS_LED` lets one service be several). Each job of a round belongs to one "
    "scheduler, which places it on its own view of the nodes and appends what it placed. The fold books a gang if "
    "its nodes are still what the scheduler saw; otherwise it is a conflict and nothing is booked. Then the "
    "leader decides the rest of the round on the whole state: conflicts, who makes way, reservations, growth and "
    "all reasons. A scheduler that does not answer is waited for once (`GANGLINE_PLACEMENT_SHARE_WAIT_S`) and not "
    "again until it does.",
    "Nodes lie in `scheduler_partitions` partitions. With each round a scheduler synchronises one of them, "
    "another one than its neighbours (`scheduler_sync=full`: all at once, once per period). "
    "`scheduler_preference` says what it looks at first: `quality-first` takes the best place and a fresh one "
    "among equals, `latency-first` looks at the freshest partitions first, `adaptive` does so only while the jobs "
    "that it places have waited longer than `scheduler_delay_s`. Freshness avoids conflicts and costs packing; "
    "`make bench NAME=placement` shows both.",
    "What needs one order or one ledger stays with the leader: claims, reservations, strict levels. Pools that "
    "owe cells or lend room by leases have one scheduler. A scheduler stops at the first of its jobs that finds "
    "no room, so in the round in which a job is first refused, jobs of other schedulers that come after it may "
    "have started; from then on its reservation holds for all. `gangline policy show` and the metrics "
    "`gangline_share_commits_total` and `gangline_share_conflicts_total` count what became of the shares.",
)
