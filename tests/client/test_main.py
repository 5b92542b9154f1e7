"""The command as a process: help, wrong usage, exit codes, handing over, a closed pipe, and a quick start."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gangline_client import main as entry
from gangline_client.verbs import VERBS

START_S_MAX = 0.25
STARTS = 5


def gangline(*words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    surroundings = {**os.environ, "GANGLINE_CONFIG": os.devnull, "GANGLINE_DATA": os.devnull, **environ}
    command = [sys.executable, "-m", "gangline_client", *words]
    return subprocess.run(command, capture_output=True, text=True, env=surroundings, timeout=300, check=False)


def test_help_names_every_verb_and_the_first_steps() -> None:
    result = gangline("--help")
    assert result.returncode == 0
    for verb in [
        "up",
        "demo",
        "submit",
        "run",
        "queue",
        "show",
        "why",
        "logs",
        "cancel",
        "hold",
        "release",
        "suspend",
        "nodes",
        "drain",
        "forget",
        "resume",
        "quota",
        "usage",
    ]:
        assert f"\n  {verb} " in result.stdout
    for verb in ("policy", "token", "lab", "events", "wait", "version", "completion", "agent"):
        assert f"\n  {verb} " in result.stdout


@pytest.mark.parametrize("words", [[], ["nonsense"], ["show", "--nonsense"], ["submit"], ["show", "-o", "xml"]])
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(words: list[str]) -> None:
    result = gangline(*words)
    assert result.returncode == 2
    assert "usage:" in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["dmo"], "there is no verb dmo; did you mean demo? See `gangline --help`."),
        (["bogus"], "there is no verb bogus. See `gangline --help`."),
        (["sinfo"], "there is no verb sinfo; here it is gangline nodes"),
        (["scontrol", "show", "job", "3"], "here it is gangline show JOB, edit, hold"),
        (["delete"], "there is no verb delete; here it is gangline cancel JOB"),
        (["-o", "json", "up"], "up comes first, before all flags"),
        (["submit", "--cpus", "1", "--", "sleep", "9"], "gangline run --detach --cpus 1 -- sleep 9"),
        (["edit", "7", "--time-limit", "20m"], "time_limit=VALUE"),
        (["queue", "--gpu"], "gangline queue --help"),
        (["window", "set", "a", "--from", "+1h", "--nodes", "n1"], "see `gangline window set --help`"),
        (["policy", "set", "--pool", "P", "elastic=off"], "see `gangline policy set --help`"),
        (["window", "set"], "the following arguments are required: NAME, --from"),
        (["quota", "user", "lab"], "the following arguments are required: USER"),
        (["submit", "-p", "gpu", "a.sh"], "as `#SBATCH --partition=VALUE`; here it is `--set pool=VALUE`"),
        (["submit", "--time=10", "a.sh"], "here it is `--set time_limit=VALUE`"),
        (["submit", "--dependency=afterok:3", "a.sh"], "`--after afterok:JOB`"),
        (["submit", "--wrap", "echo hi"], "`gangline run --detach -- COMMAND ...`"),
        (["submit", "--foo", "a.sh"], "--foo is not known here; see `gangline submit --help`"),
        (["--version"], "`gangline version`"),
        (["queue", "--limit", "-1"], "'-1' is no whole number from 1 on"),
        (["show", "--limit", "0"], "'0' is no whole number from 1 on"),
        (["events", "--count", "many"], "'many' is no whole number from 1 on"),
        (["cancel", "7", ""], "JOB: is empty; is a variable of the shell not set?"),
        (["run", "--time-limit", "", "--", "true"], "--time-limit/-t: is empty"),
        (["run", "--after=", "--", "true"], "--after: is empty"),
        (["token", "issue", "ci", "--group", ""], "--group: is empty"),
        (["--token", "", "queue"], "--token: is empty"),
        (["show", "caf\udce9"], r"'caf\udce9' is not UTF-8 text"),
    ],
)
def test_who_uses_another_tool_s_habits_is_told_ours(words: list[str], told: str) -> None:
    result = gangline(*words)
    assert result.returncode == 2
    assert told in result.stderr


def test_no_platform_ends_with_1_and_says_what_to_do() -> None:
    result = gangline("queue")
    assert (result.returncode, result.stdout) == (1, "")
    assert "gangline up" in result.stderr


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        entry.main([verb, "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: gangline {verb}")


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["up", "--simulate", "x"], ["gangline_embedded", "up", "--simulate", "x"]),
        (["demo", "--help"], ["gangline_embedded", "demo", "--help"]),
        (["agent", "-o", "x"], ["gangline_agent", "-o", "x"]),
        (["lab", "replay", "x"], ["gangline_lab", "replay", "x"]),
    ],
)
def test_other_programs_take_over_with_all_arguments(
    monkeypatch: pytest.MonkeyPatch, words: list[str], module: list[str]
) -> None:
    class ReplacedError(Exception):
        """The process would be another program now."""

    def become(path: str, arguments: list[str]) -> None:
        raise ReplacedError(path, arguments)

    monkeypatch.setattr(os, "execv", become)
    with pytest.raises(ReplacedError) as caught:
        entry.main(words)
    assert caught.value.args == (sys.executable, [sys.executable, "-m", *module])


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f"{sys.executable} -m gangline_client completion bash | true"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert result.stderr == ""


def test_a_name_that_the_terminal_has_no_letters_for_is_shown_as_json_writes_it(tmp_path: Path) -> None:
    contexts = tmp_path / "contexts.yaml"
    contexts.write_text("contexts: {训练-🙂: {url: 'http://127.0.0.1:1'}}\n", encoding="utf-8")
    result = gangline("context", "list", GANGLINE_CONFIG=str(contexts), PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")
    assert r"\u8bad\u7ec3-\ud83d\ude42" in result.stdout


@pytest.mark.parametrize(
    ("where", "code", "told"),
    [
        (">&-", 0, ""),
        (">/dev/full", 1, "gangline: the answer could not be written: No space left on device\n"),
    ],
)
def test_an_answer_that_cannot_be_written_is_no_traceback(where: str, code: int, told: str) -> None:
    command = f"{sys.executable} -m gangline_client completion bash {where}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert (result.returncode, result.stderr) == (code, told)


def test_a_folder_that_is_gone_is_told_in_one_line(tmp_path: Path) -> None:
    ask = f"cd {tmp_path}; mkdir gone; cd gone; rmdir ../gone; {sys.executable} -m gangline_client show"
    surroundings = {**os.environ, "GANGLINE_URL": "http://127.0.0.1:1", "PYTHONSAFEPATH": "1"}
    result = subprocess.run(
        ["bash", "-c", ask], capture_output=True, text=True, timeout=300, check=False, env=surroundings
    )
    assert result.returncode == 1
    assert "gangline: the folder you are in is gone\n" in result.stderr


def test_the_completion_script_works_in_bash() -> None:
    script = gangline("completion", "bash").stdout
    ask = f"""
    gangline() {{ {sys.executable} -m gangline_client "$@"; }}
    {script}
    COMP_WORDS=(gangline quota se); COMP_CWORD=2; _gangline; echo "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=300, check=False)
    assert result.stdout == "set\n"


def test_help_is_there_at_once() -> None:
    """Processor time of the best of a few starts, so that a busy machine does not fail it."""

    def seconds() -> float:
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        gangline("--help")
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime

    assert min(seconds() for _ in range(STARTS)) < START_S_MAX


def test_help_and_handing_over_wait_for_no_heavy_library() -> None:
    heavy = {"aiohttp", "msgspec", "yaml", "asyncio", "numpy"}
    ask = "import sys, gangline_client.main as m; m.main(['--help']); print('\\n', *sys.modules)"
    result = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=300, check=True)
    loaded = set(result.stdout.splitlines()[-1].split())
    assert "gangline_client.parser" in loaded
    assert loaded.isdisjoint(heavy)
