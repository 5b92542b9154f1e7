"""What elastic jobs and the senses of the platform promise, in the words of their pages, and the tests that hold it."""

SIZES: dict[str, tuple[str, ...]] = {
    # --- the contract ---
    "an elastic job names the sizes it can work with: a range, a list, multiples, powers of two": (
        "wire/test_contract::test_all_terms_of_the_contract_are_read_from_the_job_file",
        "core/test_elasticity::test_growth_stays_inside_the_allowed_sizes",
    ),
    "agents, simulated nodes and Kubernetes keep the contract alike": (
        "core/test_resizing::test_independent_workers_come_and_go_without_a_word",
        "services/agent/test_changing_size::test_a_job_that_adapts_by_itself_is_signalled_and_leaves_as_soon_as_it_is_safe",
        "kubernetes/test_elastic::test_a_job_grows_into_free_gpus_and_its_pods_know_the_new_size",
        "sim/test_resizes::test_a_service_that_dies_in_the_middle_of_a_change_does_not_stop_it",
    ),
    "tasks: members that stay notice nothing": (
        "core/test_resizing::test_independent_workers_come_and_go_without_a_word",
    ),
    "torchrun: new members join at rank 0, leaving ones are told first": (
        "oracles/test_elastic_systems::test_torchrun_finds_its_range_and_a_rendezvous_on_rank_0",
        "core/test_resizing::test_members_of_a_gang_that_meets_anew_are_told_first_and_their_room_comes_back_only_when_they_are_gone",
        "end_to_end/test_torchrun::test_a_training_under_torchrun_grows_and_shrinks_and_loses_no_step",
    ),
    "signal: every member gets SIGUSR1 and reads the size file": (
        "services/agent/test_changing_size::test_a_job_that_adapts_by_itself_is_signalled_and_leaves_as_soon_as_it_is_safe",
        "services/agent/test_changing_size::test_the_size_file_says_who_is_there_and_only_the_task_s_user_reads_it",
    ),
    "restart: the whole gang starts again with its room kept, as close together as it can stand": (
        "core/test_resizing::test_a_gang_that_must_start_again_keeps_its_room_and_gets_the_new_one_with_it",
        "core/test_anew::test_a_gang_that_grows_leaves_the_node_that_is_too_small_for_it",
        "core/test_anew::test_two_gangs_change_places_in_one_round_and_start_once_each",
    ),
    "those that start again in one round never share a GPU and never lose what they have": (
        "core/test_anew::test_whatever_is_proposed_no_gpu_is_held_twice_and_everybody_runs_on",
        "core/test_anew::test_what_becomes_of_one_leaves_the_others_where_they_can_be",
        "core/test_anew::test_a_decision_that_one_of_them_does_not_live_to_see_stops_nobody_who_waited_for_it",
        "core/test_anew::test_a_gang_waits_for_the_members_of_another_whose_room_it_takes",
    ),
    "growing is these more or nothing": (
        "cases/test_elastic::test_growth_that_is_refused_costs_nothing_of_what_the_job_has",
        "core/test_elasticity::test_a_job_keeps_what_it_has_while_it_asks_for_more",
    ),
    "members that have not started leave first, then the last to come": (
        "cases/test_elastic::test_shrinking_drops_members_that_have_not_started_before_those_that_work",
        "cases/test_elastic::test_among_members_that_work_the_last_to_come_goes_first",
    ),
    "those give first that lose least by their own reports": (
        "core/test_anew::test_of_those_that_may_shrink_the_job_that_loses_least_by_its_own_reports_gives_first",
    ),
    "the others go on when a member is lost, if that is a size they may have": (
        "core/test_repair::test_the_others_go_on_smaller_when_a_node_is_lost_and_that_is_a_size_they_may_have",
        "core/test_repair::test_members_beyond_an_allowed_size_leave_with_their_notice",
        "core/test_repair::test_all_start_anew_where_the_others_cannot_go_on",
    ),
    "a role below its least gives its room back after its grace": (
        "core/test_repair::test_a_sub_gang_below_its_least_is_released_after_its_grace_and_the_others_go_on",
        "core/test_repair::test_a_gang_that_finds_no_room_in_time_is_released_whole",
    ),
    "a member is told by file, signal and long poll, with a token of its own": (
        "services/agent/test_desk::test_a_task_reads_its_size_and_its_version",
        "services/agent/test_desk::test_a_long_poll_ends_with_the_news_or_with_its_time",
        "services/agent/test_desk::test_no_task_asks_or_speaks_for_another",
    ),
    "safe ends a notice, and without it the grace does": (
        "services/agent/test_desk::test_only_who_leaves_says_that_it_is_safe",
        "services/agent/test_changing_size::test_a_member_that_never_says_safe_is_stopped_when_its_notice_and_grace_are_over",
    ),
    "progress may be said field by field, by POST or by the helper": (
        "services/agent/test_desk::test_every_field_of_progress_may_be_said_alone",
        "services/agent/test_desk::test_the_helper_says_safe_confirms_and_reports_everything",
        "services/agent/test_desk::test_outside_of_gangline_the_helper_does_nothing",
    ),
    "a training grows and shrinks under load and loses no step": (
        "end_to_end/test_elastic_training::test_a_training_grows_and_shrinks_under_load_and_loses_no_step",
    ),
    "a shard is done once, whoever comes and goes": (
        "oracles/test_elasticdl::test_whatever_happens_every_record_is_in_one_place",
        "end_to_end/test_shard_workers::test_workers_come_and_go_and_every_shard_is_done_once",
    ),
    # --- stages ---
    "every stage can fail, take too long or be overtaken": (
        "core/test_resizing::test_every_stage_that_is_not_over_can_be_overtaken_and_get_stuck_and_none_that_is_over_moves",
        "core/test_resize_steps::test_whatever_happens_at_any_step_leaves_nothing_behind",
        "core/test_resize_steps::test_each_step_that_can_take_for_ever_ends_by_its_time",
    ),
    "a cancel at any stage returns everything": (
        "core/test_resizing::test_a_cancel_at_any_stage_ends_the_job_and_returns_everything",
    ),
    "room and quota come back only as members are seen gone": (
        "core/test_resizing::test_members_of_a_gang_that_meets_anew_are_told_first_and_their_room_comes_back_only_when_they_are_gone",
        "core/test_anew::test_a_limit_that_only_the_others_leaving_would_keep_is_not_broken",
    ),
    "no stage lives in a service's memory": (
        "core/test_resizing::test_a_state_restored_at_any_stage_goes_on_to_the_same_bytes",
        "sim/test_resizes::test_a_service_that_dies_in_the_middle_of_a_change_does_not_stop_it",
    ),
    "a gang that does not meet in time starts anew, its retries untouched": (
        "core/test_resizing::test_a_gang_that_does_not_meet_in_time_starts_anew_and_its_retries_are_untouched",
        "sim/test_resizes::test_a_gang_that_never_says_that_it_met_starts_anew_and_loses_no_retry",
    ),
    # --- who decides ---
    "adaptive: who reports is weighed, all others fill what is idle": (
        "core/test_elastic_policies::test_by_default_whoever_reports_how_it_learns_is_weighed_and_all_others_fill_what_is_idle",
    ),
    "idle fill goes by marginal gain, into what nobody waits for": (
        "core/test_elastic_policies::test_idle_gpus_go_where_the_next_one_helps_most",
        "core/test_elasticity::test_nothing_grows_into_room_that_a_waiting_job_could_use",
    ),
    "goodput is Pollux's objective, solved exactly": (
        "core/test_elastic_policies::test_no_other_choice_is_worth_more",
        "oracles/test_elastic_objectives::test_polluxs_power_mean_of_speed_ups_is_as_large_as_can_be",
        "oracles/test_adaptdl::test_golden_speed_ups",
    ),
    "small gangs make way for larger ones that would stand apart, and nobody moves in vain": (
        "core/test_anew::test_a_small_gang_makes_room_for_a_larger_one_and_keeps_its_size",
        "core/test_anew::test_nobody_moves_who_neither_comes_closer_nor_lets_another_in",
    ),
    "sia is the paper's integer program": (
        "oracles/test_elastic_objectives::test_sias_program_is_solved_to_its_optimum",
        "core/test_elastic_policies::test_sia_moves_a_gang_that_can_start_again_to_the_type_that_suits_it",
    ),
    "deadlines give the least size that meets each": (
        "core/test_elastic_policies::test_a_deadline_gets_its_least_share_and_takes_it_from_those_without_one",
        "core/test_elastic_policies::test_the_earliest_deadline_is_met_first_and_nobody_gives_what_its_own_needs",
    ),
    "a trial is kept only if the job got faster": (
        "core/test_elastic_policies::test_a_trial_that_made_the_job_no_faster_is_undone_and_not_repeated",
        "core/test_elastic_policies::test_a_trial_that_helped_is_kept_and_the_next_one_follows",
    ),
    "what is lent comes back member by member when its owner can use it": (
        "core/test_lending::test_borrowed_members_leave_when_their_owner_can_use_them_whatever_the_priorities",
        "core/test_lending::test_no_group_falls_below_its_guarantee_and_no_job_below_its_least",
    ),
    "the band is AdaptDL's, and says how many nodes are wanted": (
        "core/test_band::test_the_band_is_adaptdls",
        "core/test_band::test_a_pool_says_how_many_nodes_it_wants_once_and_frees_the_others",
    ),
    "a size by hand goes before every policy": (
        "core/test_resizing::test_a_size_by_hand_is_given_and_kept_whatever_the_policy_thinks",
        "services/gateway/test_steer::test_a_size_outside_of_its_bounds_is_refused_at_once_and_the_job_is_left_alone",
    ),
    "no size changes without a newer cause from outside": (
        "core/test_causes::test_each_change_of_a_job_by_a_policy_has_a_newer_cause_than_the_one_before",
        "core/test_causes::test_the_fold_takes_no_proposal_whose_proof_does_not_hold",
        "core/test_elastic_policies::test_no_policy_changes_anything_for_ever_when_nothing_happens",
    ),
    "a demand of seven in steps of three is one change at most": (
        "core/test_causes::test_a_demand_of_seven_with_gangs_of_three_is_one_change_at_most",
        "core/test_elastic_policies::test_a_demand_of_seven_in_gangs_of_three_changes_at_most_once",
    ),
    # --- pause, time slices, company, remote GPUs ---
    "a paused job stands still, and what it gave up is free only then": (
        "core/test_pausing::test_room_comes_back_only_when_the_agent_saw_it_stand_still_and_its_memory_stays",
        "services/agent/test_pausing::test_all_processes_stand_still_and_work_again",
    ),
    "paused time is neither charged nor counted": (
        "core/test_pausing::test_it_goes_on_in_its_place_when_asked_and_its_time_paused_is_not_charged",
        "services/agent/test_pausing::test_time_in_which_it_stood_still_does_not_count_against_its_limit",
    ),
    "jobs take turns in slices": ("core/test_pausing::test_whoever_had_its_slice_makes_way_and_gets_the_next_one",),
    "migration brings gangs closer together": (
        "core/test_elastic_policies::test_a_gang_that_stands_apart_starts_again_closer_together_when_others_have_left",
        "core/test_elastic_policies::test_who_cannot_start_again_or_is_soon_over_stays_where_it_is",
    ),
    "an urgent resume has lower jobs paused": (
        "core/test_pausing::test_an_urgent_one_has_lower_jobs_on_its_gpu_paused_and_they_go_on_after_it",
    ),
    "a job beside another keeps to a limit that follows measured steps": (
        "core/test_company::test_it_begins_low_rises_while_the_owner_is_as_fast_as_alone_and_is_halved_when_it_is_slower",
        "core/test_company::test_the_members_are_told_their_limits_by_the_same_notice",
    ),
    "remote GPUs are chosen by bandwidth and load, and bandwidth is reserved": (
        "core/test_remote::test_servers_go_where_most_bandwidth_is_left_and_of_equal_machines_to_the_least_busy",
        "core/test_remote::test_bandwidth_is_reserved_at_both_ends_and_without_it_the_job_waits",
        "core/test_remote::test_work_takes_longer_by_its_calls_and_its_copies",
    ),
}

