//! The models as tests; what they check is told where they are.

#[test]
fn two_workers_that_want_the_same_log_lose_nothing_whoever_dies_where() {
    wasmq_models::adoption::two_workers_that_want_the_same_log_lose_nothing_whoever_dies_where();
}

#[test]
fn two_workers_that_adopt_after_a_third_died_double_nothing() {
    wasmq_models::adoption::two_workers_that_adopt_after_a_third_died_double_nothing();
}

#[test]
fn whoever_reads_during_an_adoption_sees_everything() {
    wasmq_models::adoption::whoever_reads_during_an_adoption_sees_everything();
}

#[test]
fn a_hand_over_beside_an_adoption_leaves_each_invocation_with_one_worker() {
    wasmq_models::adoption::a_hand_over_beside_an_adoption_leaves_each_invocation_with_one_worker();
}

#[test]
fn everybody_is_answered_and_not_before_it_is_durable() {
    wasmq_models::group_commit::everybody_is_answered_and_not_before_it_is_durable();
}

#[test]
fn a_log_whose_time_is_over_is_let_go_between_any_two_steps() {
    wasmq_models::group_commit::a_log_whose_time_is_over_is_let_go_between_any_two_steps();
}

#[test]
fn a_failed_sync_reaches_everybody_whose_records_it_was_to_cover() {
    wasmq_models::group_commit::a_failed_sync_reaches_everybody_whose_records_it_was_to_cover();
}

#[test]
fn two_operators_make_exactly_one_replay_of_a_death_whoever_dies_where() {
    wasmq_models::retrying::two_operators_make_exactly_one_replay_of_a_death_whoever_dies_where();
}

#[test]
fn a_drain_ends_with_every_invocation_judged_once_and_every_enqueue_answered_once() {
    wasmq_models::shutdown::a_drain_ends_with_every_invocation_judged_once_and_every_enqueue_answered_once();
}

#[test]
fn no_change_waits_for_a_commit_for_ever() {
    wasmq_models::waking::no_change_waits_for_a_commit_for_ever();
}
