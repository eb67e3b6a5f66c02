//! The languages that there are templates for, and what people want to know before they choose one.

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    JavaScript,
    TypeScript,
    Go,
    C,
}

/// What people want to know about a language. The figures are of the template's own task, on one core
/// of a small server; they are there to compare.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Other names that are understood.
    pub(crate) aliases: &'static [&'static str],
    /// Typed, or a command.
    pub(crate) shape: &'static str,
    /// How large the component is.
    pub(crate) size: &'static str,
    /// What every attempt takes before the task's own code runs.
    pub(crate) start: &'static str,
    /// How long `wasmq deploy` compiles the component, once.
    pub(crate) deploy: &'static str,
    /// What has to be installed to build it.
    pub(crate) needs: &'static str,
}

impl Language {
    /// All of them, in the order in which they are listed.
    pub(crate) const ALL: [Self; 6] = [Self::Rust, Self::Python, Self::JavaScript, Self::TypeScript, Self::Go, Self::C];

    /// The language of a name or an alias.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| {
            let about = language.about();
            about.name == name || about.aliases.contains(&name)
        })
    }

    /// The names of all languages.
    pub(crate) fn names() -> [&'static str; 6] {
        Self::ALL.map(|language| language.about().name)
    }

    /// What people want to know.
    pub(crate) const fn about(self) -> About {
        match self {
            Self::Rust => About {
                name: "rust",
                aliases: &["rs"],
                shape: "typed",
                size: "100 kB",
                start: "0.01 ms",
                deploy: "0.1 s",
                needs: "Rust with `rustup target add wasm32-wasip2`",
            },
            Self::Python => About {
                name: "python",
                aliases: &["py"],
                shape: "typed",
                size: "18 MB",
                start: "0.9 ms",
                deploy: "8 s",
                needs: "Python 3.10; ./build gets componentize-py from PyPI",
            },
            Self::JavaScript => About {
                name: "javascript",
                aliases: &["js"],
                shape: "typed",
                size: "1.6 MB",
                start: "0.1 ms",
                deploy: "1.5 s",
                needs: "Node.js 20; ./build gets componentize-qjs from npm",
            },
            Self::TypeScript => About {
                name: "typescript",
                aliases: &["ts"],
                shape: "typed",
                size: "1.6 MB",
                start: "0.1 ms",
                deploy: "1.5 s",
                needs: "Node.js 20; ./build gets componentize-qjs from npm",
            },
            Self::Go => About {
                name: "go",
                aliases: &["golang"],
                shape: "command",
                size: "4.4 MB",
                start: "0.3 ms",
                deploy: "2 s",
                needs: "Go 1.21",
            },
            Self::C => About {
                name: "c",
                aliases: &[],
                shape: "typed",
                size: "150 kB",
                start: "0.01 ms",
                deploy: "0.1 s",
                needs: "clang with wasi-libc, a WASI SDK, or Python: ./build then gets Zig from PyPI",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_alias_means_one_language() {
        let mut all: Vec<&str> = Language::names().to_vec();
        all.extend(Language::ALL.iter().flat_map(|language| language.about().aliases));
        for name in &all {
            assert_eq!(all.iter().filter(|other| *other == name).count(), 1, "{name}");
            assert!(Language::find(name).is_some(), "{name}");
        }
        assert_eq!(Language::find("js"), Some(Language::JavaScript));
        assert_eq!(Language::find("cobol"), None);
    }
}
