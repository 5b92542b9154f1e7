"""What a change of size promises beyond the pages' own sentences, and what senses do: the tests that hold it.

Beside `promised_sizes`: sentences that were once broken although every named test was green.
"""

CHANGES: dict[str, tuple[str, ...]] = {
    "sizes are refused outside of what the job allows, whoever asks": (
        "services/gateway/test_steer::test_a_size_outside_of_its_bounds_is_refused_at_once_and_the_job_is_left_alone",
        "cases/test_variants_sizes::test_a_proposal_between_allowed_sizes_gives_the_next_smaller_one",
        "core/test_newcomers::test_of_new_members_that_came_in_time_only_so_many_stay_as_make_a_size_that_the_job_allows",
    ),
    "a new member that cannot be started costs a working job that growth and nothing else": (
        "core/test_newcomers::test_a_new_member_that_cannot_be_started_costs_a_working_job_nothing_but_that_growth",
        "core/test_newcomers::test_a_gang_that_cannot_start_at_its_new_size_starts_again_and_loses_no_retry",
        "core/test_newcomers::test_a_program_that_cannot_be_started_at_all_still_fails_its_job",
    ),
    "failure, loss, preemption, cancel, hold, another size or a restored service at every step": (
        "core/test_resize_steps::test_whatever_happens_at_any_step_leaves_nothing_behind",
        "core/test_resize_steps::test_each_step_that_can_take_for_ever_ends_by_its_time",
    ),
    "noise in reports moves nobody": (
        "core/test_steady_sizes::test_a_demand_of_seven_with_gangs_of_three_is_one_change_at_most_although_the_job_reports_with_noise",
        "core/test_steady_sizes::test_equal_jobs_that_report_with_noise_come_to_rest",
        "core/test_steady_sizes::test_only_what_a_report_tells_anew_is_a_cause",
    ),
    "what failed is tried ever later": (
        "core/test_steady_sizes::test_a_gang_that_never_meets_starts_anew_once_although_it_reports_after_each_start",
        "core/test_steady_sizes::test_growth_that_does_not_start_is_tried_ever_later_while_causes_come",
    ),
    "no number that a job reports or has in its attributes stops a policy": (
        "core/test_odd_reports::test_no_number_stops_a_policy_or_takes_anything_from_others",
        "core/test_odd_reports::test_a_step_time_with_a_batch_that_cannot_be_is_none",
        "core/test_odd_reports::test_a_policy_that_fails_costs_its_own_decision_and_idle_gpus_are_filled_all_the_same",
    ),
    "a gang's word counts for the change and the size that it names": (
        "services/agent/test_words::test_a_word_for_another_change_or_size_is_told_what_is_wrong_and_settles_nothing",
        "services/agent/test_words::test_a_word_from_before_the_new_members_were_there_is_no_word",
        "services/agent/test_desk::test_a_word_that_a_gang_met_at_another_size_is_refused_with_the_right_one",
        "services/agent/test_desk::test_confirming_reads_no_news_and_confirms_only_what_the_program_was_told",
    ),
    "SIGUSR1 reaches whoever listens and ends nobody": (
        "services/agent/test_changing_size::test_a_program_that_does_not_listen_yet_outlives_the_signal_and_is_told_once_it_does",
    ),
    "shrinking admits whoever waits, for gangs that start again, too": (
        "core/test_resizing::test_such_a_gang_shrinks_to_admit_another_and_keeps_the_places_of_those_that_stay",
        "cases/test_elastic::test_room_that_a_shrink_frees_is_for_the_job_it_was_made_for",
    ),
    "what holds a task to its part is told for every backend": (
        "services/agent/test_environment::test_a_share_is_held_to_its_part_where_mps_serves_the_gpu_and_only_there",
        "services/agent/test_environment::test_a_task_is_told_what_holds_it_to_its_part",
    ),
    "the client of remote GPUs finds their variables": (
        "core/test_remote::test_the_client_finds_its_own_gpus_and_the_gang_does_not_count_their_servers",
        "core/test_remote::test_a_machine_whose_load_nobody_knows_is_not_taken_for_idle",
        "core/test_remote::test_a_lost_host_takes_the_gang_back_to_the_queue_whole",
    ),
    "conditions, exit codes and variables are those of the training operators, differences with their reason": (
        "oracles/test_elastic_systems::test_what_members_do_decides_what_the_job_is",
        "oracles/test_elastic_systems::test_exit_codes_from_128_on_are_worth_another_attempt_where_a_job_says_so",
        "oracles/test_elastic_systems::test_torchrun_finds_its_range_and_a_rendezvous_on_rank_0",
    ),
    "two copies of a member never work at once, however often a machine is cut off": (
        "cases/test_variants_cut::test_however_often_and_long_one_of_a_gangs_machines_is_cut_off_no_member_ever_works_twice",
        "cases/test_variants_cut::test_an_agent_that_restarts_at_any_stage_of_its_tasks_loses_none_and_starts_none_again",
    ),
    "closed machines are no room for any plan, and are not shown as room": (
        "cases/test_variants_lost::test_whatever_is_closed_when_no_plan_touches_it",
        "cases/test_variants_lost::test_nothing_is_planned_on_a_closed_machine_and_nobody_there_is_evicted_in_vain",
        "services/gateway/test_reads::test_free_gpus_are_shown_of_nodes_that_take_work_and_those_of_tainted_ones_apart",
    ),
    "a gang that met late is not called hung for it": (
        "services/telemetry/test_gangs::test_a_gang_that_met_late_is_not_called_hung_for_that_time_and_whoever_stands_still_after_it_is",
    ),
    "one value that a driver no longer knows costs no other": (
        "cases/test_variants_senses::test_whichever_function_a_driver_no_longer_knows_only_its_own_values_go",
        "cases/test_variants_senses::test_one_field_that_the_driver_does_not_know_costs_no_other_even_where_it_costs_the_whole_list",
        "cases/test_variants_senses::test_what_was_renamed_is_asked_for_by_its_older_name",
    ),
    "values have the units of their names, and what cannot be one is absent": (
        "cases/test_variants_senses::test_whatever_the_driver_counts_in_it_is_shown_in_the_unit_of_its_name",
        "cases/test_variants_senses::test_a_percentage_above_a_hundred_is_no_percentage",
        "cases/test_variants_senses::test_all_bits_set_is_how_a_driver_says_that_there_is_no_value",
    ),
    "samples name who held a card then and holds it now, or nobody": (
        "cases/test_variants_senses::test_a_sample_never_carries_anybody_who_did_not_hold_the_card_then_and_now",
        "cases/test_variants_senses::test_who_stands_still_on_a_card_is_not_who_works_on_it",
        "cases/test_variants_senses::test_the_parents_watts_are_nobodys_however_many_slices_are_held_and_whether_they_can_be_listed_now",
    ),
}
