//! The inspection of components, with stand-ins for the two modules around it that need the engine.

#[path = "../../../host/src/runtime/inspect.rs"]
pub(crate) mod inspect;

pub(crate) const WIT_VERSION: &str = "0.1.0";

mod linker {
    /// Some of what the real linker offers; which ones makes no difference to the inspection.
    pub(crate) const OFFERED: [&str; 4] =
        ["wasi:cli/environment", "wasi:io/streams", "wasi:random/random", "wasmq:task/host"];
}

mod prepare {
    use sha2::{Digest as _, Sha256};

    pub(crate) fn digest_of(bytes: &[u8]) -> wasmq_core::Digest {
        wasmq_core::Digest::new(Sha256::digest(bytes).into())
    }
}
