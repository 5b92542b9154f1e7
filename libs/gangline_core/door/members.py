"""Who may submit for whom: the users of groups, their heads, and the holders of tokens."""

from gangline_core.groups import Token, ancestors, user_key
from gangline_core.state import State


class Members:
    """Membership as the state has it; answers are cheap after the first."""

    def __init__(self, state: State) -> None:
        """Membership in the frozen state."""
        self._state = state
        self._closed = {user.group for user in state.kept.users.values()}
        """Groups that list members."""
        self._tokens: dict[str, list[Token]] = {}
        for token in state.kept.tokens.values():
            if not token.revoked:
                self._tokens.setdefault(token.user, []).append(token)

    def may_submit(self, *, group: str, user: str, by: str) -> bool:
        """True when a job of this user in this group may be handed in by `by`."""
        if group not in self._closed or user_key(group, user) in self._state.kept.users:
            return True
        above = ancestors(group)
        groups = self._state.kept.groups
        if any(path in groups and user in groups[path].heads for path in above):
            return True
        if any(path in token.groups for token in self._tokens.get(user, ()) for path in above):
            return True
        return any(token.role == "admin" for token in self._tokens.get(by, ()))
