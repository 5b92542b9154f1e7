"""The console: one self-replacing line on a terminal, plain lines elsewhere; --watch draws until it is stopped."""

import io

import pytest
from tests.client.command_line import NOW_MS

from gangline_client.client import Client
from gangline_client.console import CLEAR_LINE, CLEAR_SCREEN, Console, Format, console_of_process
from gangline_client.session import Session, repeat
from gangline_client.settings import Settings


def console_of(*, width: int) -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Console(out=out, err=err, width=width, err_is_terminal=width > 0), out, err


def test_a_status_replaces_itself_on_a_terminal_and_never_wraps() -> None:
    console, _, err = console_of(width=20)
    console.status("waiting: " + "x" * 50)
    console.status("two\nlines\x1b[2J")
    console.note("done")
    parts = err.getvalue().split(CLEAR_LINE)
    assert parts == ["", "waiting: xxxxxxxxx…", "two lines?[2J", "done\n"]


def test_a_status_is_written_once_where_nobody_redraws() -> None:
    console, _, err = console_of(width=0)
    for text in ("a", "a", "b", "b"):
        console.status(text)
    assert err.getvalue() == "a\nb\n"


def test_a_process_without_terminal_has_no_colour_and_no_width(capsys: pytest.CaptureFixture[str]) -> None:
    console = console_of_process({"TERM": "xterm"}, form=Format.TABLE)
    assert (console.colour, console.width, console.err_is_terminal) == (False, 0, False)


class EnoughError(Exception):
    """The user has seen enough."""


@pytest.mark.parametrize(("width", "clears"), [(80, 3), (0, 0)])
async def test_watching_draws_again_and_again(width: int, clears: int) -> None:
    console, out, _ = console_of(width=width)
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise EnoughError

    async def draw() -> None:
        console.say("drawn")

    client = Client("http://127.0.0.1:1")
    settings = Settings(url="http://127.0.0.1:1", token="")
    session = Session(
        client=client, console=console, settings=settings, environ={}, now_ms=lambda: NOW_MS, sleep=sleep, folder="/"
    )
    with pytest.raises(EnoughError):
        await repeat(session, every_s=2.0, draw=draw)
    assert out.getvalue().count("drawn") == 3
    assert out.getvalue().count(CLEAR_SCREEN) == clears
    assert pauses == [2.0, 2.0, 2.0]
