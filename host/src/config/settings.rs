//! The list of settings: name, environment variable, flag, default, meaning.
//!
//! Invariant: this list is the only place that names a setting's variable and default; `wasmq
//! config`, the file reader and the checks all walk it.

/// One setting of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its key in `wasmq.toml`.
    pub name: &'static str,
    /// Its environment variable.
    pub variable: &'static str,
    /// Its flag; empty where there is none.
    pub flag: &'static str,
    /// Its default as text; empty when it depends on the machine.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// Every setting of the host.
pub const SETTINGS: [Setting; 11] = [
    Setting {
        name: "data",
        variable: "WASMQ_DATA",
        flag: "--data",
        default: "wasmq-data",
        meaning: "the data directory; in the file it is relative to the file",
    },
    Setting {
        name: "store",
        variable: "WASMQ_STORE",
        flag: "--store",
        default: "dir",
        meaning: "dir keeps everything in the data directory, none keeps nothing",
    },
    Setting {
        name: "fsync",
        variable: "WASMQ_FSYNC",
        flag: "--fsync",
        default: "always",
        meaning: "when acknowledged work is forced to the disk: always, interval, never",
    },
    Setting {
        name: "workers",
        variable: "WASMQ_WORKERS",
        flag: "--workers",
        default: "",
        meaning: "worker processes of one server; by default one per core",
    },
    Setting {
        name: "concurrency",
        variable: "WASMQ_CONCURRENCY",
        flag: "--concurrency",
        default: "16",
        meaning: "attempts that one worker runs at the same time",
    },
    Setting {
        name: "payload_limit",
        variable: "WASMQ_PAYLOAD_LIMIT",
        flag: "--payload-limit",
        default: "1MiB",
        meaning: "the largest payload that is accepted, up to 64MiB",
    },
    Setting {
        name: "grace",
        variable: "WASMQ_GRACE",
        flag: "--grace",
        default: "30s",
        meaning: "how long a server that stops lets running attempts finish",
    },
    Setting {
        name: "network_disk",
        variable: "WASMQ_NETWORK_DISK",
        flag: "",
        default: "refuse",
        meaning: "whether to write on a network file system, where locks may not hold: refuse, allow",
    },
    Setting {
        name: "color",
        variable: "WASMQ_COLOR",
        flag: "--color",
        default: "auto",
        meaning: "auto colours only a terminal and respects NO_COLOR; always; never",
    },
    Setting {
        name: "log",
        variable: "WASMQ_LOG",
        flag: "--verbose",
        default: "info",
        meaning: "the least severe log records to write: off, error, warn, info, debug, trace",
    },
    Setting {
        name: "log_format",
        variable: "WASMQ_LOG_FORMAT",
        flag: "--log-format",
        default: "text",
        meaning: "log records as text or as json, one a line",
    },
];

/// The names of all settings.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

/// A setting by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
