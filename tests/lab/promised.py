"""What the lab is asked to be able to do, sentence by sentence, and the tests that would fail if it were not so."""

LAB: dict[str, tuple[str, ...]] = {
    # --- simulate ---
    "equal traces, clusters, pages and seeds give equal runs, to the byte of their archives": (
        "lab/test_simulate::test_equal_seeds_write_equal_archives_that_replay_byte_for_byte",
        "lab/test_simulate::test_an_archive_changes_nothing_but_the_digests",
    ),
    "nodes fail at random, another seed at other times": ("lab/test_simulate::test_another_seed_fails_at_other_times",),
    "starts and restarts cost time, failures what came after the last checkpoint": (
        "lab/test_simulate::test_starts_cost_what_they_cost",
        "lab/test_simulate::test_an_evicted_job_goes_on_where_it_stopped_and_pays_its_restart",
        "lab/test_simulate::test_a_failure_loses_what_came_after_the_last_checkpoint",
    ),
    "jobs on one GPU slow each other down": (
        "lab/test_simulate::test_neighbours_on_a_shared_gpu_slow_each_other_down_while_they_share",
    ),
    "what jobs say of their length has an error": (
        "lab/test_simulate::test_estimates_with_an_error_are_the_same_for_the_same_seed",
    ),
    "batch sizes change on the way": (
        "lab/test_batches::test_gns_doubles_the_batch_at_its_epochs",
        "lab/test_batches::test_accordion_returns_to_the_first_batch_in_critical_epochs",
    ),
    "who can never start is told": (
        "lab/test_simulate::test_jobs_that_can_never_start_are_told",
        "lab/test_simulate::test_what_never_fits_is_refused_at_the_door",
    ),
    "room is lent for a time, by model where a policy says so": (
        "lab/test_leases::test_jobs_that_came_together_take_turns_and_end_together",
        "lab/test_leases::test_of_a_hundred_taken_for_a_model_all_but_one_stand_on_it_before_time_goes_on",
    ),
    # --- traces ---
    "philly, openb, pollux, gavel, shockwave, muri, chronus, tiresias, sacct, swf, kubernetes and archives are read": (
        "lab/test_readers::test_philly_jobs_keep_their_clusters_as_groups",
        "lab/test_readers::test_openb_pods_share_gpus_and_wait_for_their_models",
        "lab/test_readers::test_pollux_replicas_are_tasks_of_one_gpu",
        "lab/test_readers::test_gavel_and_shockwave_jobs_are_steps_of_a_named_row",
        "lab/test_readers::test_muri_times_are_milliseconds_and_stages_become_attributes",
        "lab/test_readers::test_chronus_times_are_minutes_and_deadlines_count_from_submission",
        "lab/test_readers::test_tiresias_times_are_seconds",
        "lab/test_readers::test_sacct_gives_gangs_models_limits_and_outcomes",
        "lab/test_readers::test_swf_jobs_without_a_run_time_are_left_out",
        "lab/test_readers::test_pods_of_one_owner_are_one_gang",
        "lab/test_readers::test_events_tell_of_pods_that_are_gone",
        "lab/test_past::test_history_without_a_change_comes_out_as_it_was",
    ),
    "a bad trace is refused with its line and column": (
        "lab/test_readers::test_a_bad_trace_is_refused_where_it_is_wrong",
        "lab/test_readers_fuzz::test_every_format_that_is_offered_is_spoilt_here",
        "lab/test_readers_fuzz::test_a_spoilt_trace_is_read_or_refused_with_its_place",
        "lab/test_readers_fuzz::test_a_spoilt_archive_is_refused_with_its_segment_and_line",
    ),
    # --- numbers ---
    "numbers are those on paper": (
        "lab/test_compare::test_numbers_of_three_jobs_in_a_row_are_those_on_paper",
        "lab/test_compare::test_rho_compares_with_an_equal_part_of_the_cluster",
        "lab/test_simulate::test_gpu_time_is_all_accounted_for",
    ),
    "several seeds give an interval": ("lab/test_compare::test_seeds_give_an_interval_and_one_run_gives_none",),
    "any number of runs stand side by side on one page that needs nothing else": (
        "lab/test_compare::test_simulate_and_compare_from_the_shell",
        "lab/test_compare::test_the_better_policy_is_marked",
        "lab/test_plots::test_a_plot_over_time_is_well_formed_and_says_its_values_where_one_points",
    ),
    "json and parquet": (
        "lab/test_cli::test_every_command_gives_json_for_machines",
        "lab/test_compare::test_parquet_holds_the_jobs_the_use_over_time_and_every_number",
    ),
    # --- replay ---
    "a replay is equal to the byte, or shows the first difference with both sides and the state": (
        "lab/test_replay::test_whatever_happens_to_a_cluster_its_replay_is_equal",
        "lab/test_replay::test_a_decision_that_was_made_otherwise_is_shown_with_both_sides_and_the_state",
    ),
    "the chain of hashes is verified": (
        "lab/test_archive::test_any_changed_byte_is_reported_at_its_line",
        "lab/test_replay::test_a_broken_chain_ends_the_replay_before_the_fault_is_folded",
    ),
    "archives of earlier days replay, those of an older schema say what is missing": (
        "lab/test_golden_archives::test_an_archive_of_an_earlier_day_replays_to_the_byte",
        "lab/test_golden_archives::test_an_archive_of_an_older_schema_says_which_migration_is_missing",
    ),
    # --- the past ---
    "why a job waited, from the log alone": (
        "lab/test_past::test_why_names_who_went_before_and_by_which_rule",
        "lab/test_past::test_why_of_a_job_that_never_was_is_refused",
    ),
    "all inputs of a preemption": ("lab/test_past::test_an_audit_shows_both_sides_and_decides_the_same_again",),
    "history under another policy, quota, more machines or without a group": (
        "lab/test_past::test_more_machines_shorten_waits",
        "lab/test_past::test_the_others_without_a_group",
        "lab/test_past::test_another_quota",
        "lab/test_past::test_the_answer_says_which_sizes_and_lengths_gain_and_lose",
        "lab/test_past::test_the_commands_say_it",
    ),
    "tuning reports what it did not see, and applies nothing": (
        "lab/test_tuning::test_tuning_begins_with_the_formula_and_settings_that_are_there",
        "lab/test_tuning::test_tuning_finds_that_short_jobs_first_shorten_waits_and_shows_it_on_what_it_did_not_see",
        "lab/test_tuning::test_too_short_a_history_is_no_teacher",
    ),
    # --- predictors ---
    "run times are learnt from attributes and history, with a public score": (
        "lab/test_learning::test_on_held_out_days_of_philly_the_learnt_predictor_beats_means_and_medians_by_user",
        "lab/test_learning::test_about_four_of_five_held_out_jobs_end_inside_the_stated_range",
        "lab/test_learning::test_no_row_knows_what_had_not_ended_when_it_came",
    ),
    "use of GPUs is learnt where it was measured": (
        "lab/test_learning::test_use_of_gpus_is_learnt_where_it_was_measured",
    ),
    "models are versioned, and what runs under one replays": (
        "lab/test_learning::test_the_same_history_gives_the_same_model_to_the_byte",
        "lab/test_learning::test_a_model_file_that_was_changed_is_refused",
        "lab/test_learning::test_a_run_under_a_learnt_policy_replays_to_the_byte",
    ),
}
"""Sentence -> tests."""
