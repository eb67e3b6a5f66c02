//! The part of the configuration that parses.

#[path = "../../../host/src/config/units.rs"]
pub(crate) mod units;
