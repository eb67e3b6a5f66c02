//! A task: Markdown in, HTML out that is safe to put into a page whoever wrote the Markdown.

mod render;

use exports::wasmq::task::handler::Guest;
use wasmq::task::types::{Failure, Invocation, Problem};

wit_bindgen::generate!({ path: "../../wit", world: "task" });

struct Markdown;

impl Guest for Markdown {
    fn handle(_invocation: Invocation, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let markdown = str::from_utf8(&payload).map_err(|error| {
            Failure::Permanent(Problem {
                code: "not-utf8".to_owned(),
                message: format!("the text is not UTF-8 at byte offset {}", error.valid_up_to()),
                details: None,
            })
        })?;
        Ok(render::to_safe_html(markdown).into_bytes())
    }
}

export!(Markdown);
