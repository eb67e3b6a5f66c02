//! How many schedules are tried, and how: at random, from a seed that is the same every time. With
//! `WASMQ_MODEL_TIMES=20` twenty times as many are tried, from another seed.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

const SEED: u64 = 0x5eed;
/// Stack of a thread, in bytes: the product's code in a debug build needs more than the default.
const STACK_BYTES: usize = 1 << 20;

/// How many times as many schedules as usual.
fn factor() -> usize {
    std::env::var("WASMQ_MODEL_TIMES").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn seed() -> u64 {
    SEED + factor() as u64
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    config
}

/// Runs a model so many times, each step of it by a thread drawn at random.
pub(crate) fn at_random(times: usize, model: impl Fn() + Send + Sync + 'static) {
    Runner::new(RandomScheduler::new_from_seed(seed(), times * factor()), config()).run(model);
}

/// Half of the times at random, and half with threads that go on until one of a few unlucky moments, which
/// finds other orders. Not for threads that wait by looking again and again.
pub(crate) fn in_many_ways(times: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
    at_random(times / 2, model.clone());
    Runner::new(PctScheduler::new_from_seed(seed(), 3, times / 2 * factor()), config()).run(model);
}

/// One of so many, drawn by the checker.
pub(crate) fn draw(count: u64) -> u64 {
    use shuttle::rand::{Rng as _, thread_rng};
    thread_rng().gen_range(0..count)
}
