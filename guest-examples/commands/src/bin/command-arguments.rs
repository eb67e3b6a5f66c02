//! A plain program as a task: prints its arguments, one a line, its own name first.

fn main() {
    std::env::args().for_each(|argument| println!("{argument}"));
}