SENSES: dict[str, tuple[str, ...]] = {
    "every value may be missing or fail alone; it is absent and never zero": (
        "services/agent/test_nvml_library::test_whatever_one_function_refuses_the_rest_of_the_card_and_all_other_cards_are_told",
        "cases/test_telemetry::test_nonsense_is_an_absent_value_of_one_gpu_and_nothing_more",
        "services/telemetry/test_verdicts::test_absent_is_not_idle",
        "services/telemetry/test_health::test_absent_utilisation_is_left_out_of_the_mean_and_never_counted_as_zero",
    ),
    "a driver that does not start closes the node and kills nobody": (
        "cases/test_variants_machines::test_a_driver_that_cannot_start_or_changes_under_the_agent_closes_the_node_and_kills_nobody",
    ),
    "the driver may be reloaded under the agent": (
        "services/agent/test_nvml_library::test_a_driver_that_is_reloaded_is_a_problem_of_the_node_and_then_read_again_without_a_restart",
    ),
    "slices, links and the matrix are told": (
        "services/agent/test_nvml_library::test_a_card_that_is_cut_is_told_with_its_slices_where_they_lie_and_who_is_in_them",
        "services/agent/test_nvml_library::test_the_matrix_of_links_says_how_each_card_reaches_each_other",
    ),
    "cards of other makers are declared and never scheduled on": (
        "services/agent/test_host::test_cards_of_makers_without_a_source_are_told_as_labels_and_never_as_gpus",
    ),
    "a virtual GPU says whether it is licensed": (
        "services/agent/test_nvml::test_a_virtual_gpu_says_whether_it_has_its_licence_and_others_say_nothing",
    ),
    "an Xid that means failure leaves the card out; its gangs start elsewhere whole, with one sentence": (
        "services/telemetry/test_verdicts::test_a_gpu_that_fell_off_the_bus_is_left_out_and_its_gang_starts_elsewhere_whole_with_its_budget_untouched",
        "cases/test_variants_machines::test_a_card_that_falls_off_the_bus_is_left_out_its_gang_starts_elsewhere_whole_and_the_owner_reads_one_sentence",
    ),
    "a failed card is tried again, later each time": (
        "services/telemetry/test_verdicts::test_a_gpu_that_failed_by_an_event_is_tested_again_later_each_time",
        "services/agent/test_card_tests::test_a_failed_card_is_tested_by_the_drivers_number_and_is_well_when_the_test_ended_well",
        "services/agent/test_card_tests::test_a_test_that_fails_or_cannot_be_run_keeps_the_card_away_and_is_run_again_on_its_timer",
    ),
    "a suspect card is shown, used on and cleared": (
        "services/telemetry/test_verdicts::test_a_suspect_gpu_is_shown_used_on_and_cleared_after_a_while",
    ),
    "a node on which everything fails at once takes no more for a while": (
        "services/telemetry/test_verdicts::test_a_node_that_fails_every_start_at_once_takes_no_more_and_is_tried_again_later",
        "services/telemetry/test_verdicts::test_broken_programs_of_one_user_close_no_node_for_the_others",
    ),
    "slow members are told": (
        "services/telemetry/test_gangs::test_a_member_that_is_slower_than_its_like_is_told_once_and_taken_back_when_it_is_no_longer",
    ),
    "a gang without progress starts again whole, one that never spoke is left alone": (
        "services/telemetry/test_verdicts::test_a_gang_whose_member_stops_making_progress_starts_again_whole",
        "services/telemetry/test_gangs::test_a_rank_whose_gpu_stands_still_while_the_others_work_hangs_its_gang",
        "services/telemetry/test_gangs::test_a_record_of_a_collective_that_was_given_up_counts_once_the_program_still_stands_after_a_minute",
        "services/telemetry/test_verdicts::test_a_job_that_never_reported_is_never_taken_for_hung",
    ),
    "an idle allocation is warned, then given back": (
        "services/telemetry/test_verdicts::test_a_job_that_does_not_use_its_gpus_is_warned_then_gives_them_back",
    ),
    "owners see use and get hints from history": (
        "services/gateway/test_use::test_the_owner_sees_how_busy_gpus_processes_and_slow_members_are",
        "core/test_past_use::test_jobs_like_the_ones_before_are_advised_by_what_those_used",
    ),
    "windows are bounded": (
        "services/telemetry/test_verdicts::test_memory_of_windows_is_bounded_and_load_has_mean_and_deviation",
    ),
    "dcgm-exporter's default counters are shown with our labels, bounded": (
        "services/telemetry/test_gauges::test_the_counters_that_dcgm_shows_by_default_are_shown_under_its_names_and_in_its_units",
        "services/telemetry/test_gauges::test_no_more_cards_are_shown_than_are_allowed_and_those_of_nodes_that_left_go",
    ),
    "boards ask only for metrics that exist": ("house/test_boards::test_a_board_asks_only_for_what_exists",),
    "load that is old or was never measured is no load": (
        "services/telemetry/test_scores::test_a_load_counts_until_it_is_too_old_and_then_nodes_are_judged_by_what_was_asked_for",
        "services/telemetry/test_scores::test_a_node_that_nobody_measured_is_not_taken_for_idle",
    ),
}
