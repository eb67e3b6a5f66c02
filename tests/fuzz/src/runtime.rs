//! The inspection of files and the adaptation of core modules, with a stand-in for the module beside it that needs the engine.

#[path = "../../../host/src/runtime/adapt.rs"]
mod adapt;
#[path = "../../../host/src/runtime/heap_end.rs"]
mod heap_end;
#[path = "../../../host/src/runtime/inspect.rs"]
pub(crate) mod inspect;
#[path = "../../../host/src/runtime/program_break.rs"]
mod program_break;
#[path = "../../../host/src/runtime/rejection.rs"]
mod rejection;
#[path = "../../../host/src/runtime/rewrite.rs"]
mod rewrite;
#[path = "../../../host/src/runtime/validate.rs"]
mod validate;

pub(crate) const WIT_VERSION: &str = "0.1.0";

#[path = "../../../host/src/runtime/offered.rs"]
mod offered;

mod prepare {
    use sha2::{Digest as _, Sha256};

    pub(crate) fn digest_of(bytes: &[u8]) -> wasmq_core::Digest {
        wasmq_core::Digest::new(Sha256::digest(bytes).into())
    }
}
