//! Symbols: whatever bytes are kept of them, a backtrace has at least the frames it had, none of which says
//! anything else than before; and any file is symbols of a component or refused in a sentence.

use wasmq_core::report::Frame;
use wasmq_core::{Digest, TrapCode, TrapInfo};

use crate::symbols::{contents, matched, matched_adapted, packed as described, resolve};

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
    let _ = (described(packed), contents(packed));
    let digest = Digest::new([0; 32]);
    let component = nameless(packed);
    for found in [matched(&component, digest, packed), matched_adapted(&component, digest, packed)] {
        match found {
            Ok(found) => assert_eq!(described(&found.packed), found.described),
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
    }
}

/// The same file, in which the sections that describe it have names that say nothing.
fn nameless(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for known in [&b"name"[..], b".debug_"] {
        for at in 0..bytes.len().saturating_sub(known.len()) {
            if bytes[at..].starts_with(known) {
                bytes[at] = b'-';
            }
        }
    }
    bytes
}
