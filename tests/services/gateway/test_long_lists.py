"""A list that does not fit an answer says how much of it is missing."""

import pytest
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f
from gangline_core.groups import Group, Token, User
from gangline_wire import limits
from gangline_wire.limits import Limit


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand are as good as twenty here."""
    monkeypatch.setitem(limits.LIMITS, "group_users", Limit(20, "entries"))


@pytest.mark.parametrize(("beyond", "kept"), [(0, 20), (7, 20)])
async def test_what_does_not_fit_is_counted(visitor: Visitor, beyond: int, kept: int) -> None:
    state = visitor.setting.world.state
    groups = [
        f.GroupSet(group=Group(path=f"g{k:02d}"), by="root") for k in range(kept + beyond - len(state.kept.groups))
    ]
    users = [f.UserSet(user=User(name=f"u{k:02d}", group="t2"), by="root") for k in range(kept + beyond - 1)]
    tokens = [f.TokenIssued(token=Token(digest=f"{k:064d}", name="x", role="admin", user="x", groups=()), by="root")
              for k in range(kept + beyond - len(state.kept.tokens))]  # fmt: skip
    visitor.setting.follower.tell("admission", *groups, *users, *tokens)
    found = await visitor.ask("admin", "GET", "/v1/groups")
    assert (len(found["groups"]), found.get("left_out", 0)) == (kept, beyond)
    group = await visitor.ask("admin", "GET", "/v1/groups/t2")
    assert (len(group["users"]), group.get("users_left_out", 0)) == (kept, beyond)
    told = await visitor.ask("admin", "GET", "/v1/tokens")
    assert (len(told["tokens"]), told.get("left_out", 0)) == (kept, beyond)
    usage = await visitor.ask("admin", "GET", "/v1/usage")
    assert len(usage["lines"]) == kept
    assert usage["left_out"] == len(state.kept.groups) + len(state.kept.users) - kept
    assert "left_out" not in await visitor.ask("una", "GET", "/v1/usage"), "of what it may see, nothing is missing"
