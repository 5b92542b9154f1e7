"""Traces of other systems: each format is read in its own units, and a bad file is refused with line and column."""

import json
import re
from pathlib import Path

import pytest

from gangline_core.spec import ServiceClass, gpu_milli_wanted, task_count
from gangline_lab import philly
from gangline_lab.readers import READERS, read_trace
from gangline_lab.rows import TraceError
from gangline_lab.sim.workload import Workload

DATA = Path(__file__).parents[2] / "tools" / "bench" / "data"

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
SACCT = "JobID|JobName|User|Account|Partition|Submit|Start|End|State|Timelimit|AllocTRES\n"
SACCT_ROW = "7|train|ada|vision|gpu|2024-05-01T10:00:00|2024-05-01T10:05:00|2024-05-01T11:05:00|COMPLETED|1-02:00:00|"
TRES = "billing=4,cpu=32,gres/gpu=16,gres/gpu:a100=16,mem=256G,node=2"
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority\n"
)
CHRONUS = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
    "best_effort,job_type\n"
)
GAVEL = "ResNet-50 (batch size 64)\tpython3 main.py\timage\t--steps\t1\t2931\t2\t1\t-1.000000\t12.5\n"
SHOCKWAVE = "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t134583\t1\tgns\t1\t-1.000000\t1418\t3\n"
SWF = "; Version: 2.2\n1 5 10 100 4 -1 -1 8 200 -1 1 3 7 -1 1 1 -1 -1\n2 9 1 -1 4 -1 -1 4 200 -1 5 3 7 -1 1 1 -1 -1\n"


def read(folder: Path, kind: str, text: str) -> Workload:
    path = folder / f"t.{kind}"
    path.write_text(text, encoding="utf-8")
    return READERS[kind](path)


def test_philly_jobs_keep_their_clusters_as_groups() -> None:
    trace = read_trace(f"philly:{philly.JOB_LIST}")
    assert len(trace.arrivals) == 1000
    assert len(trace.groups) == 10
    assert trace.arrivals[0].work.run_ms == 8_570_000


def test_openb_pods_share_gpus_and_wait_for_their_models(tmp_path: Path) -> None:
    text = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "a,6000,12288,1,460,V100M16|V100M32,LS,Running,100,400,150\nb,0,0,2,1000,,BE,Failed,90,190,\n"
    )
    b, a = read(tmp_path, "openb", text).arrivals
    assert (a.at_ms, a.work.run_ms, gpu_milli_wanted(a.spec)) == (100_000, 250_000, 460)
    assert a.spec.roles[0].resources.gpu_models == ("V100M16", "V100M32")
    assert (b.work.run_ms, gpu_milli_wanted(b.spec)) == (100_000, 2000)
    assert b.spec.service_class == ServiceClass.OPPORTUNISTIC


def test_tiresias_times_are_seconds(tmp_path: Path) -> None:
    text = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n1,8,30,133,vgg11,147,23\n"
    one = read(tmp_path, "tiresias", text).arrivals[0]
    assert (one.at_ms, one.work.run_ms, one.spec.attributes["model"]) == (30_000, 147_000, "vgg11")


def test_muri_times_are_milliseconds_and_stages_become_attributes(tmp_path: Path) -> None:
    one = read(tmp_path, "muri", MURI + "0,4,1456,10,resnet18,128,926133,9,886,703,62,17,0\n").arrivals[0]
    assert (one.at_ms, one.work.run_ms) == (1456, 926_133)
    assert [one.spec.attributes[f"{stage}_ms"] for stage in ("iteration", "loading", "compute", "network")] == [
        886,
        703,
        62,
        17,
    ]


def test_chronus_times_are_minutes_and_deadlines_count_from_submission(tmp_path: Path) -> None:
    text = CHRONUS + "0,vc,4,12198,6910,resnet101,211,8,282,10,0,strict\n1,vc,4,12199,1,vgg,2,8,0,10,1,best\n"
    one, other = read(tmp_path, "chronus", text).arrivals
    assert (one.at_ms, one.work.run_ms, one.work.deadline_ms) == (12198 * 60_000, 211 * 60_000, 282 * 60_000)
    assert other.work.deadline_ms == 0
    assert other.spec.service_class == ServiceClass.OPPORTUNISTIC


