//! Symbols: whatever bytes are kept of them, a backtrace has at least the frames it had, none of which says
//! anything else than before; and any file is symbols of a component or refused in a sentence.

use wasmq_core::report::Frame;
use wasmq_core::{Digest, TrapCode, TrapInfo};

use crate::symbols::{matched, packed_contents, resolve};

/// See the module. The first bytes say which frames are asked about.
pub fn run(bytes: &[u8]) {
    let Some((asked, packed)) = bytes.split_at_checked(4) else { return };
    let frames = asked.iter().map(|byte| Frame {
        function_index: u32::from(byte >> 5),
        offset: Some(u64::from(byte & 0x1f)),
        ..Frame::default()
    });
    let before = TrapInfo::new(TrapCode::Unreachable, "unreachable", frames.collect());
    let mut after = before.clone();
    resolve(&mut after, packed);
    assert!(after.frames.len() + after.frames_omitted as usize >= before.frames.len());
    let has = |frame: &Frame| {
        before.frames.iter().any(|other| (other.function_index, other.offset) == (frame.function_index, frame.offset))
    };
    assert!(after.frames.iter().all(has));
    let _ = packed_contents(packed);
    let digest = Digest::new([0; 32]);
    match matched(packed, digest, packed) {
        Ok(found) => assert_eq!(packed_contents(&found.packed), found.contents),
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}
