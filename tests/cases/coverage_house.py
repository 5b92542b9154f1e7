"""Public reports about what breaks: K nodes, N leaders and restarts, O the bus, P watching clusters, S who may what.

The same table as `coverage.CASES`; what breaks is mostly tried where it lives, so most tests stand in other folders.
"""

HOUSE: dict[str, tuple[str, ...]] = {
    "K01 kubernetes/kubernetes#30972": (
        "test_nodes::test_a_job_on_a_cut_off_node_is_over_there_before_it_begins_elsewhere",
        "sim/test_pipeline::test_a_crash_of_any_service_loses_no_job_and_doubles_none",
        "end_to_end/test_own_name::test_tasks_that_run_on_are_found_again_under_whatever_name_the_machine_has_by_then",
    ),
    "K02 skypilot-org/skypilot#10155": (
        "test_nodes::test_silence_that_ends_in_time_harms_nothing_however_often_it_comes",
        "test_nodes::test_when_nobody_can_be_heard_it_is_the_listeners_trouble",
    ),
    "K04 kubernetes-sigs/kueue#3401": (
        "test_nodes::test_only_what_takes_work_is_room",
        "kubernetes/test_nodes::test_closed_tainted_and_unready_nodes_are_no_room",
    ),
    "K05 volcano-sh/volcano#1818": (
        "test_nodes::test_a_gpu_named_dead_hits_only_the_job_on_it",
        "test_nodes::test_fewer_gpus_than_are_held_are_no_room_and_no_reason_to_kill",
    ),
    "K07 kubernetes/kubernetes#118559": (
        "test_nodes::test_an_agent_that_is_away_for_a_while_finds_its_tasks_running",
        "test_nodes::test_a_node_whose_devices_are_found_slowly_is_not_lost_meanwhile",
    ),
    "K08 NVIDIA/k8s-device-plugin#1641": (
        "test_nodes::test_a_node_whose_devices_stop_answering_takes_no_work_and_keeps_what_runs",
        "kubernetes/test_sights::test_a_driver_that_does_not_answer_closes_the_node_and_an_agent_that_is_gone_does_not",
    ),
    "K10 skypilot-org/skypilot#825": (
        "test_nodes::test_every_members_machine_is_watched_and_not_only_the_first",
        "test_variants_broken::test_a_gang_that_loses_one_machine_after_the_other_starts_again_once_and_whole",
    ),
    "K11 armadaproject/armada#4390": (
        "test_nodes::test_a_node_that_reports_no_gpus_for_a_moment_loses_no_job_and_gets_none",
        "test_nodes::test_one_ill_node_stops_no_other",
        "test_variants_broken::test_whatever_numbers_a_node_reports_in_turn_nobody_is_evicted_and_nobody_put_where_"
        "nothing_is",
    ),
    "N01 kubernetes-sigs/kueue#10495": (
        "test_leaders::test_a_standby_that_takes_over_knows_all_that_happened_and_nothing_that_is_gone",
        "bus/test_leader::test_a_new_leader_has_folded_everything_before_its_work_begins",
        "sim/test_cutting::test_a_process_that_slept_through_a_cut_begins_anew_and_knows_everything",
    ),
    "N02 kubernetes/kubernetes#125761": (
        "test_leaders::test_a_clock_that_is_set_an_hour_off_makes_no_second_leader",
        "test_leaders::test_a_process_that_begins_with_a_clock_an_hour_off_moves_nobodys_time",
        "test_leaders::test_a_clock_that_drifts_a_second_per_second_changes_no_leader",
        "test_variants_broken::test_leader_and_standby_whose_clocks_jump_apart_and_change_places_write_one_history",
        "test_leaders::test_a_leader_frozen_for_a_minute_wakes_up_and_writes_nothing_that_counts",
        "bus/test_frozen::test_a_leader_frozen_past_its_lease_writes_nothing_after_its_heir_began",
    ),
    "N04 ray-project/ray#66199": (
        "test_leaders::test_starts_that_an_agent_could_not_see_are_done_once_or_never",
        "bus/test_leader::test_a_leader_from_before_cannot_write_any_more",
    ),
    "N05 kubernetes-sigs/kueue#3984": (
        "test_leaders::test_a_restart_of_everything_changes_neither_the_order_nor_the_next_decision",
        "test_leaders::test_whatever_breaks_when_no_job_is_lost_doubled_or_left_holding_anything",
    ),
    "O01 nats-io/nats.go#1094": (
        "bus/test_tail::test_a_reader_whose_consumer_vanished_notices_and_reads_on",
        "test_variants_broken::test_a_reader_whose_consumer_is_taken_away_again_and_again_reads_everything_once",
        "bus/test_tail::test_what_is_written_while_a_reader_is_cut_off_reaches_it_later",
        "bus/test_tail::test_a_reader_goes_on_over_kill_9_of_the_server_without_loss_or_duplicate",
        "bus/test_service::test_a_service_is_alive_but_not_ready_while_the_bus_is_away",
        "bus/test_leaderless::test_a_reader_whose_consumer_nobody_makes_hears_what_the_streams_own_leader_gives",
    ),
    "O02 nats-io/nats-server#4460": (
        "bus/test_leader::test_an_append_waits_over_kill_9_of_the_server_and_is_stored_exactly_once",
        "sim/test_recorder::test_a_recorder_that_was_killed_archives_and_tells_what_came_meanwhile",
        "sim/test_submits::test_a_submit_that_is_repeated_by_whatever_broke_is_one_job",
    ),
    "O04 alexfrmn/murmur#141": (
        "bus/test_append::test_a_repeated_append_whose_first_answer_was_lost_counts_as_stored_once",
        "bus/test_contract::test_a_message_id_counts_once_inside_the_window_and_anew_after_it",
        "bus/test_undecided::test_until_servers_agree_nothing_else_is_taken_on_the_subject_and_then_it_is_stored_or_not",
        "sim/test_submits::test_a_submit_that_is_repeated_by_whatever_broke_is_one_job",
        "services/gateway/test_streams::test_what_an_agent_tells_again_is_read_once",
    ),
    "O05 nats-io/nack#136": (
        "bus/test_append::test_ensure_corrects_a_setting_that_differs_and_keeps_the_messages",
        "bus/test_append::test_ensure_corrects_the_consumer_of_readers_which_keeps_what_it_has_read",
        "bus/test_kv::test_the_lease_bucket_has_its_time_to_live_on_the_server",
    ),
    "O07 nats-io/nats-server#2679": (
        "test_bus::test_a_listener_that_stands_still_holds_up_neither_senders_nor_submits",
        "test_bus::test_while_the_bus_is_away_reads_go_on_and_submits_are_told_to_come_back",
        "bus/test_request::test_fire_and_forget_is_dropped_and_counted_while_the_bus_is_away",
        "bus/test_tail::test_a_slow_reader_is_not_overrun",
    ),
    "O08 nats-io/nats-server#6196": (
        "test_bus::test_a_full_log_is_a_refused_submit_that_may_be_repeated_and_never_a_lost_job",
        "bus/test_leader::test_a_full_log_refuses_the_writer_and_loses_nothing",
        "bus/test_cutting::test_a_full_log_takes_messages_again_after_the_cut",
        "sim/test_cutting::test_a_log_that_filled_up_is_freed_without_anybodys_help",
        "bus/test_cutting::test_a_log_that_ends_before_its_archive_is_told_before_anything_is_added_to_it",
    ),
    "O10 Arize-ai/phoenix#12744": (
        "bus/test_service::test_a_trace_collector_that_never_answers_neither_slows_the_service_nor_its_end",
        "kit/test_tracing::test_a_dead_collector_costs_the_oldest_spans_and_they_are_counted",
    ),
    "P01 tomplus/kubernetes_asyncio#136": (
        "kubernetes/test_watch::test_a_version_that_is_too_old_leads_to_a_list_that_tells_all_that_was_missed",
        "kubernetes/test_watch::test_a_410_as_an_answer_leads_to_the_same",
        "kubernetes/test_watch::test_an_object_whose_version_is_no_number_is_heard_like_any_other",
    ),
    "P02 kubernetes/kubernetes#104171": (
        "kubernetes/test_watch::test_watches_that_end_at_once_are_no_hot_loop_and_are_told",
    ),
    "P04 kubernetes/kubernetes#51313": (
        "kubernetes/test_watch::test_a_delete_that_no_watch_told_is_found_and_a_new_pod_of_the_name_is_another",
        "kubernetes/test_nodes::test_a_node_that_comes_back_under_its_name_starts_empty",
    ),
    "P05 kubernetes/kubernetes#28883": (
        "kubernetes/test_trouble::test_a_start_whose_request_was_lost_is_done_once",
        "kubernetes/test_trouble::test_a_start_whose_answer_was_lost_is_done_once",
        "kubernetes/test_adopted::test_a_binding_that_somebody_else_was_faster_with_undoes_the_gang",
    ),
    "S01 windmill-labs/windmill#10341": (
        "security/test_http::test_a_foreign_job_is_like_none_for_every_verb",
        "test_variants_broken::test_a_member_of_a_foreign_array_is_like_none_and_like_its_array",
        "test_tenancy::test_a_job_that_follows_a_foreign_one_is_refused_as_if_there_were_none",
        "test_tenancy::test_nothing_that_is_counted_or_streamed_tells_of_a_foreign_job",
        "test_tenancy::test_every_change_leaves_a_line_for_auditors_even_when_it_is_refused",
    ),
    "S02 open-mercato/open-mercato#2279": (
        "test_tenancy::test_what_belongs_to_nobody_is_changed_by_administrators_only",
        "test_tenancy::test_a_job_in_no_group_is_nobodys_but_the_administrators",
    ),
    "S04 eth-cscs/firecrest-v2#212": (
        "services/agent/test_environment::test_what_would_load_code_or_is_no_name_is_left_out_with_a_note",
        "services/agent/test_processes::test_no_shell_stands_between_the_arguments_and_the_program",
        "wire/test_jobfile::test_an_environment_name_is_letters_digits_and_underscores",
        "services/agent/test_journal::test_no_name_leads_out_of_the_folder",
        "security/test_decoders::test_a_batch_script_of_anything_is_a_job_or_a_list_of_what_is_wrong_with_it",
    ),
    "S05 marin-community/marin#3885": (
        "test_tenancy::test_a_secret_is_in_no_answer_fact_log_or_metric",
        "services/agent/test_processes::test_a_secret_that_stands_where_the_program_should_is_in_no_error",
        "security/test_secrets_everywhere"
        "::test_no_store_no_log_line_and_no_answer_of_any_service_carries_a_planted_secret",
    ),
    "S07 Parsl/parsl#2740": (
        "services/gateway/test_shown::test_a_job_says_whether_anything_keeps_it_to_its_gpus",
        "test_neighbours::test_a_job_on_its_neighbours_gpu_is_told_once_however_long_it_stays",
        "test_neighbours::test_where_the_pool_says_so_it_ends_with_the_reason_and_its_neighbour_goes_on",
        "test_neighbours::test_whoever_is_on_its_own_gpu_or_was_elsewhere_for_a_moment_is_left_alone",
    ),
}
"""Case and where it was first reported -> tests, as "file::test" of this folder or "folder/file::test" of another."""
