"""A real browser, driven over its own debugging protocol: open a page, ask it for things, see what went wrong in it."""

import asyncio
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0",
    "--window-size=1400,1000",
)  # fmt: skip
START_S_MAX = 90.0
WAIT_S_MAX = 60.0
POLL_S = 0.05
LEFT = "Inspected target navigated or closed"
"""What a tab answers that was asked on one page and is on another by now."""


def find_browser() -> str:
    """Path of a Chromium of this machine; empty when there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Talk to the tab over this socket."""
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        """What the page wrote to its console as a warning or an error, and what it threw."""
        self.asked: list[str] = []
        """Addresses it asked for."""

    async def listen(self) -> None:
        """Take what the tab sends, until it closes."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
                continue
            match said["method"]:
                case "Runtime.exceptionThrown":
                    self.complaints.append(json.dumps(said["params"]["exceptionDetails"])[:1000])
                case "Log.entryAdded" if said["params"]["entry"]["level"] in ("warning", "error"):
                    entry = said["params"]["entry"]
                    self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
                case "Network.requestWillBeSent":
                    self.asked.append(said["params"]["request"]["url"])
                case "Page.javascriptDialogOpening":
                    await self._post("Page.handleJavaScriptDialog", accept=True)

    async def _post(self, method: str, **params: object) -> int:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        return number

    async def send(self, method: str, **params: object) -> dict[str, Any]:
        """One command of the protocol, and its result."""
        number = await self._post(method, **params)
        answer = await self._answers[number]
        assert "error" not in answer, answer
        return dict(answer["result"])

    async def run(self, script: str) -> Any:
        """The value of an expression, promises awaited."""
        answer = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def open(self, url: str) -> None:
        """Go to an address."""
        await self.send("Page.navigate", url=url)

    async def text(self) -> str:
        """What one can read now; nothing while the tab is on its way to another page."""
        try:
            return str(await self.run("document.body ? document.body.innerText : ''"))
        except AssertionError as error:
            if LEFT not in str(error):
                raise
            return ""

    async def until(self, words: str, *, gone: bool = False) -> str:
        """The page's text once these words stand there (or stand there no more)."""
        text = ""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S_MAX):
                while True:
                    text = await self.text()
                    if (words in text) != gone:
                        return text
                    await asyncio.sleep(POLL_S)
        raise AssertionError(
            f'"{words}" {"stays" if gone else "does not come"}; complaints {self.complaints}; text:\n{text}'
        )

    async def press(self, words: str) -> None:
        """Click the button or link that says so, as soon as it is there."""
        script = """(words => {
            const it = [...document.querySelectorAll('button, a, summary')].find(one => one.innerText.trim() === words);
            if (it) it.click();
            return Boolean(it);
        })"""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S_MAX):
                while True:
                    if await self.run(f"{script}({json.dumps(words)})"):
                        return
                    await asyncio.sleep(POLL_S)
        raise AssertionError(f'nothing to press says "{words}"; text:\n{await self.text()}')

    async def fill(self, label: str, value: str) -> None:
        """Write into the field of this label, as typing would."""
        script = """((label, value) => {
            const holder = [...document.querySelectorAll('label')].find(one => one.innerText.trim().startsWith(label));
            const field = holder && holder.querySelector('input, textarea, select');
            if (!field) return false;
            field.value = value;
            field.dispatchEvent(new Event('input', { bubbles: true }));
            field.dispatchEvent(new Event('change', { bubbles: true }));
            return true;
        })"""
        assert await self.run(f"{script}({json.dumps(label)}, {json.dumps(value)})"), label


@asynccontextmanager
async def browser(path: str, folder: Path) -> AsyncIterator[Page]:
    """A browser with a fresh profile in the folder, and its tab; both end with the block."""
    process = await asyncio.create_subprocess_exec(
        path, *FLAGS, f"--user-data-dir={folder}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port = await _port(folder / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tab = next(one for one in await answer.json() if one["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                listening = asyncio.ensure_future(page.listen())
                try:
                    for domain in ("Page", "Runtime", "Log", "Network"):
                        await page.send(f"{domain}.enable")
                    yield page
                finally:
                    listening.cancel()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _port(file: Path) -> int:
    async with asyncio.timeout(START_S_MAX):
        while True:
            with suppress(FileNotFoundError, IndexError):
                return int((await asyncio.to_thread(file.read_text)).splitlines()[0])
            await asyncio.sleep(POLL_S)
