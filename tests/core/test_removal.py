"""Groups and users leave the tree only when nothing of theirs is left, and never take what they used with them."""

from msgspec.structs import replace
from tests.make import HOUR, World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Pool
from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.door.removal import check_group_removal, check_user_removal, closing
from gangline_core.groups import Token, User
from gangline_core.limits.accounting import charge
from gangline_core.limits.spending import spent
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.reserving.windows import Window
from gangline_core.state import decode_snapshot, encode_snapshot

LAB, VISION = group("lab"), group("lab/vision")


def world(**more) -> World:
    made = World(node("n1"), groups=[LAB, VISION], **more)
    return made.set_policy(ordering="fifo")


def remove(made: World, path: str) -> None:
    assert check_group_removal(made.state, path, drain=False) is None
    made.tell("admission", f.GroupRemoved(path=path, by="admin"))


def drain(made: World, path: str) -> None:
    assert check_group_removal(made.state, path, drain=True) is None
    made.tell("admission", *(f.GroupSet(group=one, by="admin") for one in closing(made.state, path)))


def refusal(made: World, **fields) -> ReasonCode:
    judged = judge_submit(made.state, Draft(), specs=[spec(**fields)], submit_id="s", by="ada", trace="", at=made.at)
    return judged.refusals[0][1].code


def test_an_idle_group_goes_at_once_with_its_members():
    made = world(users=[User(name="ada", group="lab/vision")])
    remove(made, "lab/vision")
    assert sorted(made.state.kept.groups) == ["", "lab"]
    assert made.state.kept.users == {}
    assert refusal(made, group="lab/vision") == ReasonCode.UNKNOWN_GROUP


def test_a_group_with_jobs_or_groups_below_it_is_refused_and_says_what_to_do():
    made = world()
    made.submit(spec(group="lab/vision"))
    busy = check_group_removal(made.state, "lab/vision", drain=False)
    assert busy is not None
    assert (busy.kind, "1 unfinished" in busy.message, "drain" in busy.message) == ("conflict", True, True)
    parent = check_group_removal(made.state, "lab", drain=False)
    assert parent is not None
    assert "lab/vision is below it" in parent.message
    assert check_group_removal(made.state, "", drain=True).kind == "invalid"
    assert check_group_removal(made.state, "nobody", drain=True).kind == "not_found"


def test_a_group_that_cells_or_windows_count_on_stays():
    made = world()
    pool = Pool(name="default", cells={"lab/vision": {"node": 1}})
    made.set_policy(placement="cells")
    made.tell("admission", f.PoolSet(pool=pool, by="admin"))
    assert "owes cells" in check_group_removal(made.state, "lab", drain=True).message
    made.tell("admission", f.PoolSet(pool=Pool(name="default"), by="admin"))
    window = Window(name="w", pool="default", start_ms=made.at, end_ms=made.at + HOUR, groups=("lab",))
    made.tell("admission", f.WindowSet(window=window, by="admin"))
    assert "window w" in check_group_removal(made.state, "lab", drain=True).message


def test_a_drained_group_takes_nothing_new_lets_what_it_has_end_and_then_goes_with_what_is_below():
    made = world()
    running = made.submit_running(spec(group="lab/vision", gpus=2), "n1")
    waiting = made.submit(spec(group="lab", gpus=8))
    drain(made, "lab")
    assert refusal(made, group="lab") == ReasonCode.CLOSING
    assert refusal(made, group="lab/vision") == ReasonCode.CLOSING
    assert made.state.usage["lab"]["gpu_milli"] == 2000
    made.finish(running)
    assert sorted(made.state.kept.groups) == ["", "lab"]
    made.settle()
    made.finish(waiting)
    assert sorted(made.state.kept.groups) == [""]
    assert {holder: own for holder, own in made.state.usage.items() if own} == recompute(made.state) == {}


