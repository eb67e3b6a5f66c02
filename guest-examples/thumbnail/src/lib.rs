//! A task: a PNG or JPEG in, a smaller PNG out.
//!
//! The longer side of the result is at most 256 pixels, or what the invocation's metadata say under
//! `max-side`. A picture that is smaller already keeps its size.

mod decode;
mod picture;

use exports::wasmq::task::handler::Guest;
use wasmq::task::types::{Failure, Invocation, Problem};

wit_bindgen::generate!({ path: "../../wit", world: "task" });

const DEFAULT_MAX_SIDE: u32 = 256;
const LARGEST_MAX_SIDE: u32 = 4096;

struct Thumbnail;

impl Guest for Thumbnail {
    fn handle(invocation: Invocation, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let max_side = max_side(&invocation.metadata).map_err(|message| permanent("bad-max-side", message))?;
        let picture = decode::picture(&payload).map_err(|message| permanent("bad-image", message))?;
        Ok(picture.shrunk_to(max_side).to_png())
    }
}

export!(Thumbnail);

fn max_side(metadata: &[(String, String)]) -> Result<u32, String> {
    let Some((_, value)) = metadata.iter().find(|(key, _)| key == "max-side") else {
        return Ok(DEFAULT_MAX_SIDE);
    };
    match value.parse() {
        Ok(side @ 1..=LARGEST_MAX_SIDE) => Ok(side),
        _ => Err(format!(
            "the metadata key max-side is {value:?}; it must be a number of pixels from 1 to \
             {LARGEST_MAX_SIDE}"
        )),
    }
}

/// The same bytes will be refused again: another attempt cannot help.
fn permanent(code: &str, message: String) -> Failure {
    Failure::Permanent(Problem { code: code.to_owned(), message, details: None })
}

#[cfg(test)]
mod tests {
    use super::max_side;

    #[test]
    fn the_side_comes_from_the_metadata_or_is_256() {
        let metadata = |value: &str| vec![("max-side".to_owned(), value.to_owned())];
        assert_eq!(max_side(&[]), Ok(256));
        assert_eq!(max_side(&metadata("64")), Ok(64));
        for wrong in ["0", "-1", "4097", "big", ""] {
            let message = max_side(&metadata(wrong)).unwrap_err();
            assert!(message.contains(&format!("{wrong:?}")), "{message}");
        }
    }
}
