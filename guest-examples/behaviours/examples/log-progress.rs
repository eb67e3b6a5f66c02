//! Writes one log record of each level and reports progress, with control characters in the texts.

use behaviours::{
    Failure, Invocation, Payload,
    host::{self, Level},
};

behaviours::task!(handle);

fn handle(invocation: Invocation, _: Payload) -> Result<Payload, Failure> {
    let levels = [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error];
    let total = levels.len() as u64;
    for (done, level) in (1..).zip(levels) {
        let fields = [
            ("invocation".to_owned(), invocation.id.clone()),
            ("odd \x1b[31mfield\n".to_owned(), "nul \0, bell \x07".to_owned()),
        ];
        host::log(level, &format!("a record at level {level:?}\r\n\x1b[2Jand more"), &fields);
        host::progress(done, total, &format!("record {done}\x1b]0;title\x07"));
    }
    Ok(b"ok".to_vec())
}
