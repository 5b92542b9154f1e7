"""Batch scripts of Slurm users: what their header lines mean here, and what they are told when one means nothing."""

import subprocess
from typing import Any

import pytest

from gangline_client.batch_script import Script, read_script
from gangline_client.batch_terms import FLAGS, SHORT, TERMS
from gangline_client.errors import InputError
from gangline_core.spec import DependencyKind
from gangline_wire.jobfile import parse_job

NOW_MS = 1_700_000_000_000


def read(*lines: str, first: str = "#!/bin/bash", body: str = "python train.py") -> Script:
    text = "\n".join([first, *lines, body, ""])
    return read_script(text, "train.sh", environ={"PATH": "/opt", "X": "1"}, folder="/data/ann", now_ms=NOW_MS)


def document(*lines: str) -> dict[str, Any]:
    return read(*lines).document


def faults(*lines: str, first: str = "#!/bin/bash") -> str:
    with pytest.raises(InputError) as caught:
        read(*lines, first=first)
    return str(caught.value)


def test_a_usual_header_becomes_the_job_it_describes() -> None:
    found = document(
        "#SBATCH --job-name=resnet   # the usual one",
        "#SBATCH -p gpu -A research/vision",
        "#SBATCH --nodes=2 --ntasks-per-node 4",
        "#SBATCH --gres=gpu:a100:4",
        "#SBATCH -c8",
        "#SBATCH --mem=64G",
        "#SBATCH -t 1-12:30:00",
        "#SBATCH --array=0-15%4",
        "#SBATCH --dependency=afterok:12:13,afterany:14_2",
        "#SBATCH --qos high --signal=B:USR1@90",
        "##SBATCH --nodes=64",
        "# a remark",
        "#GANGLINE topology: {preferred: rack}",
        "#GANGLINE retries: 3",
    )
    job = parse_job(found)
    (role,) = job.roles
    assert (job.name, job.pool, job.group, job.level) == ("resnet", "gpu", "research/vision", "high")
    assert (role.count, role.resources.gpu_milli, role.resources.gpu_models) == (8, 1000, ("a100",))
    assert (role.resources.cpu_milli, role.resources.memory_mib) == (8000, 16_384)
    assert job.time_limit_s + job.grace_s == 36 * 3600 + 1800
    assert job.array is not None
    assert job.array.at_most == 4
    assert [(one.job, one.kind) for one in job.after] == [
        (12, DependencyKind.OK),
        (13, DependencyKind.OK),
        (14, DependencyKind.ANY),
    ]
    assert (job.stop_signal, job.grace_s) == ("SIGUSR1", 90)
    assert (job.topology.preferred, job.retries) == ("rack", 3)
    assert role.environment["PATH"] == "/opt"
    assert job.attributes["workdir"] == "/data/ann"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("90:30", 5430), ("1:30:00", 5400), ("2-0", 172_800), ("0-1:30", 5400), ("1-0:0:1", 86_401)],
)
def test_times_are_read_as_slurm_reads_them(text: str, seconds: int) -> None:
    assert parse_job(document(f"#SBATCH --time={text}")).time_limit_s == seconds


@pytest.mark.parametrize("text", ["0", "UNLIMITED", "infinite"])
def test_no_limit_is_no_limit(text: str) -> None:
    assert "time_limit" not in document(f"#SBATCH -t {text}")


@pytest.mark.parametrize(
    ("lines", "tasks", "gpus"),
    [
        (("#SBATCH -N 4", "#SBATCH --gpus-per-node=8"), 4, 8),
        (("#SBATCH -n 8", "#SBATCH --gpus=8"), 8, 1),
        (("#SBATCH -n 8", "#SBATCH --gpus-per-task=h100:2"), 8, 2),
        (("#SBATCH -N 2-2", "#SBATCH -n 8", "#SBATCH --gres=gpu:4"), 8, 1),
        (("#SBATCH --gres=gpu",), 1, 1),
        ((), 1, 0),
    ],
)
def test_gpus_are_those_of_each_task_however_they_were_counted(lines: tuple[str, ...], tasks: int, gpus: int) -> None:
    found = document(*lines)
    assert (found["tasks"], found.get("gpus", 0)) == (tasks, gpus)


def test_memory_counts_per_node_per_cpu_or_per_gpu() -> None:
    assert document("#SBATCH --mem=4096", "#SBATCH --ntasks=2")["memory"] == "2048Mi"
    assert document("#SBATCH --mem-per-cpu=2G", "#SBATCH -c 4")["memory"] == "8192Mi"
    assert document("#SBATCH --mem-per-gpu=32G", "#SBATCH -G 2")["memory"] == "65536Mi"


