"""What the door and the queue are asked to be able to do, sentence by sentence, and the tests that prove it."""

DOOR_AND_QUEUE: dict[str, tuple[str, ...]] = {
    # --- the judge at the door ---
    "a group tree of any depth ending in users": (
        "cases/test_variants::test_a_gang_above_a_limit_of_a_group_further_up_is_refused_in_any_dimension",
        "cases/test_variants::test_a_leaf_three_levels_down_gets_its_guarantee_out_of_a_cousin",
    ),
    "guaranteed, limit, borrow limit, lend limit and weight per node": (
        "core/test_quota::test_a_limit_anywhere_above_refuses",
        "core/test_quota::test_a_group_is_never_taken_below_its_guarantee",
        "core/test_terms::test_a_group_borrows_no_more_than_it_may",
        "core/test_terms::test_what_a_group_does_not_lend_stays_free_for_it",
        "core/test_fair_orderings::test_twice_the_weight_may_use_twice_as_much",
        "cases/test_borrowing::test_an_owner_that_uses_all_it_keeps_to_itself_keeps_nothing_from_its_neighbours",
    ),
    "caps per job, per user and on the length of the queue": (
        "core/test_admission_never_fits::test_one_job_may_ask_for_no_more_than_the_limit_for_one_job",
        "core/test_quota::test_a_user_without_own_limit_has_the_groups_limit_for_each_user",
        "core/test_admission::test_a_queue_has_a_cap_per_group_above_and_per_user",
    ),
    "dimensions: GPUs per model and in all, GPU memory, CPU, memory, named devices": (
        "core/test_quota::test_a_limit_per_model_holds_whatever_the_spelling",
        "core/test_terms::test_gpu_memory_and_devices_are_dimensions_like_all_others",
        "cases/test_variants::test_a_dimension_that_is_full_stops_only_those_who_ask_for_it",
    ),
    "time limits and a rate of submits": (
        "core/test_admission::test_a_time_limit_over_the_groups_is_refused_and_a_missing_one_becomes_the_groups",
        "core/test_admission::test_submits_per_minute_are_counted_over_the_last_minute",
    ),
    "users' limits never sum above their group's": (
        "core/test_settings::test_users_together_never_have_a_larger_limit_than_their_group",
        "core/test_settings_together::test_users_fit_the_nearest_limit_above_them_wherever_it_stands",
    ),
    "heads edit what is theirs, administrators everything": (
        "services/gateway/test_settings::test_a_head_divides_what_its_group_has",
        "services/gateway/test_settings::test_a_head_cannot_give_its_own_group_more",
        "services/gateway/test_access::test_the_root_group_belongs_to_administrators_only",
    ),
    "each edit is validated as a whole, shapes included": (
        "core/test_settings_together::test_a_whole_document_is_judged_as_it_would_be",
        "core/test_settings_together::test_a_group_is_never_owed_more_cells_than_its_limit_lets_it_use",
        "core/test_cells::test_promises_are_accepted_exactly_when_every_level_has_room_for_them",
    ),
    "dry-run first, versioned, recorded with who and why": (
        "services/gateway/test_settings::test_a_dry_run_of_a_change_judges_and_changes_nothing",
        "services/gateway/test_settings::test_an_edit_over_somebody_elses_is_refused",
        "services/gateway/test_document::test_a_file_is_applied_in_one_append_with_who_and_why",
    ),
    "whole jobs are judged, arrays and ranges included": (
        "cases/test_variants::test_a_refused_array_or_batch_charges_nothing_neither_use_nor_places_in_the_queue",
        "core/test_admission_never_fits::test_one_job_may_ask_for_no_more_than_the_limit_for_one_job",
    ),
    "what can never fit is refused at once, naming the limit or the hardware": (
        "core/test_admission_never_fits::test_a_job_larger_than_its_limit_is_refused_naming_the_number",
        "core/test_admission_never_fits::test_a_job_no_machine_can_ever_hold_is_refused_naming_the_number",
        "core/test_admission_never_fits::test_only_gpus_that_some_role_may_use_count_for_all_roles_together",
        "core/test_admission_never_fits::test_all_roles_together_need_places_on_machines_that_can_hold_them",
        "core/test_admission_never_fits::test_what_fits_the_empty_machines_is_never_refused_for_its_size",
    ),
    "charge, record and answer are one append": (
        "core/test_admission::test_a_refused_submit_changes_nothing_but_the_record_of_it",
        "core/test_admission::test_a_repeated_submit_gives_the_first_answer_from_the_log_and_from_the_same_batch",
        "cases/test_quota::test_a_refused_repeat_of_a_name_is_not_charged",
    ),
    "editing never forgets or doubles usage, which is always recomputable": (
        "core/test_budgets::test_editing_settings_never_forgets_or_doubles_what_runs",
        "core/test_quota::test_usage_is_always_what_the_live_tasks_hold",
        "cases/test_quota::test_lowering_a_limit_and_restarting_keeps_what_runs",
    ),
    "budgets in GPU-hours with a price per model": (
        "core/test_budgets::test_a_dear_model_uses_a_budget_up_sooner_and_usage_stays_what_it_is",
        "core/test_budgets::test_what_ended_keeps_the_price_of_its_time",
    ),
    "safe mode, or until it runs out": (
        "core/test_budgets::test_in_safe_mode_a_job_starts_only_when_it_can_end_inside_the_budget",
        "core/test_budgets::test_a_safe_budget_is_never_overspent",
        "core/test_budgets::test_in_start_mode_what_runs_goes_on",
        "cases/test_preemption::test_no_room_is_kept_for_a_job_that_may_not_start_any_more",
    ),
    "calendar windows for limits": (
        "core/test_calendar::test_a_limit_of_the_night_holds_at_night_and_a_round_opens_when_it_begins",
        "core/test_calendar::test_a_limit_that_shrinks_by_the_clock_stops_nobody",
        "cases/test_time::test_a_window_of_the_whole_local_day_covers_every_minute_of_it_and_no_other",
    ),
    "one readable file: lint, diff, apply, show": (
        "client/test_policy_file::test_what_is_wrong_is_told_with_its_line",
        "client/test_policy_file::test_a_diff_shows_every_setting_and_changes_nothing",
        "client/test_policy_file::test_apply_changes_only_what_was_shown",
        "client/test_policy_file::test_all_settings_are_printed_as_a_policy_file",
    ),
    "defaults and user classes, all of it an API": (
        "services/gateway/test_document::test_a_class_holds_where_the_users_own_settings_are_silent",
        "services/gateway/test_document::test_a_dry_run_tells_what_would_change_and_writes_nothing",
    ),
    # --- the queue ---
    "several levels with bands, any number of them": (
        "core/test_ordering::test_levels_come_from_the_pool_and_may_have_any_name",
    ),
    "jobs move between levels by rule or by hand": (
        "core/test_levels::test_a_job_moves_down_with_the_service_it_had",
        "core/test_levels::test_a_job_moves_up_when_it_has_waited_long_enough",
        "core/test_levels::test_a_job_that_moved_is_held_to_the_rules_of_the_level_it_moved_to",
        "core/test_levels::test_the_second_move_of_a_waiting_job_is_looked_at_in_time_too",
        "client/test_steer::test_jobs_move_to_a_pool_and_a_level",
    ),
    "strict or best-effort, and the head loses its place after a stated time": (
        "core/test_levels::test_in_a_strict_level_nobody_starts_before_the_one_in_front",
        "core/test_levels::test_in_a_best_effort_level_whoever_fits_may_start",
        "core/test_levels::test_who_blocks_its_level_for_the_stated_time_loses_its_place_and_not_its_turn",
        "core/test_levels::test_strict_order_holds_among_those_who_want_the_same_machines",
    ),
    "fifo and priority": (
        "core/test_ordering::test_fifo_takes_the_oldest_first_whatever_else_they_are",
        "core/test_ordering::test_priority_adds_the_levels_band_to_the_jobs_own",
    ),
    "fair share with half-life, tree-wise": (
        "core/test_fair_orderings::test_use_of_long_ago_is_forgotten_by_half_lives",
        "core/test_fair_orderings::test_shares_are_compared_among_siblings_only",
    ),
    "dominant resource fairness, hierarchical, by brute force": (
        "oracles/test_dominant_resource::test_whose_turn_it_is_equals_a_computation_from_scratch_in_any_tree",
        "oracles/test_dominant_resource::test_no_other_division_gives_the_poorest_a_larger_dominant_share",
    ),
    "least attained service in two dimensions with promotion, and the Gittins index": (
        "oracles/test_tiresias::test_the_queue_of_a_job_by_gpus_times_time",
        "oracles/test_tiresias::test_who_waited_long_for_what_it_ran_comes_back_to_the_first_queue",
        "oracles/test_tiresias::test_the_gittins_index",
    ),
    "shortest predicted GPU time": (
        "core/test_service_orderings::test_what_is_predicted_to_take_least_gpu_time_goes_first",
    ),
    "finish-time fairness": (
        "core/test_service_orderings::test_the_worst_finish_time_compared_with_a_cluster_of_its_own_goes_first",
    ),
    "max-min by a linear program with water filling, makespan, finish time, fifo and cost": (
        "oracles/test_gavel::test_no_allocation_gives_the_worst_off_more",
        "oracles/test_gavel::test_water_is_filled_beyond_the_first_who_is_full",
        "oracles/test_gavel::test_no_allocation_ends_the_last_job_earlier",
        "oracles/test_gavel::test_no_allocation_makes_the_worst_finish_time_fairer",
        "oracles/test_gavel::test_no_allocation_gives_more_speed_per_price_or_more_to_those_who_came_first",
    ),
    "round robin": ("core/test_fair_orderings::test_groups_take_turns_and_who_waited_longest_for_one_begins",),
    "an expression over named factors, each term shown": (
        "core/test_formula::test_a_formula_means_what_it_says",
        "core/test_formula::test_every_factor_can_be_used_and_says_what_it_is",
        "core/test_formula::test_each_summand_is_a_term_with_the_administrators_words",
        "core/test_ordering::test_the_formula_decides_and_every_term_is_shown",
    ),
    "unknown names, division by zero and non-finite results are refused at load": (
        "core/test_formula::test_a_formula_that_cannot_be_used_is_refused_with_the_cause",
        "core/test_formula::test_a_formula_is_refused_or_gives_a_number_for_every_job",
    ),
    "idle guarantees are lent by weight, by water filling per dimension": (
        "oracles/test_fair_division::test_a_worked_division",
        "oracles/test_fair_division::test_no_other_division_lifts_somebody_without_sinking_somebody_poorer",
        "oracles/test_fair_division::test_the_tree_is_divided_from_the_root_down",
    ),
    "reclaim: shrink first, then whole borrowers, most over share first, least lost work first": (
        "core/test_backfill_modes::test_who_is_most_over_its_fair_part_gives_back_first",
        "core/test_lending::test_borrowed_members_leave_when_their_owner_can_use_them_whatever_the_priorities",
        "cases/test_variants_order::test_whoever_is_most_over_its_share_gives_first_and_nobody_at_its_share",
    ),
    "never below a guarantee; equal claims end in silence": (
        "core/test_lending::test_no_group_falls_below_its_guarantee_and_no_job_below_its_least",
        "cases/test_borrowing::test_equal_groups_share_what_does_not_divide_evenly_by_a_fixed_rule",
        "cases/test_variants::test_what_does_not_divide_evenly_is_given_by_a_fixed_rule_and_never_moved",
    ),
    "a dated reservation, easy and conservative backfill": (
        "core/test_backfill_modes::test_easy_backfill_dates_the_first_that_cannot_start",
        "core/test_backfill_modes::test_conservative_backfill_dates_those_behind_it_too_one_after_the_other",
        "cases/test_backfill::test_who_ends_in_time_may_jump_and_nobody_else",
    ),
    "under any endless stream of smaller jobs a job that fits the empty pool and its limits starts in time": (
        "core/test_backfill_modes::test_under_an_endless_stream_a_job_that_fits_the_empty_pool_starts_in_time",
        "core/test_no_starvation::test_whatever_keeps_it_waiting_a_large_job_starts_in_time",
        "core/test_no_starvation::test_the_limit_has_room_but_the_pool_has_not_and_still_it_starts_in_time",
        "core/test_no_starvation::test_a_limit_over_two_pools_is_kept_in_both",
        "core/test_no_starvation::test_a_strict_level_lets_nobody_wait_for_ever",
        "core/test_no_starvation::test_a_stream_of_higher_priority_is_passed_by_who_has_waited_long_enough",
        "core/test_no_starvation::test_who_has_waited_long_enough_loses_nothing_of_what_it_counts_on_to_higher_priority",
        "core/test_opportunistic::test_among_loose_jobs_a_large_one_starts_in_time_whatever_stream_of_small_ones_comes",
        "core/test_guarantees_beside_dates::test_a_job_that_fits_beside_what_others_are_guaranteed_starts_in_time_and_ends",
    ),
    "and what started late ends, whatever stream of higher priority comes": (
        "core/test_shields::test_under_an_endless_stream_of_higher_priority_a_job_that_starves_ends",
        "core/test_shields::test_who_merely_waited_long_and_passed_nobody_is_evicted_by_priority_as_ever",
        "core/test_shields::test_a_guarantee_takes_back_what_it_lent_to_whoever_starved",
        "sim/test_rule_mutants::test_the_dollhouse_notices_a_rule_that_is_forgotten",
    ),
    "nothing is cleared in vain, nor decided and voided, below limits that pools share": (
        "core/test_claims_ceded::test_who_waits_for_quota_alone_keeps_its_free_room_when_a_more_important_job_takes_that_of_its_victims",
        "core/test_claims_below_limits::test_what_one_pool_clears_below_a_limit_another_pool_does_not_give_away",
        "core/test_claims_below_limits::test_what_others_do_not_lend_is_told_for_as_long_as_it_is_in_the_way",
    ),
    "what is left below a model's limit is used, and a model's guarantee given back, for jobs of several models": (
        "core/test_model_limits::test_what_is_left_under_a_models_limit_is_used_and_the_rest_of_the_gang_goes_elsewhere",
        "core/test_model_limits::test_a_guarantee_of_one_model_is_given_back_to_jobs_that_could_use_others_too",
    ),
    "nobody goes at the end of a lease but for who then has a place": (
        "lab/test_leases::test_what_was_lent_replays_to_the_byte",
        "lab/test_leases::test_who_cannot_have_a_place_on_its_model_stays_and_nobody_goes_for_it",
    ),
    "every clause, by command and over HTTP": (
        "end_to_end/test_clauses::test_every_clause_of_the_door_and_the_queue_holds_when_said_to_a_real_platform",
    ),
    "afterok, afterany, afternotok and singleton": (
        "core/test_admission::test_a_job_cannot_follow_one_that_failed_or_itself",
        "core/test_terms::test_a_singleton_waits_for_every_earlier_namesake_of_its_user_and_for_nobody_else",
        "cases/test_scenes::test_whatever_meets_comes_to_its_end",
    ),
    "arrays with a cap are one record": (
        "core/test_array_elements::test_a_held_element_is_passed_over_until_it_is_released",
        "core/test_array_elements::test_only_arrays_have_caps",
    ),
    "begin time, deadline, hold, release, top, move, priority edits, with permissions": (
        "core/test_terms::test_a_job_that_can_no_longer_end_in_time_ends_without_starting",
        "core/test_terms::test_a_job_put_first_takes_the_first_place_of_its_fellows_and_others_stay",
        "core/test_retiming::test_owners_give_time_back_and_only_heads_and_administrators_give_more",
        "services/gateway/test_steer::test_owners_stay_within_their_bound_and_heads_within_their_groups",
        "services/gateway/test_steer::test_a_user_puts_own_jobs_first_heads_the_groups_and_administrators_any",
    ),
    "administrators' reservations and maintenance windows": (
        "core/test_terms::test_nothing_starts_that_would_run_into_a_window_and_all_is_free_after_it",
        "core/test_terms::test_those_a_window_is_kept_for_use_it_and_nobody_else_does",
        "services/gateway/test_steer::test_a_window_keeps_nodes_and_says_why",
    ),
    # --- explanation ---
    "one primary reason, all secondary ones, numbers, positions, terms": (
        "core/test_outlook::test_all_reasons_are_told_and_the_first_is_told_first",
        "core/test_outlook::test_the_place_in_the_level_stands_beside_the_place_in_the_queue",
        "core/test_explain::test_a_waiting_job_shows_its_place_its_score_and_what_to_do",
    ),
    "an expected start as a range, scored against what happened": (
        "core/test_outlook::test_a_round_writes_down_when_a_refused_job_will_probably_start_and_its_start_scores_that",
        "core/test_outlook::test_in_the_long_run_as_many_ranges_hold_as_are_said_to_whatever_changes",
        "core/test_outlook::test_an_archives_forecasts_are_scored_against_what_happened_beside_time_limits_alone",
    ),
    "limits and estimates where there is no history": (
        "core/test_explain::test_a_start_is_bounded_by_the_time_limits_of_what_runs",
        "core/test_explain::test_recent_run_times_stand_in_for_limits_and_estimates",
    ),
    "a dry run of a submit: verdict, effect on quota, nodes, start and cost": (
        "core/test_foretell::test_every_limit_and_guarantee_above_it_is_shown_as_it_would_stand",
        "core/test_foretell::test_a_job_with_room_would_start_now_on_the_nodes_named_at_the_cost_of_its_limit",
        "core/test_foretell::test_idle_room_that_is_reserved_for_another_is_not_told_as_room",
        "core/test_foretell::test_room_that_one_before_it_will_have_is_not_told_as_room",
        "core/test_foretell::test_who_would_make_way_is_told_and_nobody_does_for_a_dry_run",
        "core/test_foretell::test_budgets_above_it_are_shown_with_the_most_that_it_can_cost",
        "services/gateway/test_submit::test_a_dry_run_tells_room_place_start_nodes_cost_and_limits",
        "client/test_commands::test_a_dry_run_tells_what_would_become_of_the_job",
    ),
    # --- oracles ---
    "every simulated run passes one checker": (
        "sim/test_oracles::test_every_oracle_has_promises_and_every_promise_of_a_state_belongs_to_one",
        "sim/test_oracles::test_each_kind_of_wrong_is_seen",
    ),
    "a restart after every instant changes nothing": (
        "cases/test_scenes::test_a_scene_in_which_everybody_restarts_all_the_time_is_the_same_scene",
    ),
}
