"""The web console in a real browser, on a whole platform: people see what there is, and nothing gets in or out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.web.browser import Page, browser, find_browser

from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform

BROWSER = find_browser()
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not BROWSER, reason="no Chromium on this machine: the console is not looked at"),
]

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,8,A100\nn2,32000,262144,4,T4\n"


@asynccontextmanager
async def looked_at(folder: Path) -> AsyncIterator[tuple[Platform, Client, Page]]:
    """A platform with two simulated machines, a client of it, and a browser that has not been anywhere."""
    cluster = folder / "nodes.csv"
    cluster.write_text(NODES)
    config = PlatformConfig(data_dir=folder / "data", local_node=False, simulate=str(cluster), user="ann")
    async with (
        Platform(config) as platform,
        Client(platform.url, token=platform.token) as client,
        browser(BROWSER, folder / "profile") as page,
    ):
        yield platform, client, page


def job(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "group": "default", "command": ["sleep", "600"], "gpus": 1, **fields}


async def test_from_the_token_to_a_cancelled_job(tmp_path: Path) -> None:
    async with looked_at(tmp_path) as (platform, client, page):
        await page.open(f"{platform.url}/")
        await page.until("Token")
        await page.fill("Token", "glt_wrong")
        await page.press("Enter")
        await page.until("not known here")
        page.complaints.clear()  # the browser itself reports the 401

        await page.open(f"{platform.url}/console/#token={platform.token}")
        await page.run("location.reload()")
        await page.until("0 of 12")
        assert "token" not in await page.run("location.href")

        long = {"time_limit": "2h30m", "estimate": "1h30m"}
        big = await client.submit(job("takes-all", gpus=8, gpu_models=["A100"], **long))
        await page.until("8 of 12")
        other = await client.submit(job("<b>waits</b>", gpus=8, gpu_models=["A100"]))
        overview = await page.until("<b>waits</b>")
        assert "Placed" in overview, "events arrive"

        await page.press("Queue")
        line = await page.until("1 job waits in this pool")
        reason = (await client.explain(other.id)).sentence
        assert reason.split(";")[0][:40] in line

        await page.open(f"{platform.url}/console/#/jobs/{other.id}")
        told = await page.until("Its turn")
        assert reason in told
        await page.press("Cancel")
        await page.until("Run again")
        assert (await client.job(other.id)).state == "cancelled"
        await page.press("Output")
        await page.until("Nothing yet.")
        assert any(f"/jobs/{other.id}/logs" in one and "prefix=true" in one for one in page.asked), "lines say whose"

        await page.press("Nodes")
        await page.until("A100")
        await page.press("n1")
        await page.press(str(big.id))
        await page.until("takes-all")
        facts = await page.until("Time limit")
        assert "Estimate" in facts
        await page.run("history.back()")
        await page.press("Drain")
        await page.until("Take work again")
        assert (await client.node("n1")).state == "drained"
        await page.press("Groups")
        await page.until("Users")
        assert not page.complaints
        assert all(address.startswith((platform.url, "data:", "about:")) for address in page.asked), page.asked


async def test_asking_whether_a_job_would_run_changes_nothing(tmp_path: Path) -> None:
    async with looked_at(tmp_path) as (platform, client, page):
        await page.open(f"{platform.url}/console/#token={platform.token}")
        await page.until("0 of 12")
        await page.press("Would it run?")
        await page.until("Job file")
        await page.fill("Group", "default")
        await page.press("Ask")
        told = await page.until("It would be admitted")
        assert "There is room for it now." in told
        assert "A run costs at most 1." in told
        await page.press("n2")
        await page.until("Drain")
        await page.run("history.back()")
        await page.until("Job file")
        await page.fill("Group", "default")
        await page.fill("GPUs of each task", "64")
        await page.press("Ask")
        await page.until("64", gone=False)
        await page.until("It would be admitted", gone=True)
        assert not [one async for one in client.jobs()]


async def test_one_sees_at_a_glance_why_jobs_wait_where_there_is_room_and_who_has_it(tmp_path: Path) -> None:
    async with looked_at(tmp_path) as (platform, client, page):
        await page.open(f"{platform.url}/console/#token={platform.token}")
        await page.until("0 of 12")
        holds = await client.submit(job("holds", gpus=6, gpu_models=["A100"]))
        for k in range(3):
            await client.submit(job(f"waits-{k}", gpus=8, gpu_models=["A100"]))
        overview = await page.until("3 jobs for 24 GPUs: InsufficientGpus")
        assert "2 whole ones free, at most 2 on one node" in overview
        assert "4 whole ones free, at most 4 on one node" in overview
        await page.press("3 jobs")
        await page.until("3 of them are like that")
        await page.fill("Name", "waits-1")
        await page.until("1 of them are like that")
        assert "waits-2" not in await page.until("waits-1")
        assert "InsufficientGpus" in await page.run("location.hash")

        await page.open(f"{platform.url}/console/#/nodes?free=3")
        told = await page.until("1 node with 4 GPUs, 4 of them free")
        assert "n1" not in told
        await page.open(f"{platform.url}/console/#/nodes/n1")
        told = await page.until("Jobs here")
        assert f"{holds.id} holds" in told
        assert await page.run(f"document.querySelectorAll('.card a[href=\"#/jobs/{holds.id}\"]').length") == 6
        assert not page.complaints

        await page.send("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
        await page.open(f"{platform.url}/console/#/jobs/{holds.id}")
        told = await page.until("Running since")
        assert "UTC" not in told, "sentences and times of one page are of one clock"


async def test_a_table_is_put_in_order_by_a_click_and_back(tmp_path: Path) -> None:
    async with looked_at(tmp_path) as (platform, _, page):
        await page.open(f"{platform.url}/console/#token={platform.token}")
        await page.until("0 of 12")
        await page.open(f"{platform.url}/console/#/nodes")
        await page.until("n2")
        names = "[...document.querySelectorAll('tbody tr td:first-child')].map(cell => cell.innerText).join()"
        seen = [await page.run(names)]
        for _ in range(3):
            await page.press("GPUs")
            seen.append(await page.run(names))
        assert seen == ["n1,n2", "n2,n1", "n1,n2", "n1,n2"]


async def test_whose_token_is_revoked_is_asked_for_another_and_told_why(tmp_path: Path) -> None:
    async with looked_at(tmp_path) as (platform, client, page):
        issued = await client.issue_token(name="guest", role="readonly", user="guest")
        await page.open(f"{platform.url}/console/#token={issued.token}")
        await page.until("0 of 12")
        await client.revoke_token(issued.view.digest)
        await page.press("Groups")
        told = await page.until("The token was revoked.")
        assert "gangline token issue" in told
        assert not await page.run("sessionStorage.length")


async def test_an_administrator_sees_and_changes_how_a_pool_decides_and_who_did_so(tmp_path: Path) -> None:
    async with looked_at(tmp_path) as (platform, client, page):
        await page.open(f"{platform.url}/console/#token={platform.token}")
        await page.until("0 of 12")
        await page.press("Policies")
        told = await page.until("Every setting is as by default.")
        assert "1000 * priority" in told
        await page.run(
            "[...document.querySelectorAll('summary')].find(one => one.innerText === 'Change a setting').click()"
        )
        await page.fill("Setting", "starvation_s")
        await page.fill("Value", "-5")
        await page.press("Check")
        await page.until("starvation_s: must be")
        await page.fill("Value", "soon")
        await page.press("Check")
        await page.until("soon is no value of starvation_s; write it like 3600, or like 1h30m.")
        await page.open(f"{platform.url}/console/#/policies?kind=window")
        await page.until("No setting was changed.")
        await page.fill("Kind", "policy")
        await page.fill("Value", "1h60m")
        await page.fill("Why", "<i>slower</i>")
        await page.press("Check")
        await page.until("It would hold from the next round on.")
        assert (await client.policy("default")).policy.starvation_s == 3600
        await page.press("Set")
        await page.until("It holds from the next round on.")
        told = await page.until("<i>slower</i>")
        assert "starvation_s: 3600 \u2192 7200" in told
        await page.until("Every setting is as by default.", gone=True)
        assert (await client.policy("default")).policy.starvation_s == 7200
        await page.fill("Value", "")
        await page.press("Set")
        await page.until("Every setting is as by default.")
        assert len(page.complaints) == 1, "but for the refusal that the browser itself reports"


async def test_windows_and_tokens_are_seen_and_taken_back_by_those_who_may(tmp_path: Path) -> None:
    async with looked_at(tmp_path) as (platform, client, page):
        issued = await client.issue_token(name="ci", role="readonly", user="guest")
        await page.open(f"{platform.url}/console/#token={platform.token}")
        await page.until("0 of 12")
        await page.press("Windows")
        await page.until("No capacity is dated.")
        await page.press("Keep nodes")
        for label, value in (
            ("Called", "bios"),
            ("Nodes", "n1, n2"),
            ("From", "2040-01-01T10:00"),
            ("Why", "new BIOS"),
        ):
            await page.fill(label, value)
        assert "apart by commas or spaces" in await page.until("Where no node is named, all of the pool is kept")
        await page.fill("Hours", "0")
        await page.press("Keep")
        await page.until("Say how many hours it lasts: 2, or 0.5 for half an hour.")
        await page.fill("Hours", "0.5")
        await page.press("Keep")
        told = await page.until("nobody (maintenance)")
        assert "new BIOS" in told
        assert (await client.windows()).windows[0].window.nodes == ("n1", "n2")
        await page.press("Give back")
        await page.until("No capacity is dated.")

        await page.press("Tokens")
        await page.until("2 tokens open something.")
        assert issued.token not in await page.until("ci")
        rows = "[...document.querySelectorAll('tbody tr')]"
        await page.run(f"{rows}.find(row => row.innerText.includes('guest')).querySelector('button').click()")
        await page.until("1 token opens something.")
        assert not page.complaints

        mine = await client.issue_token(name="laptop", role="readonly", user="eve")
        await page.open(f"{platform.url}/console/#token={mine.token}")
        await page.run("location.reload()")
        await page.until("eve (readonly)")
        await page.press("Policies")
        assert "Change a setting" not in await page.until("Pool default")
        await page.press("Windows")
        assert "Keep nodes" not in await page.until("No capacity is dated.")
        await page.press("Tokens")
        assert "Revoke" not in await page.until("laptop")


async def test_who_looks_while_the_gateway_goes_away_is_told_so_and_keeps_what_it_said_last(tmp_path: Path) -> None:
    async with looked_at(tmp_path) as (platform, _, page):
        await page.open(f"{platform.url}/console/#token={platform.token}")
        await page.until("0 of 12")
        await page.press("Groups")
        await page.until("Users")
        await page.send(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
        )
        told = await page.until("The gateway does not answer now.")
        assert "everything" in told
        await page.send(
            "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        await page.until("The gateway does not answer now.", gone=True)
