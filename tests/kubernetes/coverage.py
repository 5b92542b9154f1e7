"""Public reports that concern a cluster, and the tests of this folder that would fail if the same happened here.

A gangs, B quota, E preemption, G topology, K nodes, L telemetry, M input, P watching. What the pure core and the
simulation prove of the same reports stands in tests/cases/coverage.py.
"""

CASES: dict[str, tuple[str, ...]] = {
    "A01 volcano-sh/volcano#3373": (
        "test_cases::test_two_gangs_that_each_need_all_nodes_run_one_after_the_other",
        "test_cases::test_two_gangs_of_bare_pods_that_come_mixed_are_bound_one_after_the_other",
        "test_adopted::test_a_gang_is_bound_whole_or_not_at_all",
    ),
    "A02 kubernetes-sigs/scheduler-plugins#117": (
        "test_cases::test_a_stream_of_gangs_is_worked_off_and_nobody_holds_a_part",
    ),
    "A04 volcano-sh/volcano#5805": ("test_cases::test_a_gang_that_lost_a_node_is_released_whole_and_starts_whole",),
    "A07 kai-scheduler/KAI-Scheduler#500": (
        "test_cases::test_a_gang_above_its_limit_starts_no_member_and_whole_once_the_limit_is_raised",
    ),
    "A08 dstackai/dstack#4146": (
        "test_cases::test_a_member_whose_image_never_comes_gives_the_others_room_back",
        "test_trouble::test_a_gang_of_which_one_place_is_refused_is_undone_whole_and_starts_anew",
    ),
    "B01 kubernetes/kubernetes#76787": ("test_cases::test_a_refused_duplicate_charges_nothing",),
    "B05 kubernetes-sigs/kueue#14811": ("test_cases::test_quota_comes_back_exactly_when_the_last_pod_is_gone",),
    "B10 ray-project/ray#18872": (
        "test_cases::test_a_job_deleted_while_its_pods_are_being_made_leaves_no_usage",
        "test_cases::test_quota_comes_back_exactly_when_the_last_pod_is_gone",
    ),
    "B13 kai-scheduler/KAI-Scheduler#1668": (
        "test_cases::test_no_mix_of_fractions_and_memory_slips_below_a_gpu_limit",
    ),
    "B14 volcano-sh/volcano#5001": ("test_cases::test_a_full_gpu_limit_stops_no_pod_without_gpus",),
    "B16 apache/yunikorn-core#1068": ("test_cases::test_lowering_a_limit_and_restarting_keeps_what_runs",),
    "E14 kubernetes/kubernetes#134217": (
        "test_trouble::test_a_victim_that_is_still_being_started_is_evicted_once_and_makes_way_in_seconds",
    ),
    "G07 kubernetes-sigs/kueue#9210": ("test_nodes::test_a_replacement_member_is_not_put_on_the_survivors_node",),
    "K01 kubernetes/kubernetes#30972": (
        "test_cases::test_what_a_node_that_was_cut_off_says_later_does_not_touch_the_second_run",
        "test_whole_path::test_work_of_a_lost_node_starts_elsewhere",
    ),
    "K02 skypilot-org/skypilot#10155": (
        "test_cases::test_short_silences_of_a_kubelet_move_nothing_however_many_there_are",
        "test_trouble::test_an_api_server_that_is_away_loses_nothing_and_nothing_is_declared_lost",
    ),
    "K04 kubernetes-sigs/kueue#3401": ("test_nodes::test_closed_tainted_and_unready_nodes_are_no_room",),
    "K05 volcano-sh/volcano#1818": (
        "test_cases::test_a_node_with_more_in_use_than_there_is_has_no_room",
        "test_sights::test_a_card_that_fails_is_left_out_once_whoever_counts_it",
        "test_cases_claims::test_devices_that_die_below_a_running_job_are_nobodys_room",
    ),
    "K07 kubernetes/kubernetes#118559": (
        "test_cases::test_short_silences_of_a_kubelet_move_nothing_however_many_there_are",
        "test_trouble::test_a_new_leader_finds_every_pod_again_and_starts_none_twice",
    ),
    "K08 NVIDIA/k8s-device-plugin#1641": (
        "test_sights::test_a_driver_that_does_not_answer_closes_the_node_and_an_agent_that_is_gone_does_not",
    ),
    "K10 skypilot-org/skypilot#825": ("test_cases::test_a_job_of_which_a_node_lost_power_is_not_shown_as_running",),
    "K11 armadaproject/armada#4390": (
        "test_cases::test_a_gpu_count_that_blinks_evicts_nothing_and_places_nothing",
        "test_sights::test_a_card_that_only_the_device_plugin_holds_bad_is_one_less",
        "test_cases_claims::test_a_slice_that_blinks_evicts_nothing_and_places_nothing",
    ),
    "L08 NVIDIA/dcgm-exporter#342": ("test_whose::test_a_device_that_is_handed_over_never_has_two_owners",),
    "M05 open-metadata/OpenMetadata#27004": ("test_trouble::test_names_are_unique_valid_and_recognised",),
    "P01 tomplus/kubernetes_asyncio#136": (
        "test_watch::test_a_version_that_is_too_old_leads_to_a_list_that_tells_all_that_was_missed",
        "test_watch::test_a_410_as_an_answer_leads_to_the_same",
    ),
    "P02 kubernetes/kubernetes#104171": ("test_watch::test_watches_that_end_at_once_are_no_hot_loop_and_are_told",),
    "P04 kubernetes/kubernetes#51313": (
        "test_watch::test_a_delete_that_no_watch_told_is_found_and_a_new_pod_of_the_name_is_another",
        "test_cases::test_a_pod_deleted_while_the_server_is_away_gives_its_room_to_the_next",
        "test_nodes::test_a_node_that_comes_back_under_its_name_starts_empty",
    ),
    "P05 kubernetes/kubernetes#28883": (
        "test_trouble::test_a_start_whose_request_was_lost_is_done_once",
        "test_trouble::test_a_start_whose_answer_was_lost_is_done_once",
        "test_cases::test_a_binding_whose_request_or_answer_was_lost_is_made_once",
    ),
}
ELSEWHERE = {
    "A10": "what becomes of a part of a job is decided in the core, whoever carries its members",
    "A11": "as A10: when a start limit begins",
    "B04": "as A10: two borrowers of one round",
    "B07": "as A10: elements of arrays",
    "B08": "as A10: gangs are never assembled from placeholders",
}
"""Reports of the same groups that say nothing about a cluster; tests/cases plays them."""
