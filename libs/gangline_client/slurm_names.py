"""What a batch script finds of Slurm: variables of its names, and the commands that stand in most of them."""

from collections.abc import Mapping

SLURM_NAMES = {
    "SLURM_JOB_ID": "GANGLINE_JOB_ID",
    "SLURM_JOBID": "GANGLINE_JOB_ID",
    "SLURM_JOB_NAME": "GANGLINE_JOB_NAME",
    "SLURM_NTASKS": "WORLD_SIZE",
    "SLURM_PROCID": "RANK",
    "SLURM_LOCALID": "LOCAL_RANK",
    "SLURM_NPROCS": "WORLD_SIZE",
    "SLURM_NODEID": "GANGLINE_NODE_RANK",
    "SLURMD_NODENAME": "GANGLINE_NODE",
    "SLURM_JOB_NODELIST": "GANGLINE_NODES",
    "SLURM_NODELIST": "GANGLINE_NODES",
    "SLURM_JOB_PARTITION": "GANGLINE_POOL",
    "SLURM_JOB_ACCOUNT": "GANGLINE_GROUP",
    "SLURM_JOB_USER": "GANGLINE_JOB_USER",
    "SLURM_ARRAY_JOB_ID": "GANGLINE_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID": "GANGLINE_ARRAY_INDEX",
    "SLURM_ARRAY_TASK_COUNT": "GANGLINE_ARRAY_SIZE",
    "SLURM_ARRAY_TASK_MIN": "GANGLINE_ARRAY_FIRST",
    "SLURM_ARRAY_TASK_MAX": "GANGLINE_ARRAY_LAST",
    "SLURM_ARRAY_TASK_STEP": "GANGLINE_ARRAY_STEP",
}
"""What scripts ask for -> what says the same here; shells find both."""

SRUN_FLAGS = (
    "--exclusive|--exact|--overlap|--label|--unbuffered|--quiet|--verbose|--pty|--no-kill|--preserve-env|"
    "--kill-on-bad-exit|--disable-status|-[lvuQEsXkHOK]"
)
"""Options of srun without a value, as a pattern of the shell; others take one unless it is attached."""
SHELL_WORDS = (
    "export SLURM_RESTART_COUNT=$((${GANGLINE_JOB_ATTEMPT:-1} - 1)); "
    # Programs save their work in time by it; a limit that is changed while they run they do not hear of.
    "export SLURM_JOB_START_TIME=$(date +%s); [ ${GANGLINE_JOB_TIME_LIMIT_S:-0} -eq 0 ] || "
    "export SLURM_JOB_END_TIME=$((${SLURM_JOB_START_TIME:-0} + GANGLINE_JOB_TIME_LIMIT_S)); "
    # Where the header says how many nodes there are, tasks are counted on as many; else on those that they came to.
    '[ -z "${SLURM_NTASKS_PER_NODE-}" ] || export SLURM_NODEID=$((${RANK:-0} / SLURM_NTASKS_PER_NODE)); '
    '[ -n "${SLURM_NNODES-}" ] || '
    "export SLURM_NNODES=$(printf '%s\\n' \"${GANGLINE_NODES-}\" | tr , '\\n' | grep -c .); "
    "export SLURM_JOB_NUM_NODES=$SLURM_NNODES; "
    # Under sbatch a script runs once, and what it draws (the name of a meeting, a port) is the same for all tasks.
    "RANDOM=$((${GANGLINE_JOB_ID:-0} * 31 + ${GANGLINE_ARRAY_INDEX:-0} * 7 + ${GANGLINE_JOB_ATTEMPT:-1})); "
    # The script runs in every task, so srun has nothing to start but its command, here; tasks beyond -n have no part.
    # With -w it runs on those nodes only; who asks one for its name or address has it already.
    "srun() { gangline_n=; gangline_w=; while [ $# -gt 0 ]; do case $1 in --) shift; break;; "
    "-w|--nodelist) gangline_w=${2-}; shift; [ $# -eq 0 ] || shift;; "
    "--nodelist=*) gangline_w=${1#*=}; shift;; -w?*) gangline_w=${1#-w}; shift;; "
    "-n|--ntasks) gangline_n=${2-}; shift; [ $# -eq 0 ] || shift;; "
    "--ntasks=*) gangline_n=${1#*=}; shift;; -n[0-9]*) gangline_n=${1#-n}; shift;; "
    f"--*=*|{SRUN_FLAGS}) shift;; --*|-[A-Za-z]) shift; [ $# -eq 0 ] || shift;; -*) shift;; *) break;; esac; done; "
    'if [ -n "$gangline_w" ]; then '
    'if [ "${1-}" = hostname ]; then printf "%s\\n" "$gangline_w"; return; fi; '
    'case ",$gangline_w," in *",${GANGLINE_NODE-},"*|'
    "*\",$(printf '%s\\n' \"${GANGLINE_NODE_ADDRESSES-}\" | tr , '\\n' | "
    'sed -n "$((${GANGLINE_NODE_RANK:-0} + 1))p"),"*) '
    '[ "${LOCAL_RANK:-0}" -ge "${gangline_n:-1000000}" ] || "$@";; esac; return; fi; '
    '[ "${RANK:-0}" -ge "${gangline_n:-1000000}" ] 2>/dev/null || "$@"; }; '
    # Whoever asks for the names of the nodes does so to reach them.
    "scontrol() { case \"$1 ${2-}\" in 'show hostnames'|'show hostname') "
    "printf '%s\\n' \"${GANGLINE_NODE_ADDRESSES-}\" | tr , '\\n';; "
    "requeue*) echo 'scontrol requeue: leave with a code that is not 0, and say `#GANGLINE retries: 3`, "
    "for a job that starts again' >&2; return 1;; "
    '*) echo "scontrol $*: ask \\`gangline\\` here" >&2; return 1;; esac; }'
)
"""What a shell script is given besides, on the line of its interpreter, so that all others keep their numbers."""
COUNTED = {
    "cpus": "SLURM_CPUS_PER_TASK",
    "cpus_per_gpu": "SLURM_CPUS_PER_GPU",
    "gpus": "SLURM_GPUS",
    "gpus_per_node": "SLURM_GPUS_PER_NODE",
    "gpus_per_task": "SLURM_GPUS_PER_TASK",
    "memory": "SLURM_MEM_PER_NODE",
    "memory_per_cpu": "SLURM_MEM_PER_CPU",
    "memory_per_gpu": "SLURM_MEM_PER_GPU",
}
"""What the header counts -> the variable in which a script finds it; memory in MiB."""


def first_line() -> str:
    """One line that lets a shell script find what it would look for under Slurm."""
    given = " ".join(f'{theirs}="${{{ours}-}}"' for theirs, ours in SLURM_NAMES.items())
    return f"export {given}; {SHELL_WORDS}"


def told(counts: Mapping[str, int], nodes: int, per_node: int, gpus: int) -> dict[str, str]:
    """Variables that tell a script what its header says; tasks that share a node are counted as it says, too."""
    found = {variable: counts[name] for name, variable in COUNTED.items() if name in counts}
    if nodes or per_node:
        found |= {"SLURM_NNODES": nodes or 1, "SLURM_NTASKS_PER_NODE": per_node or 1}
    if gpus:
        found |= {"SLURM_GPUS_ON_NODE": gpus * max(1, per_node)}
    return {variable: str(value) for variable, value in found.items()}
