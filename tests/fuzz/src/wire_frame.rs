//! Frames from a socket: reading ends, blocking and async readers agree, and what was read is written the
//! same.

use crate::wire::Frame;

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut stream = bytes;
    let mut asynchronous = bytes;
    loop {
        let rest = stream;
        // A short input that announces a long frame makes both readers fail alike; no need to reserve it twice.
        let frame = Frame::read(&mut stream);
        let other = block_on(Frame::read_async(&mut asynchronous));
        match (frame, other) {
            (Ok(Some(frame)), Ok(Some(other))) => {
                assert_eq!(frame, other);
                let mut again = Vec::new();
                frame.encode(&mut again);
                assert_eq!(again, rest[..rest.len() - stream.len()]);
            }
            (Ok(None), Ok(None)) => return assert!(rest.is_empty()),
            (Err(error), Err(other)) => return assert_eq!(error.to_string(), other.to_string()),
            (frame, other) => panic!("{frame:?} but {other:?}"),
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