def test_every_line_that_cannot_be_done_is_told_with_its_number() -> None:
    told = faults(
        "#SBATCH --ntask=4", "#SBATCH --exclusive", "#SBATCH --time=soon", "#SBATCH --mem", "#GANGLINE nonsense"
    )
    for part in (
        "line 2: --ntask is no option that is known here; did you mean --ntasks?",
        "line 3: --exclusive: whole nodes are not set aside",
        "line 4: 'soon' is no time",
        "line 5: --mem needs a value",
        "line 6: #GANGLINE is followed by a field",
    ):
        assert part in told


def test_what_does_not_go_together_is_told_in_the_same_go_as_lines_that_cannot_be_done() -> None:
    told = faults("#SBATCH --gpus=3 --nodes=2", "#SBATCH --exclusive", "#SBATCH --array=9-1", "#SBATCH --colour=red")
    for part in (
        "3 GPUs cannot be shared evenly among 2 tasks",
        "line 3: --exclusive: whole nodes are not set aside",
        'line 4: --array: "9-1" must go up',
        "line 5: --colour is no option",
    ):
        assert part in told


@pytest.mark.parametrize("lost", ["--ntask=3", "--ntasks=three", "--ntasks", '--ntasks="3'])
def test_a_count_that_cannot_be_read_is_told_alone_and_nothing_is_said_of_what_is_shared(lost: str) -> None:
    told = faults("#SBATCH --gpus=3 --nodes=2", f"#SBATCH {lost}")
    assert "line 3" in told
    assert "evenly" not in told


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --array=1-4%0",
        "#SBATCH --array=3,1",
        "#SBATCH --array=red",
        "#SBATCH -p a,b",
        "#SBATCH -n 0",
        "#SBATCH -N 2-4",
        "#SBATCH --gpus=3 -n 2",
        "#SBATCH --dependency=after:3",
        "#SBATCH --dependency=afterok:3?afterok:4",
        "#SBATCH --dependency=aftercorr:3",
        "#SBATCH --signal=KILL@9",
        "#SBATCH --begin=tomorrow",
        "#SBATCH --export=A-B",
        "#SBATCH --gres=gpu:2:3:4",
        '#SBATCH --job-name="open',
        "#SBATCH train.py",
    ],
)
def test_what_means_nothing_here_is_refused(line: str) -> None:
    assert faults(line)


def test_what_is_not_needed_is_noted_and_not_refused() -> None:
    notes = read("#SBATCH -o out.%j --mail-type=END --requeue", body="srun python train.py\n#SBATCH -n 4").notes
    assert [note.partition(":")[0] for note in notes] == [
        "line 3",
        "line 4 stands after the first command and does not count",
    ] + ["line 2"] * 3
    assert any("`#GANGLINE checkpoints: true`" in note for note in notes)
    assert document("#GANGLINE checkpoints: true")["checkpoints"] is True


def test_variables_are_passed_on_as_export_says() -> None:
    assert "PATH" not in document("#SBATCH --export=NONE")["env"]
    found = document("#SBATCH --export=ALL,X,Y=2")["env"]
    assert (found["PATH"], found["X"], found["Y"]) == ("/opt", "1", "2")


def test_moments_are_told_from_now() -> None:
    assert document("#SBATCH --begin=now+2hours")["not_before"] == NOW_MS + 7_200_000
    assert document("#SBATCH --deadline=2026-07-01T02:00:00Z")["deadline"] == 1_782_871_200_000