def test_gavel_and_shockwave_jobs_are_steps_of_a_named_row(tmp_path: Path) -> None:
    one = read(tmp_path, "gavel", GAVEL).arrivals[0]
    assert (one.at_ms, one.work.steps, one.work.row, task_count(one.spec)) == (
        12_500,
        2931,
        "ResNet-50 (batch size 64)",
        2,
    )
    other = read(tmp_path, "shockwave", SHOCKWAVE).arrivals[0]
    assert (other.work.mode, other.work.batch_size, other.work.run_ms) == ("gns", 10, 1_418_000)


def test_pollux_replicas_are_tasks_of_one_gpu(tmp_path: Path) -> None:
    one = read(tmp_path, "pollux", "name,time,application,num_replicas,batch_size\nc-0,53,cifar10,6,2048\n").arrivals[0]
    assert (task_count(one.spec), gpu_milli_wanted(one.spec), one.work.batch_size) == (6, 6000, 2048)


def test_sacct_gives_gangs_models_limits_and_outcomes(tmp_path: Path) -> None:
    text = SACCT + SACCT_ROW + TRES + "\n" + SACCT_ROW.replace("7|", "7.batch|", 1) + TRES + "\n"
    (one,) = read(tmp_path, "sacct", text).arrivals
    resources = one.spec.roles[0].resources
    assert (task_count(one.spec), resources.whole_gpus, resources.gpu_models) == (2, 8, ("a100",))
    assert (resources.cpu_milli, resources.memory_mib) == (16_000, 128 * 1024)
    assert (one.work.run_ms, one.spec.time_limit_s) == (3_600_000, 26 * 3600)


def test_swf_jobs_without_a_run_time_are_left_out(tmp_path: Path) -> None:
    (one,) = read(tmp_path, "swf", SWF).arrivals
    assert (one.at_ms, one.work.run_ms, gpu_milli_wanted(one.spec), one.spec.time_limit_s) == (5000, 100_000, 8000, 200)


