//! What the story needs, inside the program: two versions of a task and files that people published.
//! `host/assets/demo/README.md` says where each is from and under which licence.

/// A file by its name.
pub(super) struct Embedded {
    /// Its name in the directory of the story.
    pub(super) name: &'static str,
    /// Its bytes.
    pub(super) bytes: &'static [u8],
}

macro_rules! embedded {
    ($($name:literal from $path:literal,)*) => {
        [$(Embedded { name: $name, bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/", $path)) },)*]
    };
}

/// The two versions of the task: the first traps on files of real life, the second reads them.
pub(super) const COMPONENTS: [Embedded; 2] = embedded! {
    "csv-report-v1.wasm" from "csv-report-v1.wasm",
    "csv-report-v2.wasm" from "csv-report-v2.wasm",
};

/// The payloads.
pub(super) const PAYLOADS: [Embedded; 6] = embedded! {
    "penguins.csv" from "demo/penguins.csv",
    "seattle-weather.csv" from "demo/seattle-weather.csv",
    "us-employment.csv" from "demo/us-employment.csv",
    "penguins-raw.csv" from "demo/penguins-raw.csv",
    "danish_data.csv" from "demo/danish_data.csv",
    "ubuntu.csv" from "demo/ubuntu.csv",
};

/// How many of the payloads the first version cannot read.
pub(super) const FAILING: u64 = 3;
