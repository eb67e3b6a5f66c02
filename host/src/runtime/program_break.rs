//! Where a program written in Go keeps the end of its heap.
//!
//! Go's runtime for wasm has `sbrk` over the instruction that grows the memory, with two variables side by side:
//! `bloc`, up to where the heap is used, and `blocMax`, up to where it has memory. Their addresses are constants
//! in the code of `sbrk`, which is recognised by what it computes: it rounds its argument to pages and adds it to
//! one of the two. Names may have been stripped and are not looked at.
//!
//! Invariant: an answer is given only when exactly one function looks like that.

use wasmparser::{FunctionBody, Operator, Parser, Payload};

/// What the linker of Go writes into every program.
const BUILD_ID: &str = "go:buildid";
/// The most instructions of `sbrk`; it has about 150.
const MAX_LENGTH: usize = 1000;

/// The addresses of the two variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProgramBreak {
    pub(super) bloc: u64,
    pub(super) max: u64,
}

/// Looks for the variables of a program in Go; `None` for other programs.
pub(super) fn of_go(bytes: &[u8]) -> Option<ProgramBreak> {
    let mut is_go = false;
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.ok()? {
            Payload::CustomSection(section) => is_go |= section.name() == BUILD_ID,
            Payload::CodeSectionEntry(body) if is_go => found.extend(of_sbrk(&body)),
            _ => {}
        }
    }
    found.dedup();
    match found.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// The variables, if this is the code of `sbrk`.
fn of_sbrk(body: &FunctionBody<'_>) -> Option<ProgramBreak> {
    let reader = body.get_operators_reader().ok()?;
    let code: Vec<Operator<'_>> = reader.into_iter().take(MAX_LENGTH + 1).collect::<Result<_, _>>().ok()?;
    if code.len() > MAX_LENGTH || !code.windows(7).any(rounds_up) {
        return None;
    }
    let bloc = code.windows(8).find_map(added_to)?;
    let neighbours = [bloc.checked_add(8)?, bloc.checked_sub(8)?];
    let max = neighbours.into_iter().find(|address| code.windows(2).any(|pair| addressed(pair) == Some(*address)))?;
    Some(ProgramBreak { bloc, max })
}

/// `(… + pageSize - 1) & -pageSize`
fn rounds_up(code: &[Operator<'_>]) -> bool {
    matches!(
        code,
        [
            Operator::I64Add,
            Operator::I64Const { value: -1 },
            Operator::I64Add,
            Operator::I64Const { value: 0 },
            Operator::LocalGet { .. },
            Operator::I64Sub,
            Operator::I64And,
        ]
    )
}

/// The address of a global variable, as Go's compiler writes it.
fn addressed(pair: &[Operator<'_>]) -> Option<u64> {
    let [Operator::I64Const { value }, Operator::I32WrapI64] = pair else { return None };
    u64::try_from(*value).ok()
}

/// The address of a variable that a local variable is added to.
fn added_to(code: &[Operator<'_>]) -> Option<u64> {
    let (target, rest) = code.split_at_checked(2)?;
    let (source, rest) = rest.split_at_checked(2)?;
    let adds = matches!(
        rest,
        [Operator::I64Load { .. }, Operator::LocalGet { .. }, Operator::I64Add, Operator::I64Store { .. }]
    );
    addressed(target).filter(|address| adds && addressed(source) == Some(*address))
}
