"""The SDK for programs that do not use asyncio: the same methods, blocking."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from gangline_client.client import ENDED_STATES, Client, JobDocument
from gangline_client.doors import new_key
from gangline_client.paths import JobQuery, QueueQuery
from gangline_client.retry import Retry
from gangline_core.cluster import Policy
from gangline_core.groups import Group, User
from gangline_core.reserving.windows import Window
from gangline_wire import views as v
from gangline_wire.requests import EventLine

T = TypeVar("T")

CLOSE_TIMEOUT_S = 5.0


class SyncClient:
    """A connection to one platform; use it as a context manager, from any thread.

    It keeps one background thread with an event loop, on which the async client does the work.
    """

    def __init__(
        self, url: str, token: str = "", *, retry: Retry | None = None, make_key: Callable[[], str] = new_key
    ) -> None:
        """Start the background thread; nothing is opened before the first call.

        Raises:
            SettingsError: `url` is no http or https address.
        """
        self._client = Client(url, token, retry=retry, make_key=make_key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gangline-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back and end the thread; further calls fail. Closing twice is fine."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)
        self._loop.close()

    # --- jobs -------------------------------------------------------------------------------------------

    def submit(self, job: JobDocument, *, key: str = "", dry_run: bool = False) -> v.JobView:
        """Submit one job; the answer comes when the log holds it."""
        return self._run(self._client.submit(job, key=key, dry_run=dry_run))

    def submit_many(self, jobs: Sequence[JobDocument], *, key: str = "", dry_run: bool = False) -> v.BatchView:
        """Submit many jobs: all of them or none; in `after`, names stand for jobs before them in the list."""
        return self._run(self._client.submit_many(jobs, key=key, dry_run=dry_run))

    def job(self, job: int) -> v.JobView:
        """One job with its tasks and what it asked for."""
        return self._run(self._client.job(job))

    def jobs(self, query: JobQuery | None = None, *, limit: int = 0) -> Iterator[v.JobView]:
        """The jobs that match, page after page; `limit` 0 gives all."""
        return self._iterate(self._client.jobs(query, limit=limit))

    def cancel(self, job: int, *, why: str = "") -> v.DoneView:
        """End the job, waiting or running."""
        return self._run(self._client.cancel(job, why=why))

    def hold(self, job: int) -> v.DoneView:
        """Keep the job from starting; a running one is suspended."""
        return self._run(self._client.hold(job))

    def release(self, job: int) -> v.DoneView:
        """Let a held or suspended job run again."""
        return self._run(self._client.release(job))

    def suspend(self, job: int, *, stop: bool = False) -> v.DoneView:
        """Pause a running job where it is, if it may be; with `stop` it always gives its room back."""
        return self._run(self._client.suspend(job, stop=stop))

    def resume_job(self, job: int, *, urgent: bool = False) -> v.DoneView:
        """Let a paused, suspended or held job go on; an urgent one has lower jobs on its GPUs paused."""
        return self._run(self._client.resume_job(job, urgent=urgent))

    def element(self, array: int, index: int) -> v.JobView:
        """One element of an array, by its index."""
        return self._run(self._client.element(array, index))

    def edit(self, job: int, changes: Mapping[str, object], *, why: str = "", dry_run: bool = False) -> v.JobView:
        """Change some terms of a job, called as in a job file."""
        return self._run(self._client.edit(job, changes, why=why, dry_run=dry_run))

    def top(self, job: int, *, among: str = "user", why: str = "") -> v.DoneView:
        """Put a waiting job before one's others, the group's, or everybody's."""
        return self._run(self._client.top(job, among=among, why=why))

    def resize(self, job: int, size: int, *, role: str = "") -> v.DoneView:
        """Ask for a size of an elastic job, within its bounds; 0 leaves it to the policy again."""
        return self._run(self._client.resize(job, size, role=role))

    def rerun(self, job: int, *, key: str = "", dry_run: bool = False) -> v.JobView:
        """The same job once more, as a new one."""
        return self._run(self._client.rerun(job, key=key, dry_run=dry_run))

    def explain(self, job: int) -> v.ExplanationView:
        """Why the job is where it is."""
        return self._run(self._client.explain(job))

    def history(self, job: int) -> v.HistoryView:
        """What happened to the job, oldest first."""
        return self._run(self._client.history(job))

    def wait(self, job: int, *, states: frozenset[str] = ENDED_STATES, timeout_s: float | None = None) -> v.JobView:
        """The job once it is in one of the states, or has ended.

        Raises:
            TimeoutError: it was not there in time; the job is left alone.
        """

        async def limited() -> v.JobView:
            async with asyncio.timeout(timeout_s):
                return await self._client.wait(job, states=states)

        return self._run(limited())

    def logs(
        self, job: int, *, task: str = "", follow: bool = False, tail: int | None = None, prefix: bool = False
    ) -> Iterator[bytes]:
        """What the job's tasks wrote, in chunks; with `follow` until the job has ended."""
        return self._iterate(self._client.logs(job, task=task, follow=follow, tail=tail, prefix=prefix))

    def events(self, *, job: int | None = None, group: str = "", after: str = "") -> Iterator[EventLine]:
        """Events as they happen, each once; `after` resumes behind a known event id."""
        return self._iterate(self._client.events(job=job, group=group, after=after))

    # --- queue and machines --------------------------------------------------------------------------------

    def queue(self, pool: str = "default", query: QueueQuery | None = None) -> v.QueueView:
        """The waiting jobs of a pool in order, each with its reason."""
        return self._run(self._client.queue(pool, query))

    def nodes(self, pool: str = "") -> list[v.NodeView]:
        """All nodes, or those of a pool."""
        return self._run(self._client.nodes(pool))

    def node(self, node: str) -> v.NodeView:
        """One node."""
        return self._run(self._client.node(node))

    def assign(self, node: str, pool: str, *, why: str = "") -> v.DoneView:
        """Let the node serve another pool; "" gives it back to the one that its agent names."""
        return self._run(self._client.assign(node, pool, why=why))

    def drain(self, node: str, *, why: str = "") -> v.DoneView:
        """Let the node take no new work; what runs goes on."""
        return self._run(self._client.drain(node, why=why))

    def resume(self, node: str) -> v.DoneView:
        """Let a drained node take work again."""
        return self._run(self._client.resume(node))

    def forget(self, node: str, *, gone: bool = False, why: str = "") -> v.DoneView:
        """Take a lost node off the books; `gone` says that nothing runs there any more, though nobody saw it end."""
        return self._run(self._client.forget(node, gone=gone, why=why))

    def cluster(self) -> v.ClusterView:
        """Totals over everything."""
        return self._run(self._client.cluster())

    # --- groups, usage, policies, access --------------------------------------------------------------------

    def groups(self) -> v.GroupsView:
        """The groups the caller may see."""
        return self._run(self._client.groups())

    def group(self, path: str) -> v.GroupView:
        """One group."""
        return self._run(self._client.group(path))

    def set_group(self, group: Group, *, version: int | None = None, dry_run: bool = False) -> v.DoneView:
        """Make or change a group; with `version` only if nobody changed it since."""
        return self._run(self._client.set_group(group, version=version, dry_run=dry_run))

    def remove_group(self, path: str, *, drain: bool = False, dry_run: bool = False, why: str = "") -> v.DoneView:
        """Take a group out of the tree; `drain` lets its jobs end first."""
        return self._run(self._client.remove_group(path, drain=drain, dry_run=dry_run, why=why))

    def remove_user(
        self, group: str, user: str, *, drain: bool = False, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """End a membership; `drain` lets the user's jobs there end first."""
        return self._run(self._client.remove_user(group, user, drain=drain, dry_run=dry_run, why=why))

    def user(self, group: str, user: str) -> v.UserView:
        """One user of a group."""
        return self._run(self._client.user(group, user))

    def set_user(self, user: User, *, version: int | None = None, dry_run: bool = False) -> v.DoneView:
        """Make or change a user of a group; with `version` only if nobody changed it since."""
        return self._run(self._client.set_user(user, version=version, dry_run=dry_run))

    def usage(self) -> v.UsageView:
        """Usage of the groups and users the caller may see."""
        return self._run(self._client.usage())

    def policies(self) -> v.PoliciesView:
        """Every pool's policy, and the names one may choose from."""
        return self._run(self._client.policies())

    def set_policy(self, pool: str, policy: Policy, *, version: int | None = None, dry_run: bool = False) -> v.DoneView:
        """Change a pool's policy; with `version` only if nobody changed it since."""
        return self._run(self._client.set_policy(pool, policy, version=version, dry_run=dry_run))

    def settings(self) -> v.SettingsView:
        """All settings as one policy file."""
        return self._run(self._client.settings())

    def settings_history(
        self, *, kinds: Sequence[str] = (), group: str | None = None, pool: str = "", limit: int = 0
    ) -> list[v.SettingEditView]:
        """Who changed which setting, the latest first; of a group and what is below it, or of a pool. 0 gives all."""
        return self._run(self._client.settings_history(kinds=kinds, group=group, pool=pool, limit=limit))

    def apply_settings(
        self, page: Mapping[str, object], *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.AppliedView:
        """Make the settings as a policy file says, all or nothing; a dry run tells what would change."""
        return self._run(self._client.apply_settings(page, version=version, dry_run=dry_run, why=why))

    def windows(self) -> v.WindowsView:
        """Dated capacity that administrators keep, soonest first."""
        return self._run(self._client.windows())

    def set_window(
        self, window: Window, *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """Keep nodes for maintenance or for some users and groups, from one moment to another."""
        return self._run(self._client.set_window(window, version=version, dry_run=dry_run, why=why))

    def remove_window(self, name: str, *, why: str = "") -> v.DoneView:
        """Give dated capacity back."""
        return self._run(self._client.remove_window(name, why=why))

    def prices(self) -> v.PricesView:
        """What a GPU-hour of each model costs, in thousandths."""
        return self._run(self._client.prices())

    def set_prices(
        self, milli: Mapping[str, int], *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """Change the price list, as a whole."""
        return self._run(self._client.set_prices(milli, version=version, dry_run=dry_run, why=why))

    def whoami(self) -> v.WhoamiView:
        """What the caller's token says."""
        return self._run(self._client.whoami())

    def tokens(self) -> v.TokensView:
        """The tokens the caller may see."""
        return self._run(self._client.tokens())

    def issue_token(
        self, *, name: str, role: str, user: str, groups: Sequence[str] = (), expires_in: str = ""
    ) -> v.IssuedTokenView:
        """A new token, shown once."""
        coroutine = self._client.issue_token(name=name, role=role, user=user, groups=groups, expires_in=expires_in)
        return self._run(coroutine)

    def revoke_token(self, digest: str) -> v.DoneView:
        """Make a token useless."""
        return self._run(self._client.revoke_token(digest))

    def version(self) -> v.VersionView:
        """What runs there; needs no token."""
        return self._run(self._client.version())

    # --- how ---------------------------------------------------------------------------------------------------

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; an interrupt of the waiting thread (Ctrl-C) cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _iterate(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        async def step() -> tuple[T, ...]:
            try:
                return (await anext(source),)
            except StopAsyncIteration:
                return ()

        try:
            while found := self._run(step()):
                yield found[0]
        finally:
            if not self._loop.is_closed():
                self._run(source.aclose())
