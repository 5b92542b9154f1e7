"""The lab's commands say what they found, and their exit codes say whether it was good."""

from pathlib import Path

import msgspec
import pytest
from tests.lab.busy_cluster import BusyCluster

from gangline_core.cluster import Policy
from gangline_lab.archive import segments, verify
from gangline_lab.cli import main
from gangline_lab.philly import JOB_LIST
from gangline_lab.policyfile import PolicyFileError, read_policy
from gangline_lab.progress import Bar
from gangline_lab.sim.fleet import FleetError, read_fleet


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a busy cluster."""
    return BusyCluster(seed=3).live(60).write(tmp_path_factory.mktemp("archive"), segment_messages=40)


@pytest.fixture
def broken(written: Path, tmp_path: Path) -> Path:
    """The same with one byte flipped in its second segment."""
    for file in segments(written):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    file = segments(tmp_path)[1]
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    return tmp_path


def test_replay_of_a_sound_log_ends_with_0_and_says_so(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(written)]) == 0
    said = capsys.readouterr().out
    assert "Every decision came out byte for byte as it was written." in said
    assert "Digest of the last state: " + verify(written).head in said


def test_replay_after_one_flipped_byte_ends_with_1_and_says_where_the_chain_breaks(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(broken)]) == 1
    assert f"BREAKS at {segments(broken)[1].name}, line 1, message 41" in capsys.readouterr().out


def test_verify_tells_a_sound_chain_from_a_broken_one(
    written: Path, broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = verify(written).head
    assert main(["verify", str(written), "--head", head]) == 0
    assert f"Head {head}" in capsys.readouterr().out
    assert main(["verify", str(written), "--head", "0" * 32]) == 1
    assert main(["verify", str(broken)]) == 1
    assert "line 1, message 41" in capsys.readouterr().out


def test_every_command_gives_json_for_machines(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("replay", "verify", "report"):
        assert main([command, str(written), "--json"]) == 0
        assert isinstance(msgspec.json.decode(capsys.readouterr().out), dict)


def test_a_report_prints_numbers_and_writes_a_page_that_needs_nothing_else(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "deep" / "report.html"
    assert main(["report", str(written), "-o", str(page)]) == 0
    said = capsys.readouterr().out
    assert "Longest waits" in said
    assert str(page) in said
    text = page.read_text()
    assert text.count("<svg") >= 4
    assert "http" not in text
    assert "<script" not in text


def test_wrong_use_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay"])
    assert ended.value.code == 2
    capsys.readouterr()


def test_a_folder_without_an_archive_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert "no segment of an archive is here" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rest", [["why", "1"], ["audit"], ["what-if", "--nodes", "1x8xV100"], ["tune", "--goal=mean_jct"]]
)
def test_a_past_that_is_not_there_is_wrong_usage(rest: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command, *others = rest
    with pytest.raises(SystemExit) as left:
        main([command, "no-such-folder", *others])
    assert left.value.code == 2
    assert "there is no folder no-such-folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["verify", "replay", "report"])
def test_a_folder_that_is_not_there_is_wrong_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "/nowhere/at/all"])
    assert left.value.code == 2
    assert "there is no folder /nowhere/at/all" in capsys.readouterr().err


def test_a_bar_is_drawn_on_a_terminal_only_and_says_how_long_the_rest_takes() -> None:
    class Screen:
        """Remembers what is written, like a terminal or not."""

        def __init__(self, *, terminal: bool) -> None:
            self.terminal, self.text = terminal, ""

        def isatty(self) -> bool:
            return self.terminal

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

        def flush(self) -> None:
            """Nothing is held back."""

    for terminal in (True, False):
        screen = Screen(terminal=terminal)
        bar = Bar(screen, "replay")  # type: ignore[arg-type]  # the part of TextIO that a bar uses
        bar(1, 2)
        bar(1, 2)
        bar.close()
        assert screen.text.count("50%") == (1 if terminal else 0)
    screen = Screen(terminal=True)
    clock = iter((0.0, 4.0, 30.0, 1000.0))
    bar = Bar(screen, "what-if", lambda: next(clock))  # type: ignore[arg-type]  # the same
    bar(1, 10)
    assert "left" not in screen.text
    bar(2, 10)
    assert "20%, about 2 min left" in screen.text
    bar(10, 10)
    assert "100%" in screen.text
    assert screen.text.count("left") == 1
    screen = Screen(terminal=False)
    clock = iter((0.0, 30.0, 70.0, 70.0, 100.0))
    bar = Bar(screen, "what-if", lambda: next(clock))  # type: ignore[arg-type]  # the same
    for tenth in (1, 2, 3):
        bar(tenth, 10)
    bar.close()
    assert screen.text == "what-if: 20 %, about 5 min left\n", "a line each minute, for who reads a log"


def test_work_in_steps_is_refused_without_speeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = "\t".join(("ResNet-50 (batch size 64)", "c", "w", "n", "0", "1000", "1", "1", "-1", "0"))
    path = tmp_path / "a.trace"
    path.write_text(row + "\n")
    assert main(["simulate", "--trace", f"gavel:{path}", "--cluster", "1x4xV100"]) == 2
    assert "say how fast they go with --speeds" in capsys.readouterr().err


def test_two_pages_of_one_name_or_a_name_that_is_no_folders_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swf = tmp_path / "a.swf"
    swf.write_text("1 0 -1 20 8 -1 -1 8 40 -1 1 1 1 -1 1 -1 -1 -1\n")
    for name, text in (("a", "name: x\n"), ("b", "name: x\n"), ("c", 'name: "../../esc"\n')):
        (tmp_path / f"{name}.yaml").write_text(text)
    usual = ["simulate", "--trace", str(swf), "--cluster", "1x8xV100", "--out", str(tmp_path / "out")]
    two = ["--policy", str(tmp_path / "a.yaml"), "--policy", str(tmp_path / "b.yaml")]
    assert main([*usual, *two]) == 2
    assert main([*usual, "--policy", str(tmp_path / "c.yaml")]) == 2
    said = capsys.readouterr().err
    assert "two policy files are named 'x'" in said
    assert "is no folder's" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "world",
    [
        *("failures: {node_mtbf_hours: -1}", "failures: {node_mtbf_hours: .nan}", "restart_s: -50", "stop_s: .inf"),
        *("colocation: {shared_gpu: 0}", "elastic: {serial: 5}", "checkpoint_s: -5", "round_s: -60"),
        "estimate_sigma: -1",
    ],
)
def test_a_world_that_cannot_be_is_refused(tmp_path: Path, world: str) -> None:
    page = tmp_path / "a.yaml"
    page.write_text(f"simulation: {{{world}}}\n")
    with pytest.raises(PolicyFileError, match="Expected"):
        read_policy(page)


@pytest.mark.parametrize("kind", ["gpus: -8", "gpu_memory_mib: -1", "gpus: 100000", "cpus: -1"])
def test_machines_that_cannot_be_are_refused(tmp_path: Path, kind: str) -> None:
    page = tmp_path / "c.yaml"
    page.write_text(f"nodes: [{{count: 1, {kind}}}]\n")
    with pytest.raises(FleetError, match="Expected"):
        read_fleet(str(page))


@pytest.mark.parametrize("more", [["--seeds", "0"], ["--jobs", "-1"], ["--first", "-1"]])
def test_numbers_of_the_command_line_have_bounds(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--trace", "swf:x", "--cluster", "1x4", *more])
    assert "expected at least" in capsys.readouterr().err


@pytest.mark.parametrize("change", [["--without", "nobody"], ["--policy", "pool"], ["--quota", "quota"]])
def test_a_change_of_what_never_was_is_refused(
    written: Path, tmp_path: Path, change: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pool").write_text("pools: {elsewhere: {ordering: fifo}}\n")
    (tmp_path / "quota").write_text("groups: [{path: nobody, limit: {gpu_milli: 1000}}]\n")
    told = change[1] if change[0] == "--without" else str(tmp_path / change[1])
    assert main(["what-if", str(written), change[0], told]) == 2
    assert "in this history; there are" in capsys.readouterr().err


def test_one_setting_is_asked_for_without_a_page(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the page that says the same, where history never set a policy."""
    (tmp_path / "page.yaml").write_text("policy: {ordering: fifo, starvation_s: 7200}\n")
    asked = ["what-if", str(written), "--varied", "0", "--json"]
    assert main([*asked, "--policy", str(tmp_path / "page.yaml")]) == 0
    by_page = msgspec.json.decode(capsys.readouterr().out)
    assert main([*asked, "--set", "ordering=fifo", "--set", "default:starvation=2h"]) == 0
    by_set = msgspec.json.decode(capsys.readouterr().out)
    assert {**by_set, "change": 0} == {**by_page, "change": 0}
    assert by_set["change"] == [
        "pool default: ordering weighted -> fifo",
        f"pool default: starvation_s {Policy().starvation_s} -> 7200",
    ]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("orderin=fifo", "did you mean ordering"),
        ("ordering", "is not KEY=VALUE"),
        ("ordering=best", "is none of"),
        ("starvation=soon", "is no duration"),
        ("elsewhere:ordering=fifo", "there are default"),
        ("ordering=weighted", "so in this history already"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_what_to_write(
    written: Path, setting: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", str(written), "--set", setting]) == 2
    assert said in capsys.readouterr().err


def test_a_simulation_takes_single_settings_beside_its_pages(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["simulate", "--trace", f"philly:{JOB_LIST}", "--cluster", "1x8xV100", "--jobs", "30", "--json"]
    assert main([*asked, "--set", "ordering=fifo"]) == 0
    fifo = capsys.readouterr().out
    assert main(asked) == 0
    assert capsys.readouterr().out != fifo
    assert main([*asked, "--set", "elsewhere:ordering=fifo"]) == 2
    assert "there is no pool elsewhere" in capsys.readouterr().err


def test_who_names_no_command_reads_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    told = capsys.readouterr().err
    assert "history under a change" in told
    assert "run a trace on a cluster" in told
