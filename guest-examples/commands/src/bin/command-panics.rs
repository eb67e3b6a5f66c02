//! A plain program as a task: panics with its payload as the message.

use std::io;

fn main() -> io::Result<()> {
    let payload = io::read_to_string(io::stdin().lock())?;
    panic!("command-panics was asked to: {payload}");
}
