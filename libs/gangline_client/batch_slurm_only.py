"""Options of sbatch that change nothing here, or cannot be done: what the author of a script is told of each."""

_NOT_NEEDED = "is not needed here"
_PLACED = "how tasks lie on the parts of a node is the placement's to find"
_OUTPUT = (
    "no file is written: the platform keeps what both streams say, by task; read it with `gangline logs -f JOB`, "
    "and `gangline logs JOB > FILE` makes a file of it"
)
_MAIL = "nobody is mailed; follow with `gangline wait` or `gangline events`"
_AGAIN = (
    "lost nodes and preemption always start a job again; `#GANGLINE retries: N` is for failures, "
    "`#GANGLINE checkpoints: true` says that it then goes on where it stopped"
)
_CLOCKS = "clocks of CPUs and GPUs are left as they are"
_LABELS = "nodes are told apart by labels: `#GANGLINE node_selector: {key: value}`"
_BY_NAME = "a job is not tied to nodes by name; use labels: `#GANGLINE node_selector: {...}`"
_BUFFERS = "burst buffers are not offered; what nodes have is: `#GANGLINE devices: {name: 1}`"
_OTHERS = "`#GANGLINE user: NAME` submits for somebody else, where your token may"
_PER_TASK = "say what each task has: --gpus-per-task, --cpus-per-task, --mem"

NOTED = {
    "acctg-freq": _NOT_NEEDED,
    "comment": _NOT_NEEDED,
    "contiguous": _PLACED,
    "core-spec": _PLACED,
    "cores-per-socket": _PLACED,
    "cpu-bind": _PLACED,
    "cpu-freq": _CLOCKS,
    "delay-boot": _NOT_NEEDED,
    "distribution": _PLACED,
    "error": _OUTPUT,
    "extra": _NOT_NEEDED,
    "extra-node-info": _PLACED,
    "get-user-env": _NOT_NEEDED,
    "gpu-bind": _PLACED,
    "gpu-freq": _CLOCKS,
    "gres-flags": _PLACED,
    "hint": _PLACED,
    "ignore-pbs": _NOT_NEEDED,
    "kill-on-bad-exit": _NOT_NEEDED,
    "kill-on-invalid-dep": "a job whose predecessor ended the wrong way always ends",
    "mail-type": _MAIL,
    "mail-user": _MAIL,
    "mcs-label": _NOT_NEEDED,
    "mem-bind": _PLACED,
    "network": _NOT_NEEDED,
    "no-kill": _NOT_NEEDED,
    "no-requeue": _AGAIN,
    "ntasks-per-core": _PLACED,
    "ntasks-per-socket": _PLACED,
    "open-mode": _OUTPUT,
    "output": _OUTPUT,
    "oversubscribe": _NOT_NEEDED,
    "parsable": "`gangline submit -o name` prints the number alone",
    "power": _NOT_NEEDED,
    "prefer": "labels are required or not asked for; `#GANGLINE topology: {preferred: rack}` is a wish",
    "profile": _NOT_NEEDED,
    "propagate": _NOT_NEEDED,
    "quiet": _NOT_NEEDED,
    "requeue": _AGAIN,
    "resv-ports": "a gang has a port of its own, `MASTER_PORT`",
    "sockets-per-node": _PLACED,
    "spread-job": _PLACED,
    "stepmgr": _NOT_NEEDED,
    "thread-spec": _PLACED,
    "threads-per-core": _PLACED,
    "time-min": "a time limit is not shortened; `#GANGLINE estimate: 1h` tells how long you think it runs",
    "tres-bind": _PLACED,
    "use-min-nodes": _PLACED,
    "verbose": _NOT_NEEDED,
    "wait": "`gangline submit --wait` waits for the end",
    "wait-all-nodes": _NOT_NEEDED,
    "wckey": _NOT_NEEDED,
}
"""Long name of each option that asks for nothing that a job would lack -> what is so instead."""

REFUSED = {
    "batch": _LABELS,
    "bb": _BUFFERS,
    "bbf": _BUFFERS,
    "cluster-constraint": "there is one cluster; choose a pool with --partition",
    "clusters": "there is one cluster; choose a pool with --partition",
    "constraint": _LABELS,
    "container": "where the platform runs containers, `#GANGLINE image: NAME` is what a job runs in",
    "container-id": "where the platform runs containers, `#GANGLINE image: NAME` is what a job runs in",
    "exclusive": "whole nodes are not set aside; ask for all GPUs of a node, or a window (`gangline window`)",
    "export-file": "write the variables themselves, as in --export=NAME=VALUE",
    "gid": _OTHERS,
    "gpus-per-socket": _PER_TASK,
    "input": "write `< FILE` behind the command that reads it",
    "licenses": "licences are not counted; what nodes have is: `#GANGLINE devices: {name: 1}`",
    "mincpus": _PER_TASK,
    "nice": "write `--priority=-N`; higher goes first",
    "nodefile": _BY_NAME,
    "nodelist": _BY_NAME,
    "ntasks-per-gpu": "say how many GPUs each task has: --ntasks with --gpus-per-task",
    "overcommit": "tasks may ask for parts of a CPU: `#GANGLINE cpus: 0.5`",
    "reboot": "nodes are not started anew for a job",
    "reservation": "dated capacity opens by itself to whom it is for; see `gangline window`",
    "segment": "ask for slices of a gang: `#GANGLINE topology: {slices: {tasks: 4, level: rack}}`",
    "switches": "ask for closeness by level: `#GANGLINE topology: {preferred: rack}`",
    "test-only": "ask with `gangline submit --dry-run`",
    "tmp": "room on disks is not counted; use labels: `#GANGLINE node_selector: {key: value}`",
    "tres-per-task": _PER_TASK,
    "uid": _OTHERS,
    "wrap": "write the command itself below the header, or `gangline run -- COMMAND`",
}
"""Long name of each option that would be missed -> what to write instead."""

FLAGS = frozenset(
    {"contiguous", "exclusive", "get-user-env", "ignore-pbs", "kill-on-bad-exit", "nice", "no-kill", "no-requeue"}
    | {"overcommit", "oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue", "resv-ports"}
    | {"spread-job", "stepmgr", "test-only", "use-min-nodes", "verbose", "wait"}
)
"""Those of them without a value, or whose value stands behind = only."""
