"""Who judges which request: each becomes facts and an answer, by the core's rules. Pure."""

from collections.abc import Callable
from typing import Any

from gangline_admission import jobs, machines, settings
from gangline_admission.verdict import Verdict
from gangline_core.door.draft import Draft
from gangline_core.state import State
from gangline_wire import requests as r

JUDGES: dict[type[r.Request], Callable[[State, Draft, Any, int], Verdict]] = {
    r.SubmitJobs: jobs.submit,
    r.CancelJob: jobs.cancel,
    r.SetHold: jobs.hold,
    r.EditJob: jobs.edit,
    r.TopJob: jobs.top,
    r.SetSize: jobs.size,
    r.SetDrain: machines.drain,
    r.AssignNode: machines.assign,
    r.ForgetNode: machines.forget,
    r.SetGroup: settings.set_group,
    r.SetUser: settings.set_user,
    r.RemoveGroup: settings.remove_group,
    r.RemoveUser: settings.remove_user,
    r.SetPool: settings.set_pool,
    r.SetPolicy: settings.set_policy,
    r.SetWindow: settings.set_window,
    r.RemoveWindow: settings.remove_window,
    r.SetPrices: settings.set_prices,
    r.ApplySettings: settings.apply_all,
    r.IssueToken: settings.issue_token,
    r.RevokeToken: settings.revoke_token,
}


def judge(state: State, draft: Draft, request: r.Request, at: int) -> Verdict:
    """Judge one request at a moment, on the state and on what earlier requests of the same batch drafted."""
    return JUDGES[type(request)](state, draft, request, at)
