"""Completion: one function for every shell, fed with the words so far."""

import pytest

from gangline_client.completion import FILES, complete, script


def look_up(kind: str) -> list[str]:
    return {"jobs": ["41", "42"], "nodes": ["n1", "n2"]}[kind]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["su"], ["submit", "suspend"]),
        (["de"], ["demo"]),
        (["quota", "s"], ["set", "show"]),
        (["quota", "set", "g", "--dr"], ["--dry-run"]),
        (["cancel", "4"], ["41", "42"]),
        (["logs", "-f", ""], ["41", "42"]),
        (["drain", "n"], ["n1", "n2"]),
        (["show", "-o", "y"], ["yaml"]),
        (["-o", "j"], ["json"]),
        (["show", "--state", "ru"], ["running"]),
        (["wait", "41", "--for", ""], ["ended", "running", "started"]),
        (["submit", "tr"], [FILES]),
        (["run", "--gpus", "1", "--", "py"], [FILES]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["run", "--name", ""], []),
        (["nonsense", "--zzz"], []),
    ],
)
def test_the_last_word_becomes_what_fits_there(words: list[str], answer: list[str]) -> None:
    assert complete(words, look_up=look_up) == answer


def test_every_verb_is_offered_first() -> None:
    offered = complete([""], look_up=look_up)
    assert {"up", "demo", "run", "submit", "queue", "why", "lab", "agent", "completion"} <= set(offered)
    assert "__complete" not in offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_that_asks_us(shell: str) -> None:
    assert "gangline __complete" in script(shell)
