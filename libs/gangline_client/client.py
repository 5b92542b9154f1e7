"""The SDK: one method per thing the HTTP API can do, typed with its views, safe to retry."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from gangline_client import paths
from gangline_client.doors import Sleep, new_key
from gangline_client.errors import ClientError, ProblemError, UnreachableError
from gangline_client.follow import Patience, follow_events, follow_logs
from gangline_client.retry import Retry
from gangline_client.transport import Answer, Call, Transport
from gangline_client.utf8 import as_json
from gangline_core.cluster import Policy
from gangline_core.groups import Group, User
from gangline_core.job import ENDS
from gangline_core.reserving.windows import Window
from gangline_wire import views as v
from gangline_wire.requests import EventLine

PAGE_SIZE = 500
WAIT_POLL_S = 1.0
BATCH_JOBS_MAX = 1000
"""Most jobs the API takes in one batch."""

View = TypeVar("View", bound=v.View)

JobDocument = Mapping[str, object]
"""A job file as loaded from YAML or JSON."""

ENDED_STATES = frozenset(state.value for state in ENDS)


class Client:
    """A connection to one platform; use it as an async context manager.

    Every method raises ProblemError when the platform refuses and UnreachableError when nobody answers.
    A call that was interrupted is made again; a submit carries the same Idempotency-Key each time, so that it
    happens once.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        retry: Retry | None = None,
        sleep: Sleep = asyncio.sleep,
        make_key: Callable[[], str] = new_key,
    ) -> None:
        """Nothing is opened before the first call.

        Raises:
            SettingsError: `url` is no http or https address.
        """
        self.transport = Transport(url, token, retry=retry or Retry(), sleep=sleep)
        self._make_key = make_key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the connections back."""
        await self.transport.close()

    # --- jobs -------------------------------------------------------------------------------------------

    async def submit(self, job: JobDocument, *, key: str = "", dry_run: bool = False) -> v.JobView:
        """Submit one job; the answer comes when the log holds it."""
        return (await self._send(paths.JOBS, job, key=key or self._make_key(), dry_run=dry_run)).view(v.JobView)

    async def submit_many(self, jobs: Sequence[JobDocument], *, key: str = "", dry_run: bool = False) -> v.BatchView:
        """Submit up to BATCH_JOBS_MAX jobs: all of them or, when one is refused, none.

        In `after`, the name of a job before it in the list stands for the number which that one gets.
        """
        body = {"jobs": list(jobs)}
        return (await self._send(paths.BATCH, body, key=key or self._make_key(), dry_run=dry_run)).view(v.BatchView)

    async def job(self, job: int) -> v.JobView:
        """One job with its tasks and what it asked for."""
        return await self._get(paths.job(job), v.JobView)

    async def jobs_page(self, query: paths.JobQuery, *, limit: int = PAGE_SIZE, cursor: str = "") -> v.JobPage:
        """One page of the jobs that match."""
        return await self._get(paths.JOBS, v.JobPage, query.parameters(limit=limit, cursor=cursor))

    async def jobs(self, query: paths.JobQuery | None = None, *, limit: int = 0) -> AsyncGenerator[v.JobView, None]:
        """The jobs that match, page after page; `limit` 0 gives all."""
        given, cursor = 0, ""
        while True:
            size = min(PAGE_SIZE, limit - given) if limit else PAGE_SIZE
            page = await self.jobs_page(query or paths.JobQuery(), limit=size, cursor=cursor)
            for job in page.jobs:
                yield job
            given, cursor = given + len(page.jobs), page.next
            if not cursor or (limit and given >= limit):
                return

    async def cancel(self, job: int, *, why: str = "") -> v.DoneView:
        """End the job, waiting or running."""
        return (await self._send(paths.job(job, "cancel"), {"why": why} if why else {})).view(v.DoneView)

    async def hold(self, job: int) -> v.DoneView:
        """Keep the job from starting; a running one is suspended."""
        return (await self._send(paths.job(job, "hold"), {})).view(v.DoneView)

    async def release(self, job: int) -> v.DoneView:
        """Let a held or suspended job run again."""
        return (await self._send(paths.job(job, "release"), {})).view(v.DoneView)

    async def suspend(self, job: int, *, stop: bool = False) -> v.DoneView:
        """Pause a running job where it is, if it may be; with `stop` it always gives its room back."""
        return (await self._send(paths.job(job, "suspend"), {"stop": True} if stop else {})).view(v.DoneView)

    async def resume_job(self, job: int, *, urgent: bool = False) -> v.DoneView:
        """Let a paused, suspended or held job go on; an urgent one has lower jobs on its GPUs paused."""
        return (await self._send(paths.job(job, "resume"), {"urgent": True} if urgent else {})).view(v.DoneView)

    async def element(self, array: int, index: int) -> v.JobView:
        """One element of an array, by its index."""
        return await self._get(paths.job(f"{array}_{index}"), v.JobView)

    async def edit(self, job: int, changes: Mapping[str, object], *, why: str = "", dry_run: bool = False) -> v.JobView:
        """Change some terms of a job, called as in a job file: {"priority": 5, "time_limit": "2h"}."""
        query = paths.given({"dry_run": "true" if dry_run else "", "why": why})
        call = Call("PATCH", paths.job(job), query=query, body=as_json(changes))
        return (await self.transport.call(call)).view(v.JobView)

    async def top(self, job: int, *, among: str = "user", why: str = "") -> v.DoneView:
        """Put a waiting job before one's others ("user"), the group's ("group"), or everybody's ("all")."""
        return (await self._send(paths.job(job, "top"), paths.given({"among": among, "why": why}))).view(v.DoneView)

    async def resize(self, job: int, size: int, *, role: str = "") -> v.DoneView:
        """Ask for a size of an elastic job, within its bounds; 0 leaves it to the policy again."""
        body = {"size": size, **paths.given({"role": role})}
        return (await self._send(paths.job(job, "resize"), body)).view(v.DoneView)

    async def rerun(self, job: int, *, key: str = "", dry_run: bool = False) -> v.JobView:
        """The same job once more, as a new one."""
        answer = await self._send(paths.job(job, "rerun"), {}, key=key or self._make_key(), dry_run=dry_run)
        return answer.view(v.JobView)

    async def explain(self, job: int) -> v.ExplanationView:
        """Why the job is where it is."""
        return await self._get(paths.job(job, "explain"), v.ExplanationView)

    async def history(self, job: int) -> v.HistoryView:
        """What happened to the job, oldest first."""
        return await self._get(paths.job(job, "history"), v.HistoryView)

    async def wait(self, job: int, *, states: frozenset[str] = ENDED_STATES) -> v.JobView:
        """The job once it is in one of the states, or has ended; ask with asyncio.timeout to give up."""
        while True:
            view = await self.job_patiently(job)
            if view.state in states or view.state in ENDED_STATES:
                return view
            await self.transport.sleep(WAIT_POLL_S)

    async def job_patiently(self, job: int, *, tell: Callable[[ClientError], None] | None = None) -> v.JobView:
        """One job, asked for over minutes when need be: for those who stand by while the platform restarts.

        `tell` hears of every error that may pass by itself.
        """
        patience = Patience(self.transport)
        while True:
            try:
                return await self.job(job)
            except (UnreachableError, ProblemError) as error:
                if tell is not None:
                    tell(error)
                await patience.pause(error)

    def logs(
        self, job: int, *, task: str = "", follow: bool = False, tail: int | None = None, prefix: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """What the job's tasks wrote, in chunks; `follow` goes on to its end, `prefix` names a gang's task by line."""
        return follow_logs(self.transport, job, task=task, follow=follow, tail=tail, prefix=prefix)

    def events(self, *, job: int | None = None, group: str = "", after: str = "") -> AsyncGenerator[EventLine, None]:
        """Events as they happen, each once, over broken connections; `after` resumes behind a known event id."""
        return follow_events(self.transport, job=job, group=group, after=after)

    # --- queue and machines --------------------------------------------------------------------------------

    async def queue(self, pool: str = "default", query: paths.QueueQuery | None = None) -> v.QueueView:
        """The waiting jobs of a pool in order, each with its reason."""
        return await self._get(paths.QUEUE, v.QueueView, (query or paths.QueueQuery()).parameters(pool=pool))

    async def nodes(self, pool: str = "") -> list[v.NodeView]:
        """All nodes, or those of a pool."""
        nodes: list[v.NodeView] = []
        cursor = ""
        while True:
            query = {"limit": str(PAGE_SIZE), "cursor": cursor, "pool": pool}
            page = await self._get(paths.NODES, v.NodesView, paths.given(query))
            nodes.extend(page.nodes)
            cursor = page.next
            if not cursor:
                return nodes

    async def node(self, node: str) -> v.NodeView:
        """One node."""
        return await self._get(paths.node(node), v.NodeView)

    async def drain(self, node: str, *, why: str = "") -> v.DoneView:
        """Let the node take no new work; what runs goes on."""
        return (await self._send(paths.node(node, "drain"), {"why": why} if why else {})).view(v.DoneView)

    async def assign(self, node: str, pool: str, *, why: str = "") -> v.DoneView:
        """Let the node serve another pool; "" gives it back to the one that its agent names."""
        body = {"pool": pool, "why": why} if why else {"pool": pool}
        return (await self._send(paths.node(node, "assign"), body)).view(v.DoneView)

    async def resume(self, node: str) -> v.DoneView:
        """Let a drained node take work again."""
        return (await self._send(paths.node(node, "resume"), {})).view(v.DoneView)

    async def forget(self, node: str, *, gone: bool = False, why: str = "") -> v.DoneView:
        """Take a lost node off the books; `gone` says that nothing runs there any more, though nobody saw it end."""
        return await self._delete(paths.node(node), gone=gone, why=why)

    async def cluster(self) -> v.ClusterView:
        """Totals over everything."""
        return await self._get(paths.CLUSTER, v.ClusterView)

    # --- groups, usage, policies ---------------------------------------------------------------------------

    async def groups(self) -> v.GroupsView:
        """The groups the caller may see."""
        return await self._get(paths.GROUPS, v.GroupsView)

    async def group(self, path: str) -> v.GroupView:
        """One group."""
        return await self._get(paths.group(path), v.GroupView)

    async def set_group(
        self, group: Group, *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """Make or change a group; with `version` only if nobody changed it since."""
        return await self._put(paths.group(group.path), group, version=version, dry_run=dry_run, why=why)

    async def user(self, group: str, user: str) -> v.UserView:
        """One user of a group."""
        return await self._get(paths.user(group, user), v.UserView)

    async def set_user(
        self, user: User, *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """Make or change a user of a group; with `version` only if nobody changed it since."""
        return await self._put(paths.user(user.group, user.name), user, version=version, dry_run=dry_run, why=why)

    async def remove_group(
        self, path: str, *, drain: bool = False, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """Take a group out of the tree; `drain` lets its jobs end first."""
        return await self._delete(paths.group(path), drain=drain, version=version, dry_run=dry_run, why=why)

    async def remove_user(
        self,
        group: str,
        user: str,
        *,
        drain: bool = False,
        version: int | None = None,
        dry_run: bool = False,
        why: str = "",
    ) -> v.DoneView:
        """End a membership; `drain` lets the user's jobs there end first."""
        return await self._delete(paths.user(group, user), drain=drain, version=version, dry_run=dry_run, why=why)

    async def usage(self) -> v.UsageView:
        """Usage of the groups and users the caller may see."""
        return await self._get(paths.USAGE, v.UsageView)

    async def policies(self) -> v.PoliciesView:
        """Every pool's policy, and the names one may choose from."""
        return await self._get(paths.POLICIES, v.PoliciesView)

    async def policy(self, pool: str) -> v.PolicyView:
        """How one pool decides."""
        return await self._get(paths.policy(pool), v.PolicyView)

    async def set_policy(
        self, pool: str, policy: Policy, *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """Change a pool's policy; with `version` only if nobody changed it since."""
        return await self._put(paths.policy(pool), policy, version=version, dry_run=dry_run, why=why)

    async def settings(self) -> v.SettingsView:
        """All settings as one policy file."""
        return await self._get(paths.SETTINGS, v.SettingsView)

    async def settings_history(
        self, *, kinds: Sequence[str] = (), group: str | None = None, pool: str = "", limit: int = 0
    ) -> list[v.SettingEditView]:
        """Who changed which setting, the latest first; of a group and what is below it, or of a pool. 0 gives all."""
        path = "" if group is None else group or paths.ROOT_NAME
        query = paths.given({"kind": ",".join(kinds), "group": path, "pool": pool})
        edits: list[v.SettingEditView] = []
        while True:
            size = min(PAGE_SIZE, limit - len(edits)) if limit else PAGE_SIZE
            page = await self._get(paths.SETTINGS_HISTORY, v.SettingEditsView, {**query, "limit": str(size)})
            edits.extend(page.edits)
            if not page.next or (limit and len(edits) >= limit):
                return edits
            query["cursor"] = page.next

    async def apply_settings(
        self, page: Mapping[str, object], *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.AppliedView:
        """Make the settings as a policy file says, all or nothing; a dry run tells what would change."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        query = paths.given({"dry_run": "true" if dry_run else "", "why": why})
        call = Call("PUT", paths.SETTINGS, query=query, body=as_json(page), headers=headers)
        return (await self.transport.call(call)).view(v.AppliedView)

    async def windows(self) -> v.WindowsView:
        """Dated capacity that administrators keep, soonest first."""
        return await self._get(paths.WINDOWS, v.WindowsView)

    async def set_window(
        self, window: Window, *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """Keep nodes for maintenance or for some users and groups, from one moment to another."""
        return await self._put(paths.window(window.name), window, version=version, dry_run=dry_run, why=why)

    async def remove_window(self, name: str, *, why: str = "") -> v.DoneView:
        """Give dated capacity back."""
        call = Call("DELETE", paths.window(name), query=paths.given({"why": why}))
        return (await self.transport.call(call)).view(v.DoneView)

    async def prices(self) -> v.PricesView:
        """What a GPU-hour of each model costs, in thousandths."""
        return await self._get(paths.PRICES, v.PricesView)

    async def set_prices(
        self, milli: Mapping[str, int], *, version: int | None = None, dry_run: bool = False, why: str = ""
    ) -> v.DoneView:
        """Change the price list, as a whole."""
        return await self._put(paths.PRICES, {"milli": dict(milli)}, version=version, dry_run=dry_run, why=why)

    # --- access and service -----------------------------------------------------------------------------------

    async def whoami(self) -> v.WhoamiView:
        """What the caller's token says."""
        return await self._get(paths.WHOAMI, v.WhoamiView)

    async def tokens(self) -> v.TokensView:
        """The tokens the caller may see."""
        return await self._get(paths.TOKENS, v.TokensView)

    async def issue_token(
        self, *, name: str, role: str, user: str, groups: Sequence[str] = (), expires_in: str = ""
    ) -> v.IssuedTokenView:
        """A new token, shown once, valid for `expires_in` (such as "90d") or for ever.

        Not repeated by itself when the connection breaks.
        """
        body = {"name": name, "role": role, "user": user, "groups": list(groups)}
        body |= {"expires_in": expires_in} if expires_in else {}
        call = Call("POST", paths.TOKENS, body=as_json(body), repeatable=False)
        return (await self.transport.call(call)).view(v.IssuedTokenView)

    async def revoke_token(self, digest: str) -> v.DoneView:
        """Make a token useless."""
        return (await self.transport.call(Call("DELETE", paths.token(digest)))).view(v.DoneView)

    async def version(self) -> v.VersionView:
        """What runs there; needs no token."""
        return await self._get(paths.VERSION, v.VersionView)

    # --- how ---------------------------------------------------------------------------------------------------

    async def _get(self, path: str, kind: type[View], query: Mapping[str, str] | None = None) -> View:
        return (await self.transport.call(Call("GET", path, query=query or {}))).view(kind)

    async def _send(self, path: str, body: object, *, key: str = "", dry_run: bool = False) -> Answer:
        headers = {"Idempotency-Key": key} if key else {}
        query = {"dry_run": "true"} if dry_run else {}
        data = as_json(body)
        return await self.transport.call(Call("POST", path, query=query, body=data, headers=headers))

    async def _delete(self, path: str, *, version: int | None = None, why: str = "", **flags: bool) -> v.DoneView:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        query = paths.given({**{name: "true" if on else "" for name, on in flags.items()}, "why": why})
        return (await self.transport.call(Call("DELETE", path, query=query, headers=headers))).view(v.DoneView)

    async def _put(self, path: str, body: object, *, version: int | None, dry_run: bool, why: str) -> v.DoneView:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        query = paths.given({"dry_run": "true" if dry_run else "", "why": why})
        call = Call("PUT", path, query=query, body=as_json(body), headers=headers)
        return (await self.transport.call(call)).view(v.DoneView)