def test_a_drain_is_called_off_by_setting_the_group_again():
    made = world()
    made.submit(spec(group="lab"))
    drain(made, "lab")
    made.tell("admission", f.GroupSet(group=LAB, by="admin"), f.GroupSet(group=VISION, by="admin"))
    made.settle()
    made.finish(made.in_state("running")[0])
    assert "lab" in made.state.kept.groups


def test_what_a_removed_group_used_stays_in_the_accounts_above_and_waits_for_it():
    made = world()
    job = made.submit_running(spec(group="lab/vision", gpus=4), "n1")
    made.wait(3600).finish(job)
    remove(made, "lab/vision")
    for fact in charge(made.state, made.at):
        made.tell("accounting", fact)
    used = spent(made.state, made.at)
    assert used.total("lab") == used.total("") == used.total("lab/vision") == 4000 * HOUR
    again = group("lab/vision", budget_gpu_hours=4)
    made.tell("admission", f.GroupSet(group=again, by="admin"))
    (exhausted,) = charge(made.state, made.at)
    assert exhausted == f.BudgetExhausted(group="lab/vision", used_gpu_milli_ms=4000 * HOUR)


def test_a_removal_that_lost_the_race_against_a_submission_changes_nothing():
    made = world()
    made.submit(spec(group="lab/vision"))
    made.tell("admission", f.GroupRemoved(path="lab/vision", by="admin"))
    assert "lab/vision" in made.state.kept.groups
    made.tell("admission", f.GroupRemoved(path="lab", by="admin"))
    assert "lab" in made.state.kept.groups


def test_tokens_of_a_removed_group_open_nothing_and_never_more_than_before():
    made = world()
    tokens = [
        Token(digest="1", name="a", role="user", user="ada", groups=("lab/vision", "lab")),
        Token(digest="2", name="b", role="readonly", user="bob", groups=("lab/vision",)),
        Token(digest="3", name="c", role="admin", user="root"),
    ]
    made.tell("admission", *(f.TokenIssued(token=token, by="admin") for token in tokens))
    remove(made, "lab/vision")
    kept = made.state.kept.tokens
    assert (kept["1"].groups, kept["1"].revoked) == (("lab",), False)
    # Without groups it would read everything.
    assert (kept["2"].groups, kept["2"].revoked) == ((), True)
    assert not kept["3"].revoked


def test_a_member_leaves_when_nothing_is_unfinished_and_their_token_no_longer_opens_the_group():
    users = [User(name="ada", group="lab"), User(name="bob", group="lab")]
    made = world(users=users)
    token = Token(digest="1", name="a", role="user", user="ada", groups=("lab",))
    made.tell("admission", f.TokenIssued(token=token, by="admin"))
    job = made.submit_running(spec(group="lab", user="ada"), "n1")
    assert check_user_removal(made.state, "lab", "ada", drain=False).kind == "conflict"
    assert check_user_removal(made.state, "lab", "eve", drain=True).kind == "not_found"
    made.tell("admission", f.UserSet(user=replace(users[0], closing=True), by="admin"))
    assert refusal(made, group="lab", user="ada") == ReasonCode.CLOSING
    made.finish(job)
    assert sorted(made.state.kept.users) == ["lab:bob"]
    assert made.state.kept.tokens["1"].revoked
    assert refusal(made, group="lab", user="ada") == ReasonCode.UNKNOWN_USER


def test_a_restart_in_the_middle_of_a_drain_ends_it_the_same_way():
    made = world()
    job = made.submit_running(spec(group="lab/vision"), "n1")
    drain(made, "lab")
    made.state = decode_snapshot(encode_snapshot(made.state))
    made.finish(job)
    assert sorted(made.state.kept.groups) == [""]


def test_removing_a_group_gives_its_guarantee_back_to_the_others():
    made = World(node("n1"), groups=[group("a", guaranteed=gpu_amount(4), lend_limit=gpu_amount(0)), group("b")])
    job = made.submit(spec(group="b", gpus=8))
    made.settle()
    assert made.job(job).state == "waiting"
    remove(made, "a")
    made.settle()
    assert made.job(job).state == "running"
