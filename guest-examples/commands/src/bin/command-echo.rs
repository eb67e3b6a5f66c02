//! A plain program as a task: copies its payload from stdin to stdout.

use std::io;

fn main() -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), &mut io::stdout().lock())?;
    Ok(())
}
