"""Public reports about places: F fragments, G topology, H parts of cards, I kinds; and tests that would fail for us.

The same table as `coverage.CASES`, for the groups that placement answers for; the placement side of gangs (A),
borrowing (C) and preemption (E) stands there.
"""

PLACES: dict[str, tuple[str, ...]] = {
    "F01 volcano-sh/volcano#3948": (
        "cases/test_fragmentation::test_enough_in_total_but_not_on_one_node_is_said_with_both_numbers",
        "cases/test_variants_places::test_as_few_moves_as_can_be_are_proposed_and_none_where_there_is_room",
        "core/test_moves::test_two_moves_make_room_for_four_where_no_single_one_does",
        "core/test_moves::test_the_plan_is_told_with_the_reason_and_moves_nobody",
        "core/test_moves::test_after_the_moves_everything_has_a_place",
    ),
    "F02 kubernetes-sigs/kueue#4329": (
        "cases/test_fragmentation::test_quota_that_no_node_can_use_is_not_held",
        "cases/test_fragmentation::test_a_job_that_waits_for_the_one_large_node_does_not_hold_up_the_small_ones",
        "cases/test_variants_places::test_quota_for_what_no_machine_has_in_one_place_is_never_held",
    ),
    "F04 volcano-sh/volcano#5078": (
        "cases/test_fragmentation::test_services_pack_so_that_training_finds_whole_nodes",
        "cases/test_fragmentation::test_a_bounded_spread_leaves_training_its_whole_nodes",
        "cases/test_fragmentation::test_single_replicas_pack_too",
        "cases/test_variants_places::test_a_spread_is_kept_and_no_wider_than_asked_for",
    ),
    "F05 kai-scheduler/KAI-Scheduler#306": (
        "cases/test_fragmentation::test_a_free_gpu_without_memory_or_slot_is_no_room",
        "cases/test_fragmentation::test_a_job_no_node_has_memory_beside_gpus_for_is_told_which",
        "cases/test_variants_places::test_whatever_a_node_lacks_beside_gpus_nothing_is_sent_there",
        "core/test_tasks_per_node::test_a_node_that_takes_none_is_no_room_although_its_gpus_are_free",
    ),
    "G01 NVIDIA/k8s-device-plugin#546": (
        "cases/test_topology::test_every_double_gets_a_linked_pair_whatever_its_numbers",
        "cases/test_variants_places::test_linked_cards_are_found_whatever_their_numbers_and_however_many_hang_together",
        "services/agent/test_places::test_links_that_the_driver_tells_decide_which_cards_a_pair_gets",
    ),
    "G02 NVIDIA/k8s-device-plugin#1193": (
        "cases/test_topology::test_singles_that_come_and_go_leave_pairs_whole",
        "cases/test_topology::test_a_single_takes_the_gpu_without_a_partner_wherever_it_is",
        "cases/test_variants_places::test_while_jobs_only_arrive_as_many_whole_pairs_are_free_as_can_be",
    ),
    "G05 microsoft/hivedscheduler#25": (
        "cases/test_topology::test_one_sick_gpu_per_pair_does_not_stop_two_singles",
        "cases/test_topology::test_a_required_pair_waits_with_a_reason_and_starts_when_its_gpu_is_well_again",
        "cases/test_variants_places::test_sick_parts_are_known_at_every_level",
        "core/test_cells_in_trouble::test_whatever_broke_a_job_that_fits_its_groups_free_cells_starts_at_once",
    ),
    "G07 kubernetes-sigs/kueue#9210": (
        "cases/test_topology::test_a_replacement_goes_where_there_is_room_and_nobody_aims_at_the_lost_node",
        "cases/test_topology::test_a_replacement_member_goes_to_the_free_node_while_the_survivor_stays",
        "cases/test_variants_places::test_a_lost_member_is_placed_once_wherever_the_lost_node_is_by_then",
    ),
    "G08 kai-scheduler/KAI-Scheduler#1217": (
        "cases/test_topology::test_gangs_of_a_whole_rack_are_never_mixed_even_after_failed_starts",
        "cases/test_topology::test_a_gang_of_a_whole_rack_fits_exactly_or_is_told_the_number",
        "cases/test_topology::test_a_rack_that_is_partly_used_is_left_for_one_that_holds_the_gang",
        "cases/test_variants_places::test_after_failed_starts_and_a_restart_a_gang_still_finds_its_whole_rack",
        "cases/test_variants_places::test_a_block_that_is_no_power_of_two_is_filled_exactly_and_no_further",
    ),
    "H01 kai-scheduler/KAI-Scheduler#416": (
        "cases/test_fractions::test_as_many_shares_as_the_cards_memory_holds_and_not_one_more",
        "cases/test_fractions::test_the_same_for_other_cards",
        "cases/test_variants_places::test_cards_hold_as_many_shares_as_whole_numbers_say",
    ),
    "H02 AliyunContainerService/gpushare-scheduler-extender#219": (
        "cases/test_fractions::test_each_card_of_a_node_counts_with_its_own_size",
        "cases/test_variants_places::test_three_sizes_of_card_in_one_node_each_hold_what_they_hold",
        "cases/test_variants_places::test_a_share_too_big_for_any_card_that_is_well_waits_for_its_repair",
    ),
    "H04 itsfoss.gitlab.io, shards and whole GPUs": (
        "cases/test_fractions::test_a_whole_card_is_never_one_that_is_shared",
        "cases/test_fractions::test_a_share_by_memory_and_a_whole_card_are_two_readings_of_one_ledger",
        "cases/test_variants_places::test_whole_cards_and_shares_of_one_instant_never_share_a_card",
        "cases/test_variants_places::test_a_gang_of_whole_cards_does_not_start_while_one_of_them_is_shared",
    ),
    "H07 ray-project/ray#42683": (
        "cases/test_fractions::test_parts_that_add_up_to_a_card_fit_a_card",
        "cases/test_fractions::test_parts_given_back_in_any_order_leave_a_whole_card",
        "cases/test_fractions::test_no_mix_of_shares_ever_over_books_or_loses_a_thousandth",
        "cases/test_fractions::test_a_gang_of_shares_with_a_lot_of_host_memory_starts",
        "cases/test_variants_places::test_thirds_and_tenths_come_and_go_and_leave_nothing_behind",
        "cases/test_variants_places::test_parts_finer_than_a_thousandth_are_refused_and_never_rounded",
    ),
    "H08 Project-HAMi/HAMi#404": (
        "cases/test_fractions::test_each_job_is_started_with_its_own_limit",
        "services/agent/test_places::test_starts_of_one_instant_each_have_the_limits_of_their_own_allocation",
    ),
    "I01 opendatahub-io/opendatahub-operator#3331": (
        "cases/test_models::test_sixteen_of_one_kind_are_not_twenty_four_of_any",
        "cases/test_models::test_any_kind_but_the_same_for_all_can_never_be_twenty_four",
        "cases/test_models::test_kinds_match_exactly_and_without_regard_to_case",
        "cases/test_variants_places::test_a_limit_on_one_kind_is_not_used_up_by_another_whatever_its_spelling",
    ),
    "I02 kai-scheduler/KAI-Scheduler#1795": (
        "cases/test_models::test_a_share_by_memory_is_charged_by_the_card_it_is_on",
        "cases/test_variants_places::test_a_share_by_memory_counts_against_limits_by_the_card_it_lands_on",
    ),
    "MIG start slots": (
        "cases/test_variants_places::test_a_card_holds_the_slices_that_its_memory_slots_allow",
        "cases/test_variants_places::test_small_slices_that_came_first_do_not_spoil_the_starts_of_large_ones",
        "cases/test_variants_places::test_free_slots_that_do_not_lie_together_are_no_room_and_are_when_they_do",
        "core/test_mig_layouts::test_slices_begin_exactly_where_the_vendor_lets_them",
        "core/test_mig_layouts::test_a_card_with_slices_gives_these_and_no_others",
    ),
}