def pod(name: str, owner: str = "", start: str = "10:01:00", end: str = "11:00:00") -> dict[str, object]:
    meta = {"name": name, "namespace": "vision", "creationTimestamp": "2024-05-01T10:00:00Z"}
    return {
        "kind": "Pod",
        "metadata": {**meta, "ownerReferences": [{"uid": owner}]} if owner else meta,
        "spec": {
            "containers": [
                {"resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "500m", "memory": "2Gi"}}}
            ]
        },
        "status": {
            "phase": "Succeeded",
            "startTime": f"2024-05-01T{start}Z",
            "containerStatuses": [{"state": {"terminated": {"finishedAt": f"2024-05-01T{end}Z"}}}],
        },
    }


def test_pods_of_one_owner_are_one_gang(tmp_path: Path) -> None:
    items = [pod("w-0", "job-1"), pod("w-1", "job-1"), pod("alone")]
    alone, gang = sorted(
        read(tmp_path, "kubernetes", json.dumps({"items": items})).arrivals, key=lambda a: task_count(a.spec)
    )
    assert (task_count(gang.spec), gpu_milli_wanted(gang.spec), gang.work.run_ms) == (2, 4000, 59 * 60_000)
    assert (alone.spec.name, alone.spec.roles[0].resources.memory_mib) == ("alone", 2048)


def test_events_tell_of_pods_that_are_gone(tmp_path: Path) -> None:
    about = {"kind": "Pod", "namespace": "a", "name": "p"}
    events = [
        {"kind": "Event", "reason": reason, "involvedObject": about, "lastTimestamp": f"2024-05-01T10:0{k}:00Z"}
        for k, reason in enumerate(("Scheduled", "Started", "Killing"))
    ]
    (one,) = read(tmp_path, "kubernetes", "\n".join(json.dumps(event) for event in events)).arrivals
    assert one.work.run_ms == 60_000


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (
            "tiresias",
            "job_id,num_gpu\n",
            "line 1: the columns submit_time, iterations, model_name, duration are missing",
        ),
        ("tiresias", TIRESIAS.replace("interval", "duration"), "line 1, column duration: stands twice"),
        ("muri", MURI + "0,4,x,10,r,128,9,9,886,703,62,17,0\n", "line 2, column submit_time: expected a whole number"),
        (
            "chronus",
            CHRONUS + "0,vc,4,1,1,r,2,8,9,10,7,s\n",
            "line 2, column best_effort: expected a number from 0 to 1",
        ),
        ("gavel", GAVEL.replace("\t12.5", ""), "line 1, column arrival: expected 10 cells, found 9"),
        (
            "shockwave",
            SHOCKWAVE.replace("gns", "new"),
            "column mode: expected one of static, accordion, gns, found 'new'",
        ),
        (
            "sacct",
            SACCT + SACCT_ROW.replace("2024-05-01T10:05", "soon") + TRES,
            "column Start: expected a time such as",
        ),
        ("sacct", SACCT + SACCT_ROW + "gres/gpu=x", "column AllocTRES: expected a whole number, found 'x'"),
        ("swf", "1 2 3\n", "line 1: expected 18 numbers, found 3"),
        ("swf", SWF.replace(" 100 ", " ten "), "line 2, column run time: expected a number, found 'ten'"),
        (
            "tiresias",
            TIRESIAS + f"1,{'9' * 5000},0,9,v,9,9\n",
            "line 2, column num_gpu: expected a whole number, found '9",
        ),
        ("tiresias", TIRESIAS + "1,1,0,9,v,9000000000,9\n", "line 2, column duration: expected a number from 0 to"),
        ("gavel", GAVEL.replace("12.5", "1e18"), "line 1, column arrival: expected a number from 0 to"),
        ("sacct", SACCT + SACCT_ROW + f"gres/gpu={'9' * 20}", "line 2, column AllocTRES: expected a number up to"),
        ("sacct", SACCT + SACCT_ROW + f"mem={'9' * 300}T", "line 2, column AllocTRES: expected memory up to"),
        (
            "kubernetes",
            json.dumps({"items": [pod("a"), pod("b", end="late")]}, indent=1),
            "line 68, column 23 (status.containerStatuses.0.state.terminated.finishedAt): expected a time",
        ),
        (
            "kubernetes",
            "\n" + json.dumps(pod("a")) + "\n\n" + json.dumps(pod("b", end="late")),
            "line 4, column 368 (status.containerStatuses.0.state.terminated.finishedAt): expected a time",
        ),
        ("kubernetes", "kind: List\nitems:\n- kind: Pod\n  status: 7\n", "line 3, column 3: is no Pod as"),
        ("kubernetes", '{"items": [\n{"kind": "Pod"},\n7]}', "line 3, column 1: is no Kubernetes object"),
        (
            "kubernetes",
            '{"kind": "Pod", "name": "a\u2028b"}\n{"kind": "Pod"}\n{"kind": "Pod", "status": 7}',
            "line 3, column 1: is no Pod as",
        ),
        (
            "kubernetes",
            '{"items": [\n{"kind" "Pod"}]}',
            "line 2, column 9: no list of Kubernetes objects: Expecting ':'",
        ),
        ("kubernetes", '{"items": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 1: no list of Kubernetes objects"),
    ],
)
def test_a_bad_trace_is_refused_where_it_is_wrong(tmp_path: Path, kind: str, text: str, complaint: str) -> None:
    with pytest.raises(TraceError, match=re.escape(complaint)):
        read(tmp_path, kind, text)


def test_a_trace_without_a_format_says_which_there_are() -> None:
    with pytest.raises(TraceError, match=r"say the format, such as philly:jobs\.csv"):
        read_trace("jobs.csv")


def test_a_format_without_a_file_says_so() -> None:
    with pytest.raises(TraceError, match="tiresias: names no file"):
        read_trace("tiresias:")


def test_a_format_that_is_none_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id\n")
    with pytest.raises(TraceError, match=r"phily is no format of traces; known are archive, "):
        read_trace(f"phily:{tmp_path / 'jobs.csv'}")


@pytest.mark.parametrize(
    ("trace", "jobs"),
    [
        ("muri:muri/trace3.csv", 992),
        ("shockwave:shockwave/120.trace", 120),
        ("gavel:gavel/max_min_fairness.trace", 96),
        ("gavel:gavel/minimize_makespan.trace", 100),
        ("pollux:pollux/workloads/workload-6.csv", 160),
    ],
)
def test_published_traces_are_read_whole(trace: str, jobs: int) -> None:
    kind, _, path = trace.partition(":")
    assert len(read_trace(f"{kind}:{DATA / path}").arrivals) == jobs


