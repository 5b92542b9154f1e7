"""Traces are read exactly, and a bad one is refused with its line and column."""

import gzip
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

from gangline_lab import openb, philly, rows
from gangline_lab.readers import read_trace
from gangline_lab.rows import TraceError

NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
JOBS = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def file(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_openb_list_that_is_shipped_has_its_published_size() -> None:
    machines = openb.read_machines()
    assert len(machines) == 1213
    assert sum(machine.gpus for machine in machines) == 6212
    assert {machine.model for machine in machines} == openb.MODELS


def test_the_philly_cut_that_is_shipped_is_what_its_page_says() -> None:
    jobs = philly.read_jobs()
    assert len(jobs) == 1000
    assert (jobs[0].arrival_s, jobs[0].cluster, jobs[0].run_s) == (0, "11cb48", 8570)
    assert jobs[-1].arrival_s == (24 + 13) * 3600 + 17 * 60 + 34
    assert len({job.cluster for job in jobs}) == 10
    assert max(job.gpus for job in jobs) == 32
    assert [job.number for job in jobs] == list(range(1000))
    assert all(a.arrival_s <= b.arrival_s for a, b in pairwise(jobs))


def test_jobs_come_out_in_the_order_of_arrival_whatever_the_order_of_rows(tmp_path: Path) -> None:
    text = JOBS + "2017-10-09 07:01:55,66.0,1,66.0,a\n2017-10-09 07:00:55,10.0,2,20.0,b\n"
    jobs = philly.read_jobs(file(tmp_path, text))
    assert [(job.cluster, job.arrival_s) for job in jobs] == [("b", 0), ("a", 60)]


def test_a_packed_trace_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress((JOBS + "2017-10-09 07:01:55,66.0,1,66.0,a\n").encode()))
    assert philly.read_jobs(path)[0].run_s == 66


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (NODES + "m,1,1,1,T4\nm2,x,1,1,T4\n", "t.csv, line 3, column cpu_milli: expected a whole number, found 'x'"),
        (NODES + "m,-1,1,1,T4\n", "line 2, column cpu_milli: expected a whole number"),
        (NODES + "m,1,1,0,T4\n", "line 2, column gpu: expected a number from 1 to 64, found 0"),
        (NODES + "m,1,1,999,T4\n", "line 2, column gpu: expected a number from 1 to 64, found 999"),
        (NODES + "m,1,1,1,H9\n", "line 2, column model: unknown GPU model 'H9'"),
        (NODES + ",1,1,1,T4\n", "line 2, column sn: must not be empty"),
        (NODES + "m,1,1,1\n", "line 2, column model: expected 5 cells, found 4"),
        (NODES + "m,1,1,1,T4\nm,1,1,1,T4\n", "line 3: m stands on line 2 already"),
        ("a,b\nm,1\n", "line 1: expected the columns sn,cpu_milli,memory_mib,gpu,model, found a,b"),
        (NODES, "line 1: has no machines"),
        ("", "line 1: has no machines"),
        (NODES + "m" * 20_000 + ",1,1,1,T4\n", "line 2: a line of more than 10000 characters"),
        (NODES + "m,1,1\r,1,T4\n", "line 2: no row of a table: a carriage return inside it"),
        ((NODES + "m,1,1,1,T4\n").replace("\n", "\r"), "line 1: no row of a table: a carriage return inside it"),
        ("\n" + NODES + "\nm,1,1,1,T4\n\nm,1,1,1,T4\n", "line 6: m stands on line 4 already"),
        ("\na,b\n", "line 2: expected the columns sn,cpu_milli,memory_mib,gpu,model, found a,b"),
        ("a\x1b[2J,b\n", "found a?[2J,b"),
    ],
)
def test_a_bad_node_list_is_refused_with_line_and_column(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(TraceError) as refused:
        openb.read_machines(file(tmp_path, text))
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (JOBS + "yesterday,66.0,1,66.0,a\n", "line 2, column timestamp: expected a time such as"),
        (JOBS + "2017-10-09 07:01:55,66.5,1,66.0,a\n", "line 2, column duration: expected a whole number"),
        (JOBS + "2017-10-09 07:01:55,66.0,0,66.0,a\n", "line 2, column num_gpus: expected a number from 1"),
        (
            JOBS + "2017-10-09 07:01:55,66.0,2,66.0,a\n",
            "line 2, column gpu_time: expected duration times num_gpus = 132",
        ),
        (JOBS + "2017-10-09 07:01:55,66.0,1,66.0,\n", "line 2, column cluster: must not be empty"),
        (JOBS, "line 1: has no jobs"),
    ],
)
def test_a_bad_job_list_is_refused_with_line_and_column(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(TraceError) as refused:
        philly.read_jobs(file(tmp_path, text))
    assert complaint in str(refused.value)


def test_empty_lines_before_a_header_are_no_header(tmp_path: Path) -> None:
    jobs = philly.read_jobs(file(tmp_path, "\n\n" + JOBS + "2017-10-09 07:01:55,66.0,1,66.0,a\n"))
    assert [job.cluster for job in jobs] == ["a"]


def test_of_a_line_without_end_and_of_a_file_that_unpacks_without_end_only_a_part_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    tracemalloc.start()
    with pytest.raises(TraceError, match="line 1: a line of more than 10000 characters"):
        openb.read_machines(path)
    monkeypatch.setattr(rows, "FILE_BYTES_MAX", 1_000_000)
    with pytest.raises(TraceError, match="more than 1000000 bytes"):
        read_trace(f"kubernetes:{path}")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10_000_000


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        openb.read_machines(tmp_path / "none.csv")
    path = tmp_path / "b.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="cannot be read"):
        openb.read_machines(path)
