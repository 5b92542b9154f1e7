"""`gangline up` and `gangline agent` say what is wrong with their arguments at once, before anything runs."""

from pathlib import Path

import pytest

from gangline_agent.main import main as agent_main
from gangline_embedded.main import for_other_terminals, main
from gangline_lab.cli import main as lab_main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "99999"], "99999 is no port"),
        (["--port", "-1"], "-1 is no port"),
        (["--nats-port", "80000"], "80000 is no port"),
        (["--replicas", "0"], "0 is no number of processes"),
        (["--replicas", "2"], "--replicas needs --processes"),
        (["--otlp", "collector"], "collector is no address of a collector"),
        (["--otlp", "http://[:4318"], "is no address of a collector"),
        (["--simulate", "0x8xH100"], "0x8xH100 describes no machine"),
        (["--speed", "0"], "0 is no speed"),
        (["--speed", "nan"], "nan is no speed"),
        (["--data", __file__], "is no folder"),
        (["--data", ""], "--data: is empty; is a variable of the shell not set?"),
        (["--host", ""], "--host: is empty"),
        (["--simulate", "/nowhere/nodes.csv"], "expected machines in short such as 4x8xH100, or a file"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["up", *arguments])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_an_empty_argument_is_named_by_every_program(capsys: pytest.CaptureFixture[str]) -> None:
    for program, words in ((agent_main, ["--pool", ""]), (lab_main, ["verify", ""]), (main, ["demo", "--out", ""])):
        with pytest.raises(SystemExit) as caught:
            program(words)
        assert caught.value.code == 2
        assert "is empty; is a variable of the shell not set?" in capsys.readouterr().err


def test_a_data_folder_that_cannot_be_made_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--data", "/proc/nowhere"]) == 1
    assert capsys.readouterr().err == "gangline up: /proc/nowhere cannot be used: No such file or directory\n"


def test_a_platform_that_keeps_its_data_elsewhere_says_how_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GANGLINE_DATA", str(tmp_path / "usual"))
    assert for_other_terminals(tmp_path / "usual") == ""
    assert for_other_terminals(tmp_path / "my data").endswith(f"export GANGLINE_DATA='{tmp_path}/my data'")


def test_a_token_file_of_an_agent_that_cannot_be_read_is_told_in_one_line() -> None:
    with pytest.raises(SystemExit, match="the token's file /nowhere/secret cannot be read: No such file or directory"):
        agent_main(["--server", "nats://127.0.0.1:4222", "--token", "@/nowhere/secret"])