def test_muri_stages_may_be_parts_of_a_millisecond(tmp_path: Path) -> None:
    one = read(tmp_path, "muri", MURI + "2,4,0,10,bert,4,9,6,190,0.5,163,18,0\n").arrivals[0]
    assert [one.spec.attributes[f"{stage}_ms"] for stage in ("loading", "compute", "network")] == [0.5, 163, 18]


def test_sacct_needs_neither_users_nor_accounts_and_takes_its_columns_in_any_order(tmp_path: Path) -> None:
    text = (
        "State|AllocTRES|End|Start|Submit|JobID\r\n"
        "TIMEOUT|cpu=8,mem=16G,gres/gpu:h100=2|2024-01-01T01:00:10|2024-01-01T00:00:10|2024-01-01T00:00:00|12_3\r\n"
    )
    (one,) = read(tmp_path, "sacct", text).arrivals
    assert (one.spec.group, one.spec.user, one.work.run_ms) == ("all", "unknown", 3_600_000)
    assert one.spec.roles[0].resources.gpu_models == ("h100",)


def test_sacct_adds_up_typed_gpus_and_splits_over_the_nodes_that_it_names(tmp_path: Path) -> None:
    head = "JobID|User|Account|Submit|Start|End|State|AllocTRES\n"
    times = "2024-05-01T10:00:00|2024-05-01T10:00:00|2024-05-01T11:00:00|COMPLETED"
    rows = [f"1|u|a|{times}|cpu=8,gres/gpu:a100=4", f"2|u|a|{times}|cpu=64,gres/gpu=16,node=4"]
    rows += [f"3|u|a|{times}|gres/gpu:a100=2,gres/gpu:h100=2,node=2", f"1.batch|u|a|{times}|cpu=1"]
    rows += ["4|u|a|2024-05-01T10:00:00|Unknown|Unknown|PENDING|"]
    rows += ["5|u|a|2024-05-01T10:00:00|2024-05-01T10:00:00|Unknown|RUNNING|"]
    told = read(tmp_path, "sacct", head + "\n".join(rows) + "\n")
    asked = [(one.spec.roles[0].count, one.spec.roles[0].resources) for one in told.arrivals]
    assert [(count, each.gpu_milli, each.gpu_models) for count, each in asked] == [
        (1, 4000, ("a100",)),
        (4, 4000, ()),
        (2, 2000, ("a100", "h100")),
    ]
    assert told.left_out == {"job steps": 1, "jobs that never started": 1, "jobs that had not ended": 1}


def test_a_pod_that_ends_before_it_starts_is_left_out_and_said_with_the_line(tmp_path: Path) -> None:
    items = [pod("a"), pod("b", start="11:30:00"), pod("c", start="11:30:00"), pod("d")]
    text = '{"items": [\n' + ",\n".join(json.dumps(item) for item in items) + "]}"
    found = read(tmp_path, "kubernetes", text)
    assert sorted(arrival.spec.name for arrival in found.arrivals) == ["a", "d"]
    assert found.left_out == {"pods that end before they start, the first at line 3": 2}


def test_kubernetes_amounts_are_quantities_and_who_is_lost_has_no_end(tmp_path: Path) -> None:
    told, lost = pod("told"), pod("lost")
    told["spec"] = {"containers": [{"resources": {"limits": {"cpu": "1e1", "memory": "1073741825"}}}, {}]}
    lost["status"]["containerStatuses"].append({"state": {"terminated": {"finishedAt": None}}})  # type: ignore[index]  # as written above
    read_them = read(tmp_path, "kubernetes", json.dumps({"items": [told, lost, {"kind": "Pod"}]}))
    (each,) = (one.spec.roles[0].resources for one in read_them.arrivals)
    assert (each.cpu_milli, each.memory_mib) == (10_000, 1_025)
    assert read_them.left_out == {"pods without an end": 2}


