"""What placement is asked to be able to do, sentence by sentence, and the tests that would fail if it were not so."""

PROMISED: dict[str, tuple[str, ...]] = {
    # --- the cluster model ---
    "a tree of GPUs per node: link islands, switches, sockets": (
        "core/test_placement::test_linked_pairs_stay_together_even_when_they_are_not_neighbours",
        "core/test_shapes_of_gangs::test_two_gpus_come_from_one_switch_and_whole_switches_stay_whole",
        "core/test_placement_shares::test_a_required_socket_holds_the_whole_gang",
    ),
    "levels above the node, named by administrators, from labels": (
        "core/test_placement_shares::test_nodes_without_the_label_are_in_no_domain",
        "core/test_wishes_and_placers::test_a_node_without_the_label_is_in_no_domain_whoever_places",
        "core/test_placement_shares::test_a_whole_rack_gang_never_mixes_racks",
        "cases/test_variants_places::test_a_block_that_is_no_power_of_two_is_filled_exactly_and_no_further",
    ),
    "from the agent's link matrix": (
        "services/agent/test_places::test_links_that_the_driver_tells_decide_which_cards_a_pair_gets",
    ),
    "from a file": ("services/agent/test_fleet::test_a_description_may_say_how_gpus_hang_together",),
    "mixed models in one cluster and in one node": (
        "core/test_placement_shares::test_two_sizes_of_card_in_one_node_are_told_apart",
        "core/test_placement::test_models_are_mixed_only_when_no_single_one_has_room",
    ),
    "MIG with legal start slots": (
        "core/test_mig_layouts::test_slices_begin_exactly_where_the_vendor_lets_them",
        "services/agent/test_places::test_a_slice_that_the_driver_tells_is_asked_for_by_profile_and_given_by_name",
    ),
    "health per GPU, drain, taints, labels": (
        "core/test_capacity::test_a_sick_gpu_is_no_room_and_a_well_one_is_again",
        "core/test_cycle::test_closed_tainted_and_broken_nodes_are_no_room",
    ),
    "changes at run time": (
        "core/test_capacity::test_nodes_come_change_and_move_between_pools",
        "core/test_capacity::test_the_room_follows_every_task",
    ),
    # --- requests ---
    "several roles, fractions, memory only, slices": (
        "core/test_placement::test_several_roles_go_together",
        "core/test_placement_shares::test_shares_that_add_up_to_one_card_fit_it",
        "core/test_placement_shares::test_a_share_by_memory_is_charged_by_the_card_it_lands_on",
        "core/test_mig_layouts::test_every_placer_gives_only_slices_that_are_there",
    ),
    "models in order of preference": ("core/test_placement::test_models_are_tried_in_the_order_of_preference",),
    "required and preferred levels, slices, spread, exclusion, a near network card": (
        "core/test_wishes_and_placers::test_required_levels_hold_whoever_places",
        "core/test_wishes_and_placers::test_slices_and_spread_hold_whoever_places",
        "core/test_wishes_and_placers::test_closed_nodes_one_model_and_near_cards_hold_whoever_places",
        "core/test_placement_shares::test_a_preferred_level_is_left_only_when_it_cannot_hold_the_gang",
    ),
    "ranks follow topology": (
        "core/test_placement::test_ranks_follow_topology_inside_a_role",
        "cases/test_variants_places::test_ranks_that_are_neighbours_stand_together",
    ),
    "a least size and growth": (
        "core/test_cycle::test_an_elastic_job_starts_at_the_largest_size_that_fits",
        "core/test_shapes_of_gangs::test_a_job_that_grows_keeps_its_spread",
    ),
    # --- placers ---
    "every placer is explained and leaves the room alone": (
        "house/test_pages::test_every_placement_is_explained_by_the_guide_or_by_its_own_words",
        "core/test_fragments::test_a_placer_leaves_the_room_as_it_was",
    ),
    "guarantees of shape": (
        "core/test_cells::test_promises_are_accepted_exactly_when_every_level_has_room_for_them",
        "core/test_cells_in_trouble::test_whatever_broke_a_job_that_fits_its_groups_free_cells_starts_at_once",
        "core/test_wishes_and_placers::test_no_other_placer_can_be_chosen_while_the_pool_owes_cells",
        "oracles/test_hived_sequences::test_a_sequence_comes_out_as_in_hived",
    ),
    "postponing, one flow for a batch": (
        "core/test_postpone::test_a_task_waits_while_its_best_place_is_not_good_enough",
        "core/test_batch::test_a_batch_costs_no_more_than_the_best_of_all_ways_to_place_it",
    ),
    # --- hard rules ---
    "a gang is decided whole and holds nothing while it waits": (
        "core/test_placement::test_a_gang_is_placed_whole_or_not_at_all",
        "core/test_cycle::test_two_gangs_that_each_need_everything_run_one_after_the_other",
    ),
    "the cheapest set of victims, across nodes, for roles, shares, slices, levels, a spread and models": (
        "oracles/test_brute_force_victims::test_victims_of_any_gang_are_the_cheapest_of_all_sets_that_help",
        "oracles/test_brute_force_victims::test_victims_of_gangs_in_slices_and_spread_are_the_cheapest_of_all_sets_that_help",
        "oracles/test_brute_force_victims::test_victims_for_slices_of_cards_are_the_cheapest_of_all_sets_that_help",
        "oracles/test_brute_force_victims::test_the_cheapest_victims_leave_guarantees_and_protected_time_alone",
        "oracles/test_brute_force::test_the_victims_of_one_task_cost_no_more_than_the_cheapest_set_there_is",
        "oracles/test_brute_force_gangs::test_the_victims_of_a_gang_cost_no_more_than_the_cheapest_set_there_is",
    ),
    "never without use, never more than needed, never what is protected": (
        "core/test_preemption::test_nobody_is_evicted_unless_the_beneficiary_then_fits",
        "oracles/test_brute_force::test_no_victim_of_a_gang_could_be_spared",
        "core/test_preemption::test_a_job_that_is_not_preemptible_or_protected_stays",
        "core/test_preemption_claims::test_nobody_is_pushed_below_its_guarantee_not_even_by_priority",
    ),
    "freed room belongs to the beneficiary": (
        "core/test_preemption_claims::test_freed_room_belongs_to_the_beneficiary_through_the_whole_slow_shutdown",
    ),
    "the oldest blocked job has a date, which backfill respects": (
        "core/test_cycle::test_backfill_lets_only_those_pass_who_are_not_in_the_way",
        "core/test_cycle::test_endless_small_jobs_do_not_starve_a_big_one",
    ),
    "a plan of moves as a proposal": (
        "core/test_moves::test_two_moves_make_room_for_four_where_no_single_one_does",
        "oracles/test_brute_force_moves::test_a_plan_has_the_fewest_moves_and_of_these_the_cheapest",
        "core/test_moves::test_a_slice_of_a_card_moves_so_that_a_whole_card_is_free",
        "core/test_moves::test_one_worker_of_an_elastic_job_moves_alone_and_only_its_work_counts",
        "core/test_moves::test_the_plan_is_told_with_the_reason_and_moves_nobody",
    ),
    # --- several schedulers ---
    "partitions in rotation": (
        "core/test_parsync::test_a_scheduler_sees_a_partition_as_it_was_when_its_turn_came",
        "core/test_parsync::test_full_synchronisation_sees_everything_once_per_period",
    ),
    "quality-first, latency-first, adaptive": (
        "core/test_parsync::test_quality_first_takes_the_best_place_and_prefers_a_fresh_one_among_equals",
        "core/test_parsync::test_latency_first_looks_at_the_freshest_partition_first",
        "core/test_parsync::test_adaptive_turns_to_freshness_when_jobs_wait_and_back_when_they_do_not",
    ),
    "commit by compare-and-set on the log, conflicts counted": (
        "core/test_parsync::test_a_gang_whose_node_changed_since_it_was_seen_is_a_conflict_and_the_leader_places_it_in_the_same_round",
        "core/test_parsync::test_in_whatever_order_shares_arrive_nothing_is_booked_twice_and_everybody_starts",
        "bus/test_schedulers::test_schedulers_in_several_processes_share_rounds_and_one_that_dies_costs_nothing",
    ),
    "fewer conflicts than full synchronisation": (
        "core/test_parsync::test_partitions_in_turn_conflict_less_than_everything_at_once_and_place_about_as_well",
    ),
    # --- reasons ---
    "how many nodes and GPUs each cause excludes, the best there is, what would have to come free": (
        "core/test_moves::test_the_plan_is_told_with_the_reason_and_moves_nobody",
        "core/test_moves::test_the_best_island_is_named",
        "core/test_explain::test_nodes_that_cannot_take_it_are_counted_by_cause",
    ),
    "numbers that were counted, of one role or of all, and never enough where something lacks": (
        "oracles/test_brute_force_roles::test_a_reason_never_says_that_there_is_enough",
        "core/test_shapes_of_gangs::test_a_level_is_told_with_what_lacks_inside_it_and_never_with_enough",
        "core/test_shapes_of_gangs::test_of_roles_in_each_others_way_it_is_told_how_many_tasks_fit_together",
        "core/test_shapes_of_gangs::test_a_shape_is_told_by_the_role_that_lacks_places_or_by_all",
        "core/test_shapes_of_gangs::test_a_search_that_was_given_up_says_so",
    ),
    "never apart from not now": (
        "core/test_moves::test_what_no_empty_pool_could_hold_is_told_as_never",
        "oracles/test_brute_force_roles::test_a_gang_that_no_empty_cluster_could_hold_is_refused_at_the_door_and_no_other",
        "core/test_shapes_of_gangs::test_roles_that_never_stand_side_by_side_are_refused_with_the_number_that_is_too_large",
    ),
    # --- oracles ---
    "gangs of several roles: seated exactly when some way to seat them exists, whoever places": (
        "oracles/test_brute_force_roles::test_a_gang_of_roles_is_seated_exactly_when_some_way_to_seat_it_exists",
        "oracles/test_brute_force_roles::test_a_gang_of_roles_takes_the_smallest_level_that_holds_it",
        "oracles/test_brute_force_roles::test_a_preferred_level_is_left_only_when_it_cannot_hold_the_roles",
        "core/test_shapes_of_gangs::test_roles_that_fill_every_core_and_gpu_are_seated_whoever_places",
        "core/test_shapes_of_gangs::test_slices_over_several_models_start_when_each_is_of_one",
    ),
    "feasibility and level by brute force": (
        "oracles/test_brute_force::test_a_gang_is_seated_exactly_when_some_way_to_seat_it_exists",
        "oracles/test_brute_force::test_with_a_wish_for_closeness_the_smallest_level_that_can_hold_the_gang_is_taken",
    ),
    "flow cost by brute force": ("oracles/test_placement::test_a_flow_costs_no_more_than_the_best_of_all_assignments",),
    "never over capacity": ("core/test_placement::test_nothing_is_over_booked_and_required_levels_hold",),
    "place then release restores the exact state": (
        "oracles/test_brute_force::test_placing_and_releasing_in_any_order_restores_the_exact_state",
        "oracles/test_symmetry::test_placing_and_releasing_restores_the_exact_state_whoever_places",
    ),
    "permuting node names changes nothing but names and which of equally good machines goes first, whoever places": (
        "oracles/test_symmetry::test_permuting_names_changes_only_which_of_equally_good_machines_goes_first",
        "oracles/test_symmetry::test_the_order_in_which_machines_join_changes_nothing_at_all",
        "oracles/test_brute_force::test_permuting_node_names_changes_nothing_but_names",
        "oracles/test_brute_force::test_other_node_names_in_the_same_order_change_nothing_but_names",
    ),
}
