"""What the dollhouse holds a run to, sentence by sentence: who checks it, when, and what is taken away to see that.

`docs/proofs.md` is drawn from this; `tests/sim/test_proofs.py` holds every name here against the code.
"""

from msgspec import Struct

EVERY = "every message"
STARTS = "every start of a task on a machine"
FIFTY = "every 50th message, and the end"
REST = "rest: everything is healed, and no decision came for 40 s"
END = "the end: every job has ended"


class Promise(Struct, frozen=True):
    """One sentence."""

    says: str
    checks: dict[str, str]
    """Where it is checked, "module.function" or "module.Class.method" of `dollhouse`, and after what."""
    mutants: tuple[str, ...]
    """Names in `tests/sim/test_seed_mutants.py`: take this away, and a random run breaks the sentence."""
    oracle: str = ""
    """Of the seven that every scenario and simulation is held to as well."""


PROMISES: tuple[Promise, ...] = (
    Promise(
        "no GPU or slice twice",
        {
            "invariants.capacity_is_never_exceeded": EVERY,
            "invariants.slices_are_whole_and_nobody_elses": EVERY,
            "invariants.promised_room_is_there": EVERY,
            "machines.Ledger.enter": STARTS,
            "rooms.fault_of": "every room that a decision gives back in thought",
        },
        ("no room check", "slices begin anywhere", "the agent stays when cut off"),
        "O1",
    ),
    Promise(
        "capacity returns only when seen empty",
        {"history.History._gone": EVERY},
        ("room comes back at exit", "who stands still gives room at once"),
    ),
    Promise(
        "usage recomputed equals usage kept",
        {
            "invariants.usage_is_what_lives": EVERY,
            "invariants.use_is_the_sum_of_tasks": EVERY,
            "invariants.charges_are_booked_once": EVERY,
            "rules.Rules._count_used": EVERY,
            "play._look_at_the_end": END,
        },
        ("usage is one too high", "use is one too high", "charges are one too high", "charges are written twice"),
        "O2",
    ),
    Promise(
        "a gang is all or nothing outside its start and stop windows",
        {
            "invariants.gangs_are_whole": EVERY,
            "invariants.tasks_belong_to_live_jobs": EVERY,
            "history.History._leaves_a_whole_gang": EVERY,
            "history.History._winds_down": EVERY,
        },
        ("gangs start in part", "an ending job grows on"),
        "O3",
    ),
    Promise(
        "no endless change without an external event",
        {"history.History._ends": EVERY, "play._calm_down": REST},
        ("rounds have no end",),
        "O4",
    ),
    Promise(
        "no eviction without a beneficiary that then starts",
        {
            "history.History._has_beneficiaries": EVERY,
            "history.History._claims_end_well": EVERY,
            "invariants.victims_wait_for_somebody": EVERY,
            "lease_moves.LeaseMoves.opened": EVERY,
        },
        ("nobody is promised the room of victims", "nobody waits for quota"),
        "O5",
    ),
    Promise(
        "every accepted job ends, or waits with a true reason",
        {
            "history.History._missing": EVERY,
            "invariants.reasons_are_readable": EVERY,
            "told_true.ToldTrue.faults": "every decision before which nothing came in between",
            "play._look_at_truth": REST,
            "play._until": END,
        },
        (
            "nobody is told why",
            "room is said to be none",
            "nobody looks again at who leaves",
            "secrets are not kept",
            "snapshots forget submits",
        ),
        "O6",
    ),
    Promise(
        "a replay is equal byte for byte",
        {"replayed.replay_fault": END, "oracles.replay_faults": "the end of every scenario of tests/cases"},
        ("decisions depend on the moment",),
        "O7",
    ),
    Promise(
        "at most one writer per lane and epoch",
        {"history.History._who_writes": EVERY, "history.History._once": EVERY},
        ("no expected sequence", "no epoch"),
    ),
    Promise(
        "followers' state equals the leader's",
        {
            "digests.SameForAll.fault": "every message, at each process that folded it",
            "world.World.look_closely": FIFTY,
            "invariants.indexes_follow_from_what_is_kept": FIFTY,
        },
        ("a fold goes past holes",),
    ),
    Promise(
        "nothing that was told is lost, nothing is told twice",
        {"play._look_at_feed": END, "people.People._repeat": "every repeated submit"},
        ("nothing is told late", "a key counts for nothing"),
    ),
    Promise(
        "the log is cut only behind two snapshots and the archive",
        {"play._look_at_the_end": END, "play._until": END},
        ("snapshots need not be past it", "the archive need not reach"),
    ),
    Promise(
        "who is placed stands where it may",
        {"rules.Rules._stand_where_they_may": EVERY, "rules.Rules._together": EVERY},
        ("drained nodes take work", "failed cards are used", "no level is required"),
    ),
    Promise(
        "nobody goes inside its protected time, or after it was kept from its work for long",
        {"rules.Rules._go_when_they_may": EVERY, "left_to_work.LeftToWork.faults": EVERY},
        (
            "nobody is protected",
            "nobody is left to work",
            "leases cut off whom they cut off before",
            "jobs stay on failed cards",
        ),
    ),
    Promise(
        "who waited for long goes first on a part of the pool, and the ordering counts on the rest",
        {"by_age.ByAge.faults": EVERY},
        ("age counts everywhere",),
    ),
    Promise(
        "who goes on where it stopped makes way only after its share, for one that does as well and needs less still",
        {"yields.yields": EVERY},
        ("nobody asks who needs less",),
    ),
    Promise(
        "whose supervisor is ended again and again is held, and not for what a node does to several",
        {"ended_in_a_row.EndedInARow.faults": EVERY},
        ("supervisors are ended for ever", "closed nodes excuse nobody"),
    ),
    Promise(
        "what people want is done, and an end follows from how the members ended",
        {
            "rules.Rules._obey": EVERY,
            "rules.Rules._starts": EVERY,
            "rules.Rules._starts_in_time": EVERY,
            "rules.Rules._ends": EVERY,
            "rules.Rules._grow_no_further": EVERY,
            "rules.Rules._hold_nothing_in_vain": EVERY,
            "rules.Rules._is_tried_again": EVERY,
            "on_terms.OnTerms.faults": EVERY,
        },
        (
            "cancelled jobs run on",
            "held jobs wait on",
            "jobs do not wait for others",
            "failure is success",
            "a time limit is success",
            "a loss costs a retry",
            "budgets are forgotten",
            "deadlines are forgotten",
            "arrays know no most",
            "decisions are not looked at again",
            "a retry costs nothing",
            "windows are forgotten",
            "namesakes run beside each other",
            "nobody waits for a time",
        ),
    ),
    Promise(
        "nothing is booked beyond a limit",
        {"history.History._within_limits": EVERY},
        ("limits are forgotten", "lowered limits do not hold"),
    ),
    Promise(
        "secrets are where they are needed, and nowhere else",
        {"town.Town.look": EVERY, "play._look_for_secrets": END},
        ("secrets are kept for ever", "secrets are not kept"),
    ),
)

