"""What hands that know Slurm, kubectl or other tools type, and what does the same here."""

from difflib import get_close_matches

from gangline_client.verbs import HANDOVERS, VERBS

_INSIDE = (
    "a job has no terminal of its own; how to work in one, with a notebook or a shell, stands in docs/steering-jobs.md"
)
_RESTART = "gangline rerun JOB, once it ended, or gangline hold JOB and gangline release JOB, while it runs"
_SETTINGS = "gangline policy, quota and token for the platform's, gangline context for yours"
_LISTS = "gangline quota, or gangline usage"
VERBS_OF_OTHERS = {
    "sbatch": "gangline submit SCRIPT",
    "srun": "gangline run -- COMMAND",
    "salloc": "gangline run -- COMMAND",
    "squeue": "gangline queue, or gangline show",
    "sinfo": "gangline nodes",
    "scancel": "gangline cancel JOB",
    "sacct": "gangline show --all, or gangline usage",
    "sprio": "gangline why JOB",
    "sshare": "gangline usage",
    "sreport": "gangline usage",
    "sstat": "gangline show JOB",
    "sdiag": "gangline status",
    "sacctmgr": "gangline quota",
    "scontrol": "gangline show JOB, edit, hold, release, top, rerun, nodes, drain or window",
    "qsub": "gangline submit SCRIPT",
    "qstat": "gangline queue, or gangline show",
    "qdel": "gangline cancel JOB",
    "get": "gangline show, nodes, queue or quota",
    "describe": "gangline show JOB, or gangline why JOB",
    "explain": "gangline why JOB",
    "delete": "gangline cancel JOB",
    "kill": "gangline cancel JOB",
    "stop": "gangline cancel JOB, or gangline suspend JOB",
    "down": "gangline cancel JOB; Ctrl-C stops the platform itself",
    "apply": "gangline submit FILE, or gangline policy apply FILE",
    "create": "gangline submit FILE",
    "launch": "gangline run -- COMMAND, or gangline submit FILE",
    "ps": "gangline show",
    "ls": "gangline show",
    "list": "gangline show",
    "info": "gangline show JOB",
    "jobs": "gangline show",
    "job": "gangline show JOB",
    "history": "gangline show --all; for one job gangline show JOB",
    "log": "gangline logs JOB",
    "tail": "gangline logs -f JOB",
    "cat": "gangline logs JOB",
    "watch": "gangline events, gangline logs -f JOB, or watch gangline queue",
    "start": "gangline up",
    "requeue": _RESTART,
    "restart": _RESTART,
    "retry": "gangline rerun JOB",
    "unhold": "gangline release JOB",
    "scale": "gangline resize JOB SIZE",
    "cordon": "gangline drain NODE",
    "uncordon": "gangline resume NODE",
    "undrain": "gangline resume NODE",
    "gpu": "gangline nodes",
    "gpus": "gangline nodes",
    "node": "gangline nodes",
    "pool": "gangline policy show",
    "pools": "gangline policy show",
    "group": _LISTS,
    "groups": _LISTS,
    "account": _LISTS,
    "accounts": _LISTS,
    "user": _LISTS,
    "users": _LISTS,
    "stats": "gangline status, or gangline usage",
    "login": "gangline context",
    "config": _SETTINGS,
    "settings": _SETTINGS,
    "lint": "gangline submit --dry-run FILE, or gangline policy lint FILE",
    "validate": "gangline submit --dry-run FILE, or gangline policy lint FILE",
    "console": "a page in the browser, whose address `gangline up` prints",
    "dashboard": "a page in the browser, whose address `gangline up` prints",
}
"""Verbs of others -> what does the same here."""