@pytest.mark.parametrize(("amount", "complaint"), [("-3", "expected an amount from 0"), ("two", "must be a quantity")])
def test_gpus_that_are_no_amount_are_refused(tmp_path: Path, amount: str, complaint: str) -> None:
    one = {**pod("a"), "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": amount}}}]}}
    with pytest.raises(TraceError, match=complaint):
        read(tmp_path, "kubernetes", json.dumps(one))


def test_what_a_reader_leaves_out_is_counted(tmp_path: Path) -> None:
    rows = ["1 0 -1 20 8 -1 -1 8 40 -1 1 1 1 -1 1 -1 -1 -1", "2 0 -1 -1 8 -1 -1 8 40 -1 1 1 1 -1 1 -1 -1 -1"]
    assert read(tmp_path, "swf", chr(10).join(rows)).left_out == {"jobs without a run time": 1}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "status": {}, "spec": {"volumes": [{"projected": {"items": []}}]}}
    lines = "\n".join([json.dumps(pod), json.dumps(pod)])
    assert read(tmp_path, "kubernetes", lines).left_out == {"pods without an end": 2}


def test_a_pod_that_could_not_be_scheduled_for_long_came_at_the_first_of_those_events(tmp_path: Path) -> None:
    def event(reason: str, first: str | None, last: str | None) -> dict[str, object]:
        about = {"kind": "Pod", "namespace": "n", "name": "p"}
        times = {"firstTimestamp": first, "lastTimestamp": last}
        return {"kind": "Event", "involvedObject": about, "reason": reason, **times}

    day = "2024-05-01T"
    items = [
        event("FailedScheduling", f"{day}10:00:00Z", f"{day}12:00:00Z"),
        event("Started", f"{day}12:01:00Z", f"{day}12:01:00Z"),
        event("Killing", f"{day}13:01:00Z", f"{day}13:01:00Z"),
        event("Pulled", None, None),
    ]
    told = read(tmp_path, "kubernetes", json.dumps({"items": items}))
    assert [one.work.run_ms for one in told.arrivals] == [3_600_000]
    assert told.left_out == {"events without a time": 1}


def test_times_without_end_and_marks_of_byte_order_are_met(tmp_path: Path) -> None:
    row = "1 1e300 -1 20 8 -1 -1 8 40 -1 1 1 1 -1 1 -1 -1 -1"
    with pytest.raises(TraceError, match="line 1, column submit time: a time of more than"):
        read(tmp_path, "swf", row)
    head = "\ufeffJobID|User|Account|Submit|Start|End|State|AllocTRES\n"
    assert read(tmp_path, "sacct", head).arrivals == ()


def test_chronus_jobs_without_gpus_are_left_out_and_counted(tmp_path: Path) -> None:
    told = read(tmp_path, "chronus", CHRONUS + "1,vc,0,0,1,m,5,0,10,1,0,x\n2,vc,2,0,1,m,5,0,10,1,0,x\n")
    assert (len(told.arrivals), told.left_out) == (1, {"jobs without GPUs": 1})


def test_kubernetes_yaml_is_read_and_a_jobs_end_ends_its_pod(tmp_path: Path) -> None:
    text = """apiVersion: v1
kind: List
items:
- kind: Event
  involvedObject: {kind: Pod, namespace: n, name: train-x1}
  reason: Started
  firstTimestamp: 2024-05-01T10:00:00Z
  lastTimestamp: 2024-05-01T10:00:00Z
- kind: Event
  involvedObject: {kind: Job, namespace: n, name: train}
  reason: Completed
  firstTimestamp: 2024-05-01T11:00:00Z
  lastTimestamp: 2024-05-01T11:00:00Z
"""
    told = read(tmp_path, "kubernetes", text)
    assert [(one.spec.name, one.work.run_ms) for one in told.arrivals] == [("train-x1", 3_600_000)]
    assert told.left_out == {}
    with pytest.raises(TraceError, match="no list of Kubernetes objects"):
        read(tmp_path, "kubernetes", "kind: [")


def test_a_byte_that_is_no_text_is_found_in_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.sacct"
    path.write_bytes(SACCT.encode() + b"\n" * 3 + b"caf\xe9|\n")
    with pytest.raises(TraceError, match="line 5: cannot be read: byte 4 of the line is no UTF-8"):
        READERS["sacct"](path)