CONTRACT: dict[str, tuple[str, ...]] = {
    "an append is acknowledged with its place in the one order of its stream": (
        "bus/test_contract::test_messages_have_one_order_and_keep_their_headers",
        "bus/test_contract_rare::test_what_is_published_on_a_subject_of_a_stream_is_stored_and_what_is_stored_is_heard",
    ),
    "what is refused is not stored: full, too large, a subject that cannot be": (
        "bus/test_contract::test_a_full_stream_refuses_and_keeps_what_it_has",
        "bus/test_contract_rare::test_a_stream_is_full_to_the_last_byte_with_subjects_and_headers_counted",
        "bus/test_contract_rare::test_the_largest_message_is_taken_and_one_byte_more_is_refused_with_headers_counted",
        "bus/test_contract_rare::test_a_subject_that_cannot_be_sent_is_refused_for_good",
    ),
    "a duplicate inside the window is stored once": (
        "bus/test_contract::test_a_message_id_counts_once_inside_the_window_and_anew_after_it",
        "bus/test_contract::test_records_are_stored_once_however_often_they_are_sent",
        "bus/test_contract_rare::"
        "test_an_id_counts_on_all_subjects_of_a_stream_from_its_first_use_and_also_when_that_is_gone",
    ),
    "a duplicate outside the window is stored anew": (
        "bus/test_contract::test_a_message_id_counts_once_inside_the_window_and_anew_after_it",
    ),
    "what was sent in part is completed when it is sent again": (
        "bus/test_contract_rare::test_records_that_are_there_in_part_are_completed",
    ),
    "expected sequence of a subject": (
        "bus/test_contract::test_a_writer_that_expects_another_last_message_is_refused",
        "bus/test_contract_rare::test_an_expectation_beyond_what_there_is_is_refused_and_zero_means_none",
    ),
    "an ordered consumer gives each message once and in order, from where it is told on": (
        "bus/test_contract::test_a_follower_sees_what_is_stored_while_it_reads",
        "bus/test_contract_rare::test_patterns_are_read_and_looked_up_as_well_as_subjects",
        "bus/test_contract_rare::test_a_reader_of_more_than_there_is_says_that_data_was_lost",
        "bus/test_contract_rare::test_a_reader_may_come_before_the_stream_is_made",
    ),
    "redelivery: a reader that begins again where it was gets the rest again, and nothing twice": (
        "bus/test_contract_reconnects::test_whoever_reads_again_from_where_it_was_gets_the_same_again_and_no_more",
    ),
    "a stream drops its beginning, by age, by bytes, by subject or when it is told": (
        "bus/test_contract::test_a_stream_drops_its_beginning_and_every_writer_goes_on_where_it_was",
        "bus/test_contract::test_what_is_too_old_is_gone_and_whoever_reads_to_the_end_comes_there",
        "bus/test_contract::test_a_ring_forgets_the_oldest_and_readers_go_on_behind_them",
        "bus/test_contract::test_a_subject_keeps_its_last_messages",
        "bus/test_contract_rare::test_a_reader_that_slept_goes_on_behind_what_a_ring_forgot",
    ),
    "key-value revisions": (
        "bus/test_contract::test_keys_are_made_changed_and_taken_away_by_revision",
        "bus/test_contract::test_a_key_expires_and_can_be_made_again",
        "bus/test_contract::test_leases_have_one_holder",
        "bus/test_contract_rare::test_a_revision_is_the_place_among_all_changes_of_the_bucket",
        "bus/test_contract_rare::test_a_full_bucket_refuses_new_keys_and_larger_values",
    ),
    "object store": (
        "bus/test_contract::test_objects_are_kept_replaced_and_forgotten",
        "bus/test_contract_rare::test_objects_may_be_empty_large_and_oddly_named",
        "bus/test_contract_rare::test_buckets_and_stores_that_nobody_made_are_empty_and_take_nothing",
    ),
    "requests meet one of those who serve, and plain messages whoever listens": (
        "bus/test_contract::test_a_request_meets_one_of_those_who_serve_it_and_errors_come_back",
        "bus/test_contract::test_plain_messages_come_to_whoever_listens_in_the_order_of_their_subject",
        "bus/test_contract_rare::test_an_answer_that_is_too_large_or_too_late_is_told",
    ),
    "reconnects: a connection that broke comes back, and its readers, writers and listeners go on": (
        "bus/test_contract_reconnects::test_readers_go_on_over_a_broken_connection_without_loss_or_duplicate",
        "bus/test_contract_reconnects::test_without_a_connection_nothing_is_stored_and_the_writer_is_told_that_it_may_try_again",
        "bus/test_contract_reconnects::test_keys_objects_and_listeners_are_there_again_after_a_broken_connection",
    ),
}
"""Clause of JetStream's contract -> tests that hold the double, as one server and as three, and real servers to it."""
