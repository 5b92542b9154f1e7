"""What is asked for where things break and where somebody means harm, and the tests that would fail otherwise."""

FAULTS: dict[str, tuple[str, ...]] = {
    # --- the world ---
    "every real service in one loop on a virtual clock; equal seeds are equal runs": (
        "sim/test_stories::test_the_same_seed_is_the_same_run",
        "sim/test_pipeline::test_a_gang_runs_from_submit_to_released_gpus_and_is_charged_once",
    ),
    "a log in memory that keeps JetStream's contract, held to the same tests as one server and three": (
        "bus/test_contract::test_a_writer_that_expects_another_last_message_is_refused",
        "bus/test_contract::test_a_message_id_counts_once_inside_the_window_and_anew_after_it",
        "bus/test_contract::test_a_follower_sees_what_is_stored_while_it_reads",
        "bus/test_contract::test_keys_are_made_changed_and_taken_away_by_revision",
        "bus/test_contract::test_objects_are_kept_replaced_and_forgotten",
        "bus/test_contract::test_a_full_stream_refuses_and_keeps_what_it_has",
        "bus/test_contract_rare::test_a_stream_is_full_to_the_last_byte_with_subjects_and_headers_counted",
        "bus/test_contract_rare::test_a_revision_is_the_place_among_all_changes_of_the_bucket",
        "bus/test_contract_rare::test_a_reader_of_more_than_there_is_says_that_data_was_lost",
        "bus/test_undecided::test_until_servers_agree_nothing_else_is_taken_on_the_subject_and_then_it_is_stored_or_not",
    ),
    # --- faults by seed ---
    "a fixed set of seeds and some new ones": (
        "sim/test_stories::test_a_seed_ends_well",
        "sim/test_stories::test_a_new_seed_ends_well",
    ),
    "a crash at every await": (
        "sim/test_sweep::test_whoever_dies_at_any_of_its_waits_leaves_everything_as_it_should_be",
        "sim/test_sweep::test_a_sweep_kills_everybody_at_every_wait_from_the_storys_beginning_to_its_last_job",
    ),
    "leaders frozen and thawed, two leaders, clocks that jump": (
        "cases/test_leaders::test_a_leader_frozen_for_a_minute_wakes_up_and_writes_nothing_that_counts",
        "cases/test_leaders::test_a_clock_that_is_set_an_hour_off_makes_no_second_leader",
        "bus/test_frozen::test_a_leader_frozen_past_its_lease_writes_nothing_after_its_heir_began",
    ),
    "a full stream and a slow consumer": (
        "cases/test_bus::test_a_full_log_is_a_refused_submit_that_may_be_repeated_and_never_a_lost_job",
        "cases/test_bus::test_a_listener_that_stands_still_holds_up_neither_senders_nor_submits",
        "sim/test_cutting::test_a_log_that_filled_up_is_freed_without_anybodys_help",
    ),
    "restarts with old, broken or no snapshots; a truncated archive": (
        "bus/test_follower::test_an_older_good_snapshot_is_used_when_the_newest_is_spoiled",
        "bus/test_follower::test_deleting_all_snapshots_changes_nothing",
        "sim/test_cutting::test_who_begins_while_all_snapshots_are_gone_waits_until_the_recorder_has_made_one",
        "sim/test_cutting::test_an_archive_that_ends_before_the_log_begins_is_named_with_what_to_do",
        "services/recorder/test_archive::test_an_unfinished_last_line_is_cut_and_can_be_appended_again",
    ),
    # --- invariants ---
    "the oracles are looked at after every step, and each kind of wrong is seen": (
        "sim/test_oracles::test_every_oracle_has_promises_and_every_promise_of_a_state_belongs_to_one",
        "sim/test_oracles::test_each_kind_of_wrong_is_seen",
        "sim/test_oracles::test_a_decision_that_would_not_be_made_again_is_seen",
        "sim/test_rooms::test_room_that_is_promised_to_two_jobs_is_seen",
    ),
    "after every step followers know what the leader knows": (
        "sim/test_digests::test_a_follower_that_strays_for_one_message_is_seen",
        "sim/test_digests::test_whatever_changes_changes_the_digest_also_in_place_and_back",
    ),
    "a failing seed is shrunk to a story, and stories are played for ever": (
        "sim/test_stories::test_a_failing_run_is_shrunk_to_what_makes_it_fail",
        "sim/test_stories::test_a_story_that_once_failed_ends_well",
    ),
    "many seeds, stopped and taken up again": (
        "sim/test_ledger::test_a_run_that_ended_is_not_played_again",
        "sim/test_ledger::test_what_failed_before_a_stop_makes_the_whole_fail",
    ),
    "a check or a fence that is taken away is noticed": (
        "sim/test_seed_mutants::test_a_random_run_notices_what_is_taken_away",
        "sim/test_seed_mutants::test_the_random_runs_that_notice_it_are_sound",
        "sim/test_rule_mutants::test_the_dollhouse_notices_a_rule_that_is_forgotten",
        "sim/test_mutants::test_the_dollhouse_notices_what_is_taken_away",
        "sim/test_mutants::test_a_run_that_notices_mutants_is_sound_without_them",
        "sim/test_log_mutants::test_the_dollhouse_notices_what_is_taken_away_from_the_log",
        "sim/test_log_mutants::test_the_runs_that_notice_it_are_sound_and_the_log_was_cut_in_them",
    ),
    "a program that kills its supervisor is not started for ever, and a machine that does it fails nobody": (
        "core/test_killed::test_a_job_whose_supervisor_is_ended_again_and_again_is_held_and_says_why",
        "core/test_killed::test_what_befell_a_job_on_a_node_that_is_closed_for_it_counts_no_more",
        "services/telemetry/test_black_holes::"
        "test_a_node_that_ends_the_supervisors_of_several_jobs_is_closed_and_none_of_them_is_held_for_it",
        "end_to_end/test_killed::"
        "test_a_program_that_kills_its_supervisor_is_held_in_the_end_and_tried_anew_when_it_is_released",
        "sim/test_reaped::test_runs_with_such_machines_end_well",
    ),
    # --- real faults, high availability ---
    "each service killed or paused at each phase of a job": (
        "faults/test_phases::test_whoever_is_struck_at_any_phase_of_a_job_it_is_neither_lost_nor_doubled",
    ),
    "fail-over, pauses, a broker killed, a rolling restart under load, with figures": (
        "faults/test_services::test_whatever_process_dies_or_stands_still_nothing_is_lost_or_doubled",
        "faults/test_rolling::"
        "test_everything_begins_anew_one_after_the_other_under_load_and_nothing_is_lost_or_doubled",
        "bus/test_leader::test_a_leader_that_dies_without_goodbye_is_replaced_within_five_seconds",
    ),
    "power loss, a full disk, one and two of three brokers": (
        "faults/test_broker::test_power_loss_loses_nothing_that_was_answered",
        "faults/test_broker::test_a_full_disk_refuses_and_loses_nothing_that_was_answered",
        "faults/test_brokers::"
        "test_one_and_two_of_three_brokers_die_under_the_whole_platform_and_nothing_is_lost_or_doubled",
        "faults/test_broker::test_one_of_three_may_die_and_with_two_gone_nothing_is_taken_that_could_be_lost",
    ),
    "an upgrade from the version before": (
        "sim/test_upgrade_whole::test_the_day_held_every_kind_of_fact_and_every_stream_and_bucket",
        "sim/test_upgrade_whole::test_this_build_goes_on_with_all_of_it",
        "sim/test_upgrade::test_the_previous_version_s_log_folds_without_alarms_and_keeps_every_promise",
        "sim/test_upgrade::test_a_snapshot_of_the_previous_version_is_refused",
        "sim/test_upgrade::test_this_version_goes_on_where_the_previous_one_stopped",
    ),
    # --- closed ---
    "a user of the bus per service, with the fewest rights": (
        "bus/test_rights::test_a_service_writes_its_own_lane_and_no_other",
        "bus/test_rights::test_a_service_touches_the_lease_of_its_own_lane_and_no_other",
        "bus/test_rights::test_only_those_who_start_tasks_read_sealed_values",
        "bus/test_rights::test_only_the_recorder_drops_the_beginning_of_the_log",
        "bus/test_rights::test_readers_hear_the_public_feed_and_pull_it_and_can_do_nothing_else",
    ),
    "an agent in wrong hands writes its own lane and nothing else": (
        "security/test_agent_rights::test_an_agent_in_wrong_hands_does_an_agents_work_and_nothing_else",
        "security/test_agent_rights::test_a_wrong_password_and_no_password_open_nothing",
        "security/test_agent_rights::"
        "test_an_agent_whose_user_is_taken_out_of_the_brokers_list_is_cut_off_at_once_and_nobody_else",
    ),
    "TLS on the bus and on the API": (
        "bus/test_tls::test_nobody_speaks_to_it_in_the_clear",
        "bus/test_tls::test_a_server_of_another_authority_or_of_none_that_is_known_is_not_believed",
        "security/test_http::test_with_a_certificate_the_api_is_spoken_over_tls_only",
    ),
    "tokens are kept as hashes, expire, and are taken back": (
        "services/gateway/test_access::test_an_expired_or_revoked_token_opens_nothing",
        "services/gateway/test_access::test_a_new_token_is_shown_once_and_opens_the_door",
        "security/test_secrets_everywhere::"
        "test_no_store_no_log_line_and_no_answer_of_any_service_carries_a_planted_secret",
    ),
    "tokens of an identity provider": (
        "services/gateway/test_oidc::test_who_comes_with_the_provider_s_token_is_whom_it_names",
        "services/gateway/test_oidc::test_a_token_is_refused_for_each_single_thing_that_is_wrong",
        "services/gateway/test_oidc::test_the_public_key_is_no_shared_secret",
        "services/gateway/test_oidc::test_a_new_key_is_found_at_once_and_a_withdrawn_one_opens_nothing_later",
    ),
    "roles for every verb and method": (
        "services/gateway/test_access::test_every_route_but_the_open_ones_needs_a_token",
        "security/test_http::test_who_only_reads_changes_nothing_anywhere",
        "services/gateway/test_access::test_owner_head_and_administrator_may_steer_a_job",
        "services/gateway/test_access::test_a_head_issues_tokens_for_what_it_leads_and_no_more",
    ),
    "tenants see and touch nothing of each other": (
        "security/test_http::test_a_foreign_job_is_like_none_for_every_verb",
        "cases/test_tenancy::test_nothing_that_is_counted_or_streamed_tells_of_a_foreign_job",
        "cases/test_tenancy::test_a_job_that_follows_a_foreign_one_is_refused_as_if_there_were_none",
    ),
    "what users set in the environment is sifted": (
        "services/agent/test_environment::test_a_user_cannot_set_what_is_the_schedulers_and_is_told",
        "services/agent/test_environment::test_what_would_load_code_or_is_no_name_is_left_out_with_a_note",
        "services/agent/test_environment::test_nothing_of_the_agents_own_environment_leaks_but_a_few_harmless_names",
    ),
    "paths of output cannot escape": (
        "services/agent/test_output::"
        "test_nothing_that_a_job_puts_in_the_place_of_its_output_leads_out_of_its_folder_or_holds_anybody_up",
        "services/agent/test_output::test_what_a_job_puts_in_the_place_of_our_own_files_is_not_read",
    ),
    "no job gets another's secrets, and none stays": (
        "sim/test_sealed::test_a_door_that_slept_gives_no_job_the_secrets_of_another_and_leaves_nothing_behind",
        "sim/test_sealed::test_who_finds_no_room_for_secrets_is_told_so_alone_and_all_others_of_the_moment_are_let_in",
    ),
    "no line of a log carries a secret": (
        "security/test_secrets::test_no_log_line_and_no_fact_carries_a_planted_secret",
        "cases/test_tenancy::test_a_secret_is_in_no_answer_fact_log_or_metric",
        "services/agent/test_processes::test_a_secret_that_stands_where_the_program_should_is_in_no_error",
    ),
    "requests of two readings and slow senders": (
        "security/test_http::test_a_request_of_two_readings_is_refused_with_all_behind_it",
        "security/test_http::test_endless_heads_are_cut_off",
        "security/test_http::test_who_says_two_things_at_once_is_told_so",
        "security/test_http::test_many_who_say_nothing_hold_up_nobody",
        "security/test_crowd::test_who_asks_is_answered_although_many_more_lines_are_open_than_are_kept",
        "services/gateway/test_submit::test_a_body_that_does_not_come_holds_nobody",
    ),
    "every change leaves a line for auditors": (
        "cases/test_tenancy::test_every_change_leaves_a_line_for_auditors_even_when_it_is_refused",
    ),
    "no call and no decoder crashes": (
        "security/test_openapi::test_no_call_that_the_document_allows_or_forbids_ends_in_an_error_of_ours",
        "security/test_decoders::test_a_reader_of_bytes_gives_a_value_or_its_own_refusal",
        "security/test_decoders::test_a_batch_script_of_anything_is_a_job_or_a_list_of_what_is_wrong_with_it",
        "security/test_decoders::test_a_trace_of_anything_is_a_workload_or_one_error",
        "security/test_file_decoders::test_a_file_of_anything_is_read_or_refused_by_name",
        "security/test_client_decoders::test_an_answer_of_anything_is_read_or_refused",
        "security/test_file_decoders::test_an_archive_of_anything_is_read_as_far_as_it_holds_or_refused",
    ),
}