_NODES = "a job is not tied to nodes by name; use labels: `--node-selector LABEL=VALUE`"
_GPUS = "`--gpus N`, of each task, and `--gpu-model MODEL`"
_TASKS = "`--tasks N`, of which several may share a node"
_IMAGE = "`image` in a job file, where the platform runs containers"
FLAGS_OF_OTHERS = {
    "account": "`--group PATH`",
    "chdir": "`--workdir FOLDER`",
    "constraint": "`--node-selector LABEL=VALUE`",
    "container-image": _IMAGE,
    "cpus-per-gpu": "`--cpus N`, of each task",
    "cpus-per-task": "`--cpus N`",
    "dependency": "`--after afterok:JOB`",
    "error": "`gangline logs JOB > FILE`, since the platform keeps what jobs write",
    "exclude": "`exclude_nodes` in a job file",
    "export": "`--env NAME=VALUE`",
    "file": "`gangline submit FILE`",
    "follow": "what `gangline run` does anyway",
    "gpus-per-node": _GPUS,
    "gpus-per-task": _GPUS,
    "gres": _GPUS,
    "image": _IMAGE,
    "job-name": "`--name NAME`",
    "mem-per-cpu": "`--memory SIZE`, of each task",
    "mem-per-gpu": "`--memory SIZE`, of each task",
    "nodefile": _NODES,
    "nodelist": _NODES,
    "nodes": _TASKS,
    "ntasks": "`--tasks N`",
    "ntasks-per-node": _TASKS,
    "num-nodes": _TASKS,
    "output": "`gangline logs JOB > FILE`, since the platform keeps what jobs write",
    "partition": "`--pool POOL`",
    "qos": "`--level LEVEL`",
    "shell": "a shell as the command: `-- sh -c 'first && second'`",
    "signal": "`stop_signal` in a job file, and `--grace TIME`",
    "use-spot": "`--checkpoints`, for jobs that may be stopped and go on where they stopped",
    "user": "`user` in a job file, where your token may",
    "wait": "what `gangline run` does anyway",
}
"""Flags that others take where `gangline run` takes none of that name -> what it is here."""
INSIDE_FLAGS = ("pty", "interactive", "tty", "it", "ti", "stdin")
"""Flags that ask for a terminal in the job."""
INSIDE_VERBS = ("ssh", "exec", "attach", "sattach", "shell", "notebook", "jupyter", "interactive")
"""Verbs that do."""


def no_verb(word: str) -> str:
    """What to say of a word that is no verb."""
    begun = [each.name for each in HANDOVERS]
    if word in begun:
        return f"{word} comes first, before all flags: `gangline {word} [FLAGS]`"
    if word in INSIDE_VERBS:
        return f"there is no verb {word}: {_INSIDE}"
    if word in VERBS_OF_OTHERS:
        return f"there is no verb {word}; here it is {VERBS_OF_OTHERS[word]}"
    near = get_close_matches(word, [*begun, *(verb.name for verb in VERBS)], n=1, cutoff=0.7)
    return f"there is no verb {word}{f'; did you mean {near[0]}?' if near else '.'} See `gangline --help`."


def no_flag_of_run(word: str) -> str:
    """What to say of a flag that `gangline run` does not know, such as one of srun, docker or SkyPilot."""
    from gangline_client.batch_slurm_only import NOTED, REFUSED  # only who errs waits for them
    from gangline_client.batch_terms import SHORT

    name = word.lstrip("-").partition("=")[0]
    long = name if word.startswith("--") or name in INSIDE_FLAGS else SHORT.get(name[:1], "")
    if long in INSIDE_FLAGS or word == "-i":
        return f"{word}: {_INSIDE}"
    if here := FLAGS_OF_OTHERS.get(long):
        return f"{word} is not known; here it is {here}"
    if why := NOTED.get(long) or REFUSED.get(long):
        return f"{word} is not known; {why.replace('#GANGLINE ', '')}"
    return f"{word} is not known here; see `gangline run --help`"


def no_flag_of_submit(word: str) -> str:
    """What to say of an option of sbatch that stands before the script and not in it."""
    from gangline_client.batch_terms import FIELDS, SHORT, TERMS  # only who errs waits for them

    name = word.lstrip("-").partition("=")[0]
    option = name if word.startswith("--") else SHORT.get(name[:1], "")
    if option == "wrap":
        return "a command is submitted with `gangline run --detach -- COMMAND ...`"
    if option not in TERMS:
        return f"{word} is not known here; see `gangline submit --help`"
    if option == "dependency":
        return "what a script waits for is told by `--after afterok:JOB`"
    field = FIELDS.get(option)
    here = f"; here it is `--set {field}=VALUE`" if field else ""
    return f"--{option} of sbatch stands in the script, as `#SBATCH --{option}=VALUE`{here}"
