//! Where a program written in Go keeps the end of its heap.
//!
//! Go's runtime for wasm has `sbrk` over the instruction that grows the memory, with two variables side by side:
//! `bloc`, up to where the heap is used, and `blocMax`, up to where it has memory. Their addresses are constants
//! in the code of `sbrk`, which is recognised by what it computes: it rounds its argument to pages and adds it to
//! one of the two. Names may have been stripped and are not looked at.
//!
//! So has every program of Go 1.24 and later; before, `sbrk` took what the instruction gave, and the adapter is no
//! danger to it.
//!
//! Invariant: an answer is given only when exactly one function looks like that. A program that says of itself
//! that it was made by Go and has none (who optimizes a module afterwards changes its code) is refused.

use wasmparser::{CustomSectionReader, FunctionBody, KnownCustom, Operator, Parser, Payload};

/// What the linker of Go writes into every program, and `wasm-tools strip` removes.
const BUILD_ID: &str = "go:buildid";
/// The first minor version of Go 1 that has the two variables.
const FIRST_WITH_VARIABLES: u32 = 24;
/// The most bytes of `sbrk`; it has about 500.
const MAX_BYTES: usize = 2048;

/// The addresses of the two variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProgramBreak {
    pub(super) bloc: u64,
    pub(super) max: u64,
}

/// Why a program cannot be taken.
const NOT_FOUND: &str = "it was made by Go, and the end of its heap, which the adapter has to move, is not found in its \
    code; take the file as `go build` writes it, not optimized further (by wasm-opt, for example), or export cabi_realloc";

/// Looks for the variables of a program in Go; `None` for programs that the adapter does not endanger.
///
/// # Errors
/// It is a program in Go, but its variables are not found.
pub(super) fn of_go(bytes: &[u8]) -> Result<Option<ProgramBreak>, String> {
    let (mut is_go, mut has_variables) = (false, true);
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        match payload {
            Payload::CustomSection(section) => {
                is_go |= section.name() == BUILD_ID;
                has_variables &= minor_version(&section).is_none_or(|minor| minor >= FIRST_WITH_VARIABLES);
            }
            Payload::CodeSectionEntry(body) if may_be_sbrk(&body) => found.extend(of_sbrk(&body)),
            _ => {}
        }
    }
    found.dedup();
    match found.as_slice() {
        [one] => Ok(Some(*one)),
        [] if !is_go || !has_variables => Ok(None),
        _ => Err(NOT_FOUND.to_owned()),
    }
}

/// The N of `go1.N.P`, where the linker of Go has noted it.
fn minor_version(section: &CustomSectionReader<'_>) -> Option<u32> {
    let KnownCustom::Producers(fields) = section.as_known() else { return None };
    let languages = fields.into_iter().map_while(Result::ok).filter(|field| field.name == "language");
    let mut values = languages.flat_map(|field| field.values.into_iter().map_while(Result::ok));
    let go = values.find(|value| value.name == "Go")?;
    go.version.strip_prefix("go1.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether the bytes of what [`rounds_up`] looks for are there at all, in a function that is no longer than
/// `sbrk`. Of large programs hardly any are looked at more closely.
fn may_be_sbrk(body: &FunctionBody<'_>) -> bool {
    // i64.add, i64.const -1, i64.add
    const BYTES: [u8; 4] = [0x7c, 0x42, 0x7f, 0x7c];
    let bytes = body.as_bytes();
    bytes.len() <= MAX_BYTES && bytes.windows(BYTES.len()).any(|bytes| bytes == BYTES)
}

/// The variables, if this is the code of `sbrk`.
fn of_sbrk(body: &FunctionBody<'_>) -> Option<ProgramBreak> {
    let reader = body.get_operators_reader().ok()?;
    let mut code: Vec<Operator<'_>> = reader.into_iter().collect::<Result<_, _>>().ok()?;
    // Some versions of Go keep a value on the way, which changes nothing for what comes next.
    code.retain(|operator| !matches!(operator, Operator::LocalTee { .. }));
    if !code.windows(7).any(rounds_up) {
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
