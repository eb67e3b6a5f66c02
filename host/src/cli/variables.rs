//! Environment variables that look like settings and are none.
//!
//! Invariant: a variable is only talked about, never obeyed or refused: other programs may have
//! variables that begin alike.

use crate::cli::output::safe::safe;
use crate::config::close::close_names;
use crate::config::file::FILE_VARIABLE;
use crate::config::settings::SETTINGS;

const PREFIX: &str = "WASMQ_";

/// A sentence for every variable that nobody reads: with `all` for each, otherwise only for those
/// that are close to a known one.
pub fn unknown(names: impl Iterator<Item = String>, all: bool) -> Vec<String> {
    let mut told: Vec<String> = names.filter_map(|name| sentence(&name, all)).collect();
    told.sort_unstable();
    told
}

/// The names of the variables of this process, where they are texts.
pub fn names() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}

fn known() -> impl Iterator<Item = &'static str> {
    let variables = SETTINGS.iter().map(|setting| setting.variable).chain([FILE_VARIABLE]);
    variables.filter_map(|variable| variable.strip_prefix(PREFIX))
}

fn sentence(name: &str, all: bool) -> Option<String> {
    let rest = name.strip_prefix(PREFIX).filter(|rest| !known().any(|known| known == *rest))?;
    let meant = match close_names(rest, known()).first() {
        Some(close) => format!("did you mean {PREFIX}{close}? "),
        None if all => String::new(),
        None => return None,
    };
    let name = safe(name);
    Some(format!("warning: the variable {name} means nothing here; {meant}`wasmq config` shows the known ones"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(all: bool) -> Vec<String> {
        let names = ["PATH", "WASMQ_WORKERS", "WASMQ_CONFIG", "WASMQ_WORKRES", "WASMQ_BOGUS", "WASMQ_DAAT"];
        unknown(names.into_iter().map(str::to_owned), all)
    }

    #[test]
    fn a_slip_names_what_was_meant_and_where_the_known_ones_are() {
        let slips = told(false);
        assert_eq!(slips.len(), 2, "{slips:?}");
        assert!(slips[0].contains("WASMQ_DAAT means nothing here; did you mean WASMQ_DATA?"), "{slips:?}");
        assert!(slips[1].contains("WASMQ_WORKRES means nothing here; did you mean WASMQ_WORKERS?"), "{slips:?}");
        assert!(slips.iter().all(|slip| slip.ends_with("`wasmq config` shows the known ones")));
    }

    #[test]
    fn a_name_that_is_close_to_nothing_is_not_said_to_be_something() {
        let all = told(true);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0], "warning: the variable WASMQ_BOGUS means nothing here; `wasmq config` shows the known ones");
    }
}
