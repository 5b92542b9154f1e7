"""Public reports of trouble in other systems, and the tests that would fail if the same happened here.

The numbers are those by which the reports are kept apart: A gangs, B quota, C borrowing, D order, E preemption, M what
is asked for, Q output and charges, R time. `test_coverage.py` looks that every test named here exists.
"""

CASES: dict[str, tuple[str, ...]] = {
    "A01 volcano-sh/volcano#3373": (
        "test_gang::test_two_gangs_that_each_need_everything_run_one_after_the_other",
        "test_gang::test_gangs_that_arrive_together_never_share_out_a_part_of_what_they_need",
        "test_variants::test_three_gangs_of_several_roles_that_each_need_everything_run_one_after_the_other",
    ),
    "A02 kubernetes-sigs/scheduler-plugins#117": (
        "test_gang::test_a_steady_stream_of_gangs_all_finish_in_time",
        "test_variants::test_another_stream_of_gangs_ends_near_its_lower_bound",
    ),
    "A04 volcano-sh/volcano#5805": (
        "test_gang::test_a_gang_that_lost_a_node_is_released_whole_and_goes_before_a_younger_equal_job",
        "test_gang::test_a_broken_gang_that_fits_at_once_is_repaired_before_younger_jobs",
        "test_gang::test_a_drained_node_keeps_its_member",
        "test_variants_order::test_under_every_ordering_a_broken_gang_goes_before_a_younger_equal_job",
        "test_variants_order::test_however_many_members_a_gang_of_two_roles_loses_it_holds_all_or_nothing_afterwards",
    ),
    "A07 kai-scheduler/KAI-Scheduler#500": (
        "test_gang::test_a_gang_above_its_queues_limit_is_told_so_and_starts_whole_once_the_limit_is_raised",
        "test_gang::test_a_limit_cut_below_a_waiting_gang_starts_no_member_of_it",
        "test_variants::test_a_gang_above_a_limit_of_a_group_further_up_is_refused_in_any_dimension",
    ),
    "A08 dstackai/dstack#4146": (
        "test_gang::test_a_member_that_cannot_be_started_frees_the_whole_gang",
        "test_gang::test_a_gang_whose_second_member_never_comes_up_gives_the_first_ones_room_back",
        "test_variants_order::test_whichever_member_cannot_be_provisioned_all_others_are_given_back",
    ),
    "A10 kai-scheduler/KAI-Scheduler#2208": (
        "test_gang::test_a_part_of_a_job_below_its_minimum_holds_nothing",
        "test_variants_order::test_stranded_helpers_of_any_number_give_their_room_back_and_the_core_runs_on",
        "test_gang::test_a_part_below_its_minimum_is_released_where_the_job_can_do_without_and_comes_back_whole",
    ),
    "A11 kubernetes-sigs/scheduler-plugins#722": (
        "test_gang::test_a_start_limit_counts_from_when_room_is_given",
        "test_gang::test_waiting_in_a_long_queue_is_never_held_against_a_gang",
        "test_variants::test_many_gangs_with_a_short_start_limit_wait_for_hours_without_harm",
    ),
    "B01 kubernetes/kubernetes#76787": (
        "test_quota::test_a_refused_repeat_of_a_name_is_not_charged",
        "test_quota::test_of_equal_names_in_one_instant_one_enters",
        "test_variants::test_a_refused_array_or_batch_charges_nothing_neither_use_nor_places_in_the_queue",
    ),
    "B04 kubernetes-sigs/kueue#804": (
        "test_borrowing::test_two_borrowers_of_one_instant_never_share_the_same_room",
        "test_borrowing::test_whoever_borrows_the_pool_is_never_over_committed",
        "test_variants::test_borrowers_at_different_depths_never_share_the_same_cpus",
    ),
    "B05 kubernetes-sigs/kueue#14811": (
        "test_quota::test_a_gang_that_broke_gives_its_quota_back_when_its_last_member_is_gone",
        "test_quota::test_no_job_without_members_counts_as_using_anything",
        "test_variants_order::test_a_restart_that_misses_its_time_to_start_leaves_no_dimension_taken",
    ),
    "B07 kubernetes-sigs/kueue#13482": (
        "test_quota::test_independent_jobs_that_failed_for_good_give_back_at_once",
        "test_quota::test_a_gangs_member_that_ended_well_gives_its_room_back_while_the_others_run",
        "test_variants::test_elements_that_failed_for_good_give_their_share_back_one_by_one",
    ),
    "B08 apache/yunikorn-core#991": (
        "test_quota::test_a_gang_that_assembles_shrinks_and_ends_counts_each_member_once",
        "test_variants_order::test_members_that_leave_while_a_gang_assembles_are_counted_out_once",
    ),
    "B10 ray-project/ray#18872": (
        "test_quota::test_a_job_killed_while_it_assembles_never_makes_usage_negative",
        "test_everything::test_whatever_happens_the_books_are_right_and_changes_end",
        "test_variants_order::test_a_growing_job_that_is_killed_while_members_start_never_makes_usage_negative",
    ),
    "B13 kai-scheduler/KAI-Scheduler#1668": (
        "test_quota::test_no_mix_of_units_slips_below_a_gpu_limit",
        "test_quota::test_shares_by_memory_too_small_to_show_still_count",
        "test_variants::test_memory_and_fractions_of_any_card_stay_below_a_limit_together",
        "test_variants_reports::test_who_asks_by_memory_is_told_what_that_is_of_a_card_below_its_limit",
    ),
    "B14 volcano-sh/volcano#5001": (
        "test_quota::test_what_a_job_does_not_ask_for_never_refuses_it",
        "test_quota::test_a_full_gpu_limit_of_one_model_does_not_refuse_another_model",
        "test_variants::test_a_dimension_that_is_full_stops_only_those_who_ask_for_it",
    ),
    "B16 apache/yunikorn-core#1068": (
        "test_quota::test_lowering_a_limit_and_restarting_keeps_what_runs",
        "test_variants::test_a_limit_cut_anywhere_on_the_way_up_keeps_what_runs_and_starts_nothing",
    ),
    "C01 kubernetes-sigs/kueue#3405": (
        "test_borrowing::test_within_a_guarantee_is_judged_by_what_is_used_and_asked_together",
        "test_variants::test_within_a_guarantee_of_one_model_is_judged_by_use_and_request_together",
    ),
    "C02 kubernetes-sigs/kueue#6947": (
        "test_borrowing::test_a_job_that_can_never_fit_is_refused_with_the_number_and_costs_nobody_anything",
        "test_borrowing::test_a_job_that_no_longer_can_fit_does_not_block_or_evict",
        "test_variants::test_a_job_no_machine_is_shaped_for_costs_nobody_anything_and_blocks_nobody",
    ),
    "C04 volcano-sh/volcano#4825": (
        "test_borrowing::test_a_group_within_its_guarantee_gets_into_a_parent_that_a_sibling_filled",
        "test_variants::test_a_leaf_three_levels_down_gets_its_guarantee_out_of_a_cousin",
        "test_variants_reports::test_behind_more_jobs_than_a_round_looks_at_who_is_owed_or_more_important_gets_in",
    ),
    "C07 kubernetes-sigs/kueue#4809": (
        "test_borrowing::test_a_head_of_queue_that_cannot_run_yet_does_not_stop_lending",
        "test_borrowing::test_lending_also_holds_when_the_head_is_on_many_nodes",
        "test_variants_order::test_a_head_that_waits_for_its_own_group_lends_all_that_idles",
    ),
    "C08 apache/yunikorn-core#636": (
        "test_borrowing::test_a_group_without_a_guarantee_never_takes_by_force_and_is_not_touched_without_need",
        "test_borrowing::test_a_group_with_only_a_limit_gives_way_to_a_guarantee",
        "test_borrowing::test_a_side_dimension_without_any_promise_makes_nobody_a_victim",
        "test_variants_limits::test_a_group_with_only_a_limit_has_no_claim_in_any_dimension",
    ),
    "D01 snakemake/snakemake#301": (
        "test_backfill::test_who_ends_in_time_may_jump_and_nobody_else",
        "test_backfill::test_an_early_end_brings_the_reserved_job_forward",
        "test_backfill::test_the_rule_holds_under_every_ordering",
        "test_variants_limits::test_who_may_jump_below_a_limit_is_who_ends_in_time",
        "test_variants_limits::test_an_early_end_below_a_limit_brings_the_dated_job_forward",
    ),
    "D02 chaos/slurm#43": (
        "test_backfill::test_a_backfilled_jobs_time_limit_stays_its_own",
        "test_variants::test_a_backfilled_job_is_not_cut_on_several_nodes_either",
    ),
    "D04 kubernetes-sigs/kueue#8309": (
        "test_backfill::test_a_head_that_waits_for_other_machines_holds_nobody_up",
        "test_variants_order::test_strict_order_couples_only_those_who_could_use_the_same_machines",
    ),
    "D05 kubernetes-sigs/kueue#8309": (
        "test_backfill::test_an_endless_stream_of_small_jobs_does_not_starve_a_large_one",
        "test_variants::test_a_two_node_gang_is_not_starved_by_an_endless_stream_of_small_jobs",
    ),
    "D07 koordinator#2393": (
        "test_borrowing::test_equal_groups_share_what_does_not_divide_evenly_by_a_fixed_rule",
        "test_variants::test_what_does_not_divide_evenly_is_given_by_a_fixed_rule_and_never_moved",
    ),
    "D08 kai-scheduler/KAI-Scheduler#1934": (
        "test_borrowing::test_a_fair_share_beyond_the_guarantee_is_not_taken_by_force_and_the_reason_says_so",
        "test_variants_order::test_beyond_its_guarantee_a_user_waits_for_the_others_jobs_and_is_told_so",
        "core/test_not_to_be_stopped::test_an_owner_is_told_until_when_a_borrower_is_in_its_protected_time",
        "core/test_not_to_be_stopped::test_an_owner_is_told_that_a_borrower_is_never_stopped",
    ),
    "E01 kubernetes-sigs/kueue#2821": (
        "test_preemption::test_an_evicted_older_job_does_not_come_straight_back",
        "test_preemption::test_a_job_evicted_after_hours_does_not_come_straight_back_either",
        "test_variants::test_several_waves_of_importance_evict_each_job_once_and_end",
    ),
    "E04 kubernetes-sigs/kueue#14543": (
        "test_preemption::test_changes_end_and_nobody_evicts_each_other",
        "test_preemption::test_what_is_taken_back_comes_from_borrowers_only",
        "test_variants_order::test_with_arrays_ranges_and_shares_changes_end_too_and_nobody_evicts_each_other",
        "test_scenes::test_whatever_meets_comes_to_its_end_under_every_ordering",
    ),
    "E07 kubernetes/kubernetes#54501": (
        "test_preemption::test_room_that_is_cleared_is_not_taken_by_others",
        "test_preemption::test_a_claim_ends_with_the_job_it_is_for",
        "test_variants::test_room_cleared_on_two_nodes_stays_with_whom_it_is_for",
        "test_preemption::test_who_can_use_what_others_leave_takes_nobodys_cleared_room",
    ),
    "E08 kubernetes/kubernetes#95752": (
        "test_preemption::test_a_victim_that_never_dies_is_given_up_and_another_place_is_found",
        "test_variants_order::test_one_of_several_victims_that_never_dies_is_given_up_and_a_gang_finds_other_nodes",
    ),
    "E10 armadaproject/armada#5071": (
        "test_preemption::test_who_borrows_most_gives_first_the_youngest_first_and_nobody_at_its_share",
        "test_variants_order::test_whoever_is_most_over_its_share_gives_first_and_nobody_at_its_share",
        "test_variants_reports::test_of_borrowers_of_unlike_priority_the_lower_ones_go_and_nobody_goes_twice",
    ),
    "E11 SchedMD/slurm#203": (
        "test_preemption::test_one_plan_is_kept_until_the_job_starts",
        "test_variants_order::test_a_plan_over_three_kinds_of_nodes_is_kept_whatever_happens_beside_it",
    ),
    "E13 apache/yunikorn-core#909": (
        "test_preemption::test_what_is_evicted_is_what_was_planned_and_no_more",
        "test_preemption::test_the_two_small_ones_go_when_the_large_one_is_protected",
        "test_variants::test_the_list_that_was_decided_is_the_list_that_stops_and_no_shorter_one_would_do",
        "test_variants_reports::test_what_one_victim_leaves_beside_its_heir_is_waited_for_before_another_goes",
        "test_variants_reports::test_what_victims_leave_of_cpus_memory_and_shares_is_waited_for_too",
    ),
    "E14 kubernetes/kubernetes#134217": (
        "test_preemption::test_a_victim_that_is_still_starting_is_evicted_once",
        "test_variants_order::test_a_gang_that_is_evicted_while_it_starts_is_evicted_once_and_shares_no_device",
    ),
    "M01 volcano-sh/volcano#822": (
        "test_input::test_a_number_is_read_as_written_or_refused_with_its_field",
        "test_input::test_equal_amounts_are_equal_however_they_are_written",
        "test_variants_input::test_other_fields_are_read_as_written_or_refused",
    ),
    "M02 Project-HAMi/HAMi#2718": (
        "test_input::test_memory_of_a_gpu_is_never_wrapped_into_something_that_fits",
        "test_variants_input::test_no_number_near_a_power_of_two_wraps_into_something_small",
    ),
    "M04 kai-scheduler/KAI-Scheduler#257": (
        "test_input::test_a_misspelt_or_unknown_field_is_refused_everywhere_and_never_means_no_limit",
        "test_variants_input::test_an_unknown_field_at_any_depth_is_refused_with_its_path",
        "test_variants_input::test_a_dry_run_that_is_asked_for_in_other_words_is_never_done_in_earnest",
        "test_variants_input::test_a_filter_that_is_empty_is_not_no_filter",
        "services/embedded/test_up_arguments::test_an_empty_argument_is_named_by_every_program",
        "client/test_steer::test_an_empty_name_is_no_job_and_never_the_newest_of_all",
    ),
    "M05 open-metadata/OpenMetadata#27004": (
        "test_input::test_names_that_differ_only_at_their_end_are_two_names",
        "test_input::test_an_invisible_letter_in_a_name_is_refused",
        "test_input::test_two_spellings_of_one_name_are_one_name",
        "test_variants_input::test_a_name_and_another_that_begins_alike_never_become_one",
        "client/test_steer::test_a_name_that_begins_like_a_number_is_a_name",
        "client/test_main::test_a_name_that_the_terminal_has_no_letters_for_is_shown_as_json_writes_it",
    ),
    "M07 airbytehq/airbyte#15908": (
        "test_input::test_pages_show_every_job_that_was_there_all_the_time_exactly_once",
        "test_input::test_a_cursor_that_is_none_of_ours_is_refused_and_never_starts_anew",
        "test_variants_input::test_pages_of_any_size_show_what_was_there_once_while_jobs_come_and_go",
    ),
    "M08 aio-libs/aiohttp#2098": (
        "test_input::test_a_submit_that_is_hung_up_on_leaves_a_whole_job_or_none",
        "test_input::test_a_cancel_that_is_hung_up_on_ends_the_job_or_leaves_it_alone",
        "test_variants_input::test_a_batch_that_is_hung_up_on_is_there_whole_or_not_at_all",
    ),
    "Q01 ray-project/ray#46413": (
        "test_output::test_every_byte_up_to_the_exit_is_told",
        "test_output::test_what_was_written_before_a_kill_is_told",
        "test_variants_input::test_whatever_ends_the_output_its_last_byte_is_told",
        "services/gateway/test_logs_of_a_task::test_who_asks_for_one_task_is_told_of_that_one_that_its_end_is_missing",
    ),
    "Q02 kubeflow/mcp-server#219": (
        "test_output::test_a_limited_view_ends_with_the_last_line",
        "test_variants_input::test_a_limited_view_ends_with_whatever_came_last",
    ),
    "Q04 armadaproject/armada#4388": (
        "test_accounting::test_a_job_that_is_placed_and_evicted_before_it_ran_is_charged_for_no_run",
        "test_accounting::test_all_charges_are_the_time_that_gpus_were_held_and_no_gpu_is_charged_twice",
        "test_variants::test_charges_are_the_integral_of_what_was_held_whatever_became_of_the_jobs",
    ),
    "Q05 actions/runner#2964": (
        "test_accounting::test_a_failed_part_that_is_run_again_is_charged_for_both_runs_and_the_others_once",
        "test_accounting::test_waiting_for_a_predecessor_is_nobodys_queue",
        "test_variants::test_an_element_that_is_run_again_is_charged_again_and_its_siblings_are_not",
        "test_variants::test_what_waits_for_an_element_waits_in_nobodys_queue",
    ),
    "R01 kelektiv/node-cron#563": (
        "test_time::test_a_days_use_of_eight_gpus_is_as_long_as_the_day",
        "test_time::test_a_window_of_the_whole_local_day_covers_every_minute_of_it_and_no_other",
        "test_time::test_what_begins_each_day_at_half_past_two_begins_once_on_every_day_of_the_year",
        "test_variants_input::test_a_season_begins_once_on_every_local_day_of_any_zone",
        "test_time::test_a_moment_is_read_by_one_grammar_and_lies_in_a_year_that_calendars_have",
    ),
    "R02 stanford-crfm/helm#1573": (
        "test_input::test_a_time_is_read_by_one_grammar_shown_back_in_one_and_never_cut",
        "test_variants_input::test_every_duration_that_is_shown_is_read_back_as_the_same",
        "test_variants_input::test_a_time_outside_the_grammar_is_refused_wherever_it_stands",
    ),
}
"""Case and where it was first reported -> tests, as "file::test" of this folder or "folder/file::test" of another."""
