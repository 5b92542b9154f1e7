"""Public reports about sizes (J), machines (K) and sensors (L), and tests that would fail if the same happened here.

The same table as `coverage.CASES`. J10 has no counterpart: a pool is never deleted, so no node can lose its own; what
comes nearest is a node that is assigned to another pool and back.
"""

MACHINES: dict[str, tuple[str, ...]] = {
    "J01 ray-project/ray#62128": (
        "cases/test_elastic::test_growing_in_whole_steps_comes_to_rest",
        "cases/test_elastic::test_room_that_comes_and_goes_around_a_step_does_not_make_a_job_swing",
        "cases/test_elastic::test_sizes_change_only_because_of_something_from_outside",
        "cases/test_variants_machines::test_whatever_the_step_a_job_comes_to_rest_below_the_room_and_small_neighbours_do_not_move_it",
    ),
    "J02 kubernetes-sigs/kueue#9015": (
        "cases/test_elastic::test_growth_that_is_refused_costs_nothing_of_what_the_job_has",
        "cases/test_elastic::test_growth_adds_members_and_stops_none",
        "cases/test_variants_machines::test_growth_that_any_limit_forbids_leaves_a_job_what_it_has",
        "core/test_resizing::test_growth_of_such_a_gang_that_its_limit_forbids_stops_nobody",
        "sim/test_resizes::test_a_service_that_dies_in_the_middle_of_a_change_does_not_stop_it",
        "cases/test_variants_sizes::test_a_crash_at_any_second_of_a_change_loses_neither_size_nor_room",
        "test_variants_reports::test_a_size_that_was_asked_for_and_may_not_be_yet_is_told_with_its_reason",
    ),
    "J04 kubernetes-sigs/kueue#12670": (
        "cases/test_elastic::test_a_job_whose_members_partly_ended_shrinks_is_evicted_and_ends_like_any_other",
        "core/test_resizing::test_a_cancel_at_any_stage_ends_the_job_and_returns_everything",
        "cases/test_variants_sizes::test_however_many_members_ended_a_size_by_hand_never_wedges_the_job",
    ),
    "J05 kubernetes-sigs/kueue#15399": (
        "cases/test_elastic::test_a_job_evicted_while_it_grows_comes_back_at_any_size_it_declared",
        "cases/test_elastic::test_draining_a_pool_and_opening_it_again_brings_an_elastic_job_back",
        "cases/test_variants_machines::test_a_job_that_loses_its_node_while_it_grows_comes_back_at_any_size_it_declared",
    ),
    "J07 intelligent-machine-learning/dlrover#1534": (
        "services/gateway/test_steer::test_a_size_outside_of_its_bounds_is_refused_at_once_and_the_job_is_left_alone",
        "client/test_steer::test_a_size_is_a_number_or_left_to_the_policy",
        "cases/test_elastic::test_a_proposal_outside_of_the_declared_bounds_changes_nothing_beyond_them",
        "cases/test_variants_sizes::test_a_proposal_between_allowed_sizes_gives_the_next_smaller_one",
    ),
    "J08 dask/dask-kubernetes#659": (
        "cases/test_elastic::test_shrinking_drops_members_that_have_not_started_before_those_that_work",
        "cases/test_elastic::test_among_members_that_work_the_last_to_come_goes_first",
        "cases/test_elastic::test_roles_shrink_only_where_they_may",
        "cases/test_variants_sizes::test_a_gang_that_starts_again_larger_gives_room_before_it_worked_and_none_of_what_it_keeps",
    ),
    "J10 dstackai/dstack#3449": (
        "services/gateway/test_reads::test_an_administrator_lets_a_node_serve_another_pool_and_gives_it_back",
        "cases/test_variants_lost::test_however_nodes_move_between_pools_none_is_without_one_and_what_works_there_goes_on",
    ),
    "J11 pytorch/elastic#97": (
        "core/test_resizing::test_members_of_a_gang_that_meets_anew_are_told_first_and_their_room_comes_back_only_when_they_are_gone",
        "core/test_resizing::test_a_member_that_never_says_safe_leaves_all_the_same",
        "core/test_resizing::test_a_job_is_left_alone_for_its_cool_down",
        "cases/test_nodes::test_every_members_machine_is_watched_and_not_only_the_first",
        "cases/test_variants_sizes::test_a_host_that_dies_around_a_growth_is_noticed_and_the_gang_forms_once_more",
    ),
    "K01 kubernetes/kubernetes#30972": (
        "cases/test_nodes::test_a_job_on_a_cut_off_node_is_over_there_before_it_begins_elsewhere",
        "services/agent/test_agent::test_a_node_declared_lost_while_its_agent_lives_stops_its_tasks_and_comes_back",
        "cases/test_variants_cut::test_however_often_and_long_one_of_a_gangs_machines_is_cut_off_no_member_ever_works_twice",
    ),
    "K02 skypilot-org/skypilot#10155": (
        "cases/test_nodes::test_silence_that_ends_in_time_harms_nothing_however_often_it_comes",
        "cases/test_nodes::test_when_nobody_can_be_heard_it_is_the_listeners_trouble",
        "services/telemetry/test_health::test_a_watcher_that_was_frozen_forgives_all_silence",
        "cases/test_variants_lost::test_one_long_silence_is_one_loss_and_none_of_the_short_ones_for_nineteen_hours_after_it_is_another",
        "cases/test_variants_lost::test_a_node_is_lost_once_per_silence_that_is_longer_than_the_limit_and_never_for_many_short_ones",
        "cases/test_variants_lost::test_who_takes_over_the_watch_counts_silence_from_its_own_beginning",
        "services/telemetry/test_relapses::test_a_job_whose_node_vanishes_each_time_goes_on_elsewhere",
        "services/telemetry/test_relapses::test_nodes_that_go_together_are_the_networks_trouble",
    ),
    "K04 kubernetes-sigs/kueue#3401": (
        "cases/test_nodes::test_only_what_takes_work_is_room",
        "core/test_capacity::test_closed_nodes_have_nothing_free",
        "cases/test_variants_lost::test_nothing_is_planned_on_a_closed_machine_and_nobody_there_is_evicted_in_vain",
        "cases/test_variants_lost::test_whatever_is_closed_when_no_plan_touches_it",
        "services/gateway/test_reads::test_free_gpus_are_shown_of_nodes_that_take_work_and_those_of_tainted_ones_apart",
    ),
    "K05 volcano-sh/volcano#1818": (
        "cases/test_nodes::test_fewer_gpus_than_are_held_are_no_room_and_no_reason_to_kill",
        "cases/test_nodes::test_one_ill_node_stops_no_other",
        "cases/test_variants_machines::test_a_card_that_falls_off_the_bus_is_left_out_its_gang_starts_elsewhere_whole_and_the_owner_reads_one_sentence",
    ),
    "K07 kubernetes/kubernetes#118559": (
        "cases/test_nodes::test_an_agent_that_is_away_for_a_while_finds_its_tasks_running",
        "cases/test_nodes::test_a_node_whose_devices_are_found_slowly_is_not_lost_meanwhile",
        "services/agent/test_agent::test_a_killed_agent_loses_and_doubles_nothing",
        "services/agent/test_processes::test_an_exit_that_no_agent_saw_is_found_by_the_next",
        "cases/test_variants_cut::test_an_agent_that_restarts_at_any_stage_of_its_tasks_loses_none_and_starts_none_again",
        "services/agent/test_processes::test_after_a_reboot_a_task_is_lost_and_nobody_who_has_its_old_number_is_signalled",
    ),
    "K08 NVIDIA/k8s-device-plugin#1641": (
        "cases/test_variants_machines::test_a_driver_that_cannot_start_or_changes_under_the_agent_closes_the_node_and_kills_nobody",
        "services/agent/test_nvml_library::test_a_driver_that_is_reloaded_is_a_problem_of_the_node_and_then_read_again_without_a_restart",
        "cases/test_nodes::test_a_node_whose_devices_stop_answering_takes_no_work_and_keeps_what_runs",
    ),
    "K10 skypilot-org/skypilot#825": (
        "cases/test_nodes::test_every_members_machine_is_watched_and_not_only_the_first",
        "cases/test_variants_sizes::test_a_host_that_dies_around_a_growth_is_noticed_and_the_gang_forms_once_more",
    ),
    "K11 armadaproject/armada#4390": (
        "cases/test_nodes::test_a_node_that_reports_no_gpus_for_a_moment_loses_no_job_and_gets_none",
        "cases/test_nodes::test_a_gpu_named_dead_hits_only_the_job_on_it",
        "cases/test_telemetry::test_cards_that_vanish_one_by_one_stay_in_the_description_under_their_own_index",
        "cases/test_variants_machines::test_nodes_that_blink_together_lose_no_job_and_cards_in_another_order_keep_their_numbers",
    ),
    "L01 enkore/i3pystatus#776": (
        "cases/test_telemetry::test_nonsense_is_an_absent_value_of_one_gpu_and_nothing_more",
        "cases/test_telemetry::test_a_card_that_says_nonsense_for_who_it_is_stays_who_it_was_and_no_other_appears",
        "cases/test_telemetry::test_a_card_that_does_not_say_for_a_moment_how_it_is_cut_is_cut_as_it_was",
        "cases/test_telemetry::test_one_warning_per_cause_and_not_per_look",
        "cases/test_variants_machines::test_whatever_a_driver_answers_every_card_is_told_and_every_number_can_be_one",
        "services/agent/test_nvml_library::test_whatever_one_function_refuses_the_rest_of_the_card_and_all_other_cards_are_told",
        "services/agent/test_host::test_what_a_container_hides_is_absent_alone",
    ),
    "L02 dask/distributed#8693": (
        "cases/test_telemetry::test_a_mean_leaves_out_what_is_absent_and_nobody_is_stopped_for_it",
        "cases/test_variants_machines::test_nobody_loses_gpus_for_values_that_are_absent_whatever_else_was_measured",
        "services/telemetry/test_scores::test_a_node_that_nobody_measured_is_not_taken_for_idle",
        "services/gateway/test_use::test_the_owner_sees_how_busy_gpus_processes_and_slow_members_are",
    ),
    "L04 guilbaults/slurm-job-exporter#55": (
        "services/telemetry/test_gauges::test_the_watts_of_a_card_that_is_cut_stand_there_once_and_slices_carry_their_own_jobs",
        "cases/test_variants_senses::test_the_parents_watts_are_nobodys_however_many_slices_are_held_and_whether_they_can_be_listed_now",
    ),
    "L05 NVIDIA/gpu-monitoring-tools#3": (
        "services/agent/test_nvml::test_quantities_have_the_units_their_names_say",
        "services/telemetry/test_gauges::test_the_counters_that_dcgm_shows_by_default_are_shown_under_its_names_and_in_its_units",
        "services/agent/test_host::test_rates_are_per_second_and_a_counter_that_began_anew_has_none",
        "cases/test_variants_senses::test_whatever_the_driver_counts_in_it_is_shown_in_the_unit_of_its_name",
        "cases/test_variants_senses::test_a_percentage_above_a_hundred_is_no_percentage",
        "cases/test_variants_senses::test_every_number_that_is_measured_says_its_unit_or_is_a_count",
    ),
    "L07 netdata/netdata#15755": (
        "services/agent/test_nvml_library::test_an_old_driver_lacks_functions_and_says_under_which_fields",
        "services/agent/test_nvml_library::test_whatever_one_function_refuses_the_rest_of_the_card_and_all_other_cards_are_told",
        "cases/test_variants_senses::test_whichever_function_a_driver_no_longer_knows_only_its_own_values_go",
        "cases/test_variants_senses::test_what_was_renamed_is_asked_for_by_its_older_name",
        "cases/test_variants_senses::test_one_field_that_the_driver_does_not_know_costs_no_other_even_where_it_costs_the_whole_list",
    ),
    "L08 NVIDIA/dcgm-exporter#342": (
        "services/telemetry/test_gauges::test_a_sample_carries_who_held_the_card_when_it_was_taken_and_still_does_or_nobody",
        "services/telemetry/test_gauges::test_of_two_jobs_on_one_card_neither_is_called_its_owner",
        "services/telemetry/test_gauges::test_the_watts_of_a_card_that_is_cut_stand_there_once_and_slices_carry_their_own_jobs",
        "services/agent/test_nvml_library::test_a_card_that_is_cut_is_told_with_its_slices_where_they_lie_and_who_is_in_them",
        "cases/test_variants_senses::test_a_sample_never_carries_anybody_who_did_not_hold_the_card_then_and_now",
        "cases/test_variants_senses::test_who_stands_still_on_a_card_is_not_who_works_on_it",
    ),
}