def test_the_script_runs_with_its_interpreter_and_finds_the_names_it_knows() -> None:
    command = read(
        "#SBATCH -J x", first="#!/usr/bin/env bash", body='echo "$SLURM_ARRAY_TASK_ID of $SLURM_PROCID"'
    ).document["command"]
    ran = subprocess.run(
        command,
        env={"GANGLINE_ARRAY_INDEX": "7", "RANK": "3", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert ran.stdout == b"7 of 3\n"
    python = read(first="#!/usr/bin/python3", body="print(6 * 7)").document["command"]
    assert python[:2] == ["/usr/bin/python3", "-c"]
    assert "cannot run a script" in faults(first="#!/usr/bin/perl")


def in_task(rank: int, body: str, *, shell: str = "/bin/sh") -> str:
    """What a task of this script prints."""
    command = read("#SBATCH -n 4", first=f"#!{shell}", body=body).document["command"]
    env = {
        "RANK": str(rank),
        "WORLD_SIZE": "4",
        "PATH": "/usr/bin:/bin",
        "GANGLINE_NODES": "n1,n2",
        "GANGLINE_NODE_ADDRESSES": "10.0.0.1,10.0.0.2",
        "GANGLINE_JOB_ATTEMPT": "3",
    }
    return subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize(
    "options",
    [
        *("", "-n 4", "--ntasks=4 --exclusive", "-N2 -n4 --label", "-l -u --mpi=pmix", "--cpu-bind=none --"),
        *("-c 8 --gres gpu:1", "--kill-on-bad-exit=1", "-K -p gpu", "--unbuffered --output out.%t"),
    ],
)
def test_srun_runs_its_command_right_there_whatever_its_options(options: str, shell: str) -> None:
    assert in_task(2, f'srun {options} printf "%s." "a b" -n 1', shell=shell) == "a b.-n.1."


def test_srun_of_fewer_tasks_runs_in_the_first_ones_and_keeps_the_exit_code() -> None:
    for options in ("-n 1", "-n1", "--ntasks=1", "--ntasks 1 -N 1"):
        assert in_task(0, f"srun {options} echo once") == "once\n"
        assert in_task(1, f"srun {options} echo once; echo all") == "all\n"
    assert in_task(0, "srun -n 4 sh -c 'exit 7'; echo $?") == "7\n"


def test_a_script_meets_at_the_first_node_as_under_slurm() -> None:
    body = 'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1; echo $SLURM_JOB_NODELIST $SLURM_RESTART_COUNT'
    assert in_task(0, body) == "10.0.0.1\nn1,n2 2\n"
    assert in_task(0, "scontrol show job 1 2>&1 || echo no").endswith("ask `gangline` here\nno\n")


def test_who_is_told_before_the_end_is_over_at_the_time_that_was_asked_for_as_under_slurm() -> None:
    told = document("#SBATCH --time=12:00:00 --signal=B:USR1@600")
    assert (told["time_limit"], told["grace"]) == ("11h50m", "10m")
    assert document("#SBATCH --signal=USR1@60", "#SBATCH -t 2")["time_limit"] == "1m"
    assert document("#SBATCH --signal=USR1@600 --time=5")["time_limit"] == "5m"
    assert document("#SBATCH --time=5")["time_limit"] == "5m"


def test_options_that_only_bind_are_noted_and_those_of_slurm_alone_say_what_to_write() -> None:
    lines = ("#SBATCH -m block --hint=nomultithread --gpu-bind=closest -s --propagate=NONE -k --mem-bind local",)
    notes = read(*lines, "#SBATCH --gpus=2 --cpus-per-gpu=4").notes
    assert any("the placement's to find" in note for note in notes)
    told = document("#SBATCH --gpus=2 --cpus-per-gpu=4")
    assert (told["gpus"], told["cpus"], told["env"]["SLURM_CPUS_PER_GPU"]) == (2, 8, "4")
    assert "--priority" in faults("#SBATCH --nice=100")
    assert "--gpus-per-task" in faults("#SBATCH --ntasks-per-gpu=2")
    assert "devices" in faults("#SBATCH -L matlab:1")


PYTORCH = """nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head=${nodes[0]}
head_ip=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address)
srun echo torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE --rdzv_id $RANDOM \\
  --node_rank $SLURM_NODEID --rdzv_endpoint $head_ip:29500
"""


def test_tasks_of_a_script_meet_by_the_numbers_of_its_header_and_draw_the_same() -> None:
    """PyTorch's page on Slurm does it like this: whoever draws another name of the meeting waits for ever."""
    options = ("#SBATCH --nodes=2 --ntasks=2", "#SBATCH --gpus-per-task=4 --mem=64G")
    read_in = read(*options, first="#!/bin/bash", body=PYTORCH).document
    said = []
    for rank in (0, 1):
        env = {
            **read_in["env"],
            **{"RANK": str(rank), "PATH": "/usr/bin:/bin", "GANGLINE_JOB_ID": "42", "GANGLINE_NODE_RANK": "0"},
            **{"GANGLINE_NODES": "n1", "GANGLINE_NODE_ADDRESSES": "10.0.0.1"},
        }
        ran = subprocess.run(read_in["command"], env=env, capture_output=True, check=True, text=True)
        said.append(ran.stdout.split())
    first, second = said
    assert first[1:5] == ["--nnodes", "2", "--nproc_per_node", "4"]
    assert (first[8], second[8]) == ("0", "1")
    assert first[-1] == "10.0.0.1:29500"
    assert first[:8] == second[:8]
    assert first[9:] == second[9:]
    assert {name: read_in["env"][name] for name in ("SLURM_MEM_PER_NODE", "SLURM_NTASKS_PER_NODE")} == {
        "SLURM_MEM_PER_NODE": "65536",
        "SLURM_NTASKS_PER_NODE": "1",
    }


RAY = """nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
srun --nodes=1 --ntasks=1 -w "${nodes[0]}" echo head
for node in "${nodes[@]:1}"; do srun -N1 -n1 --nodelist="$node" echo worker of ${nodes[0]}; done
srun -w n2 echo by name
"""


def test_srun_with_nodes_runs_on_those_only_as_ray_is_started() -> None:
    command = read("#SBATCH -N 2 -n 4", first="#!/bin/bash", body=RAY).document["command"]
    said = []
    for rank in range(4):
        env = {
            **{"RANK": str(rank), "LOCAL_RANK": str(rank % 2), "PATH": "/usr/bin:/bin", "GANGLINE_NODES": "n1,n2"},
            **{"GANGLINE_NODE": f"n{rank // 2 + 1}", "GANGLINE_NODE_RANK": str(rank // 2)},
            **{"GANGLINE_NODE_ADDRESSES": "10.0.0.1,10.0.0.2"},
        }
        said.append(subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout)
    assert said == ["head\n", "", "worker of 10.0.0.1\nby name\n", "by name\n"]


def test_where_the_header_counts_no_nodes_they_are_those_that_the_tasks_came_to() -> None:
    for shell in ("/bin/sh", "/bin/bash"):
        assert in_task(3, "echo $SLURM_NNODES $SLURM_JOB_NUM_NODES", shell=shell) == "2 2\n"
    assert "retries: 3" in in_task(0, "scontrol requeue 7 2>&1 || true")


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_script_finds_when_it_will_be_stopped(shell: str) -> None:
    body = "echo $((SLURM_JOB_END_TIME - SLURM_JOB_START_TIME)) $(($(date +%s) - SLURM_JOB_START_TIME < 600))"
    command = read("#SBATCH -n 1", first=f"#!{shell}", body=body).document["command"]
    limited = {"PATH": "/usr/bin:/bin", "GANGLINE_JOB_TIME_LIMIT_S": "3600"}
    assert subprocess.run(command, env=limited, capture_output=True, check=True).stdout == b"3600 1\n"
    # Who has no limit has no such end.
    assert in_task(0, 'echo "${SLURM_JOB_END_TIME-none}"', shell=shell) == "none\n"


def test_lines_of_a_script_keep_their_numbers() -> None:
    command = read("#SBATCH -n 1", first="#!/bin/bash", body="echo $LINENO").document["command"]
    ran = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True)
    assert ran.stdout == b"3\n"


OF_SBATCH = (
    "account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint container "
    "container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot "
    "dependency distribution error exclude exclusive export export-file extra extra-node-info get-user-env gid "
    "gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint hold ignore-pbs "
    "input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu "
    "mem-per-gpu mincpus network nice no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core "
    "ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output overcommit oversubscribe parsable "
    "partition power prefer priority profile propagate qos quiet reboot requeue reservation resv-ports segment "
    "signal sockets-per-node spread-job stepmgr switches test-only thread-spec threads-per-core time time-min tmp "
    "tres-bind tres-per-task uid use-min-nodes verbose wait wait-all-nodes wckey wrap "
)
"""The long options of its manual, but for those that ask it about itself."""


def test_every_option_of_sbatch_is_known_so_that_none_is_taken_for_a_slip_of_the_pen() -> None:
    assert not [option for option in OF_SBATCH.split() if option not in TERMS]
    assert "no option that is known" in faults("#SBATCH --ntask=2")


def test_a_script_with_many_options_is_taken_and_each_note_names_its_option() -> None:
    notes = read(
        "#SBATCH --ntasks-per-socket=1 --ntasks-per-core=1 --time-min=00:01:00 --kill-on-invalid-dep=yes --parsable -W",
        "#SBATCH --core-spec=0 --use-min-nodes --cpu-freq=high -B 1:4:2 -v --resv-ports -n 2 -c 3",
    )
    assert (notes.document["tasks"], notes.document["cpus"]) == (2, 3)
    assert "line 2: --time-min: a time limit is not shortened" in " ".join(notes.notes)
    assert [note.split()[2] for note in notes.notes if note.startswith("line 3")] == [
        "--core-spec:",
        "--use-min-nodes:",
        "--cpu-freq:",
        "--extra-node-info:",
        "--verbose:",
        "--resv-ports:",
    ]


def test_what_would_be_missed_says_what_to_write_instead() -> None:
    told = faults("#SBATCH --tmp=1G --mincpus=4 --container=x -F nodes.txt -O --nice", "#SBATCH --tres-per-task=cpu:4")
    for words in ("--tmp: room on disks", "--mincpus: say what", "`#GANGLINE image", "--nodefile: a job", "cpus: 0.5"):
        assert words in told
    assert "--priority" in told
    assert "line 3: --tres-per-task: say what each task has" in told


def test_every_option_has_a_meaning_and_every_short_name_an_option() -> None:
    assert set(TERMS) >= FLAGS
    assert set(SHORT.values()) <= set(TERMS)
