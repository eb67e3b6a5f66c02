//! Core modules, which most toolchains make, turned into the components that the host runs.
//!
//! Two kinds are taken: a program for `wasm32-wasip1` (it has `_start`) becomes a command, and a module that
//! carries the type of its component, as generators of bindings leave it, becomes what that type says. Both get
//! the official adapter from wasip1 to WASI 0.2. What the adapter does not do well is mended in the module
//! (`rewrite.rs`, `heap_end.rs`), also where the module brings bindings along: the encoder puts the types of both
//! together.
//!
//! Invariants: the same module gives the same component, as long as the adapter is the same. Any bytes give a
//! component or a sentence, never a panic.

use std::borrow::Cow;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER as COMMAND, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as REACTOR,
};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::heap_end;
use super::program_break;
use super::rejection::Rejection;
use super::rewrite::{self, EXIT, EXIT_WIT, PROC_EXIT, REALLOC};
use super::validate::validate;

pub(super) use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as WASIP1;

/// What WASI called itself before wasip1.
const BEFORE_WASIP1: &str = "wasi_unstable";
/// What generators of bindings name the section in which the type of the component is.
const COMPONENT_TYPE: &str = "component-type";

/// What a core module says of itself.
#[derive(Debug, Default)]
pub(super) struct CoreModule {
    /// What it imports: module and name.
    pub(super) imports: Vec<(String, String)>,
    has_start: bool,
    has_realloc: bool,
    has_component_type: bool,
}

/// Whether a file is a core module; what begins otherwise is for others to judge.
pub(super) fn is_core_module(bytes: &[u8]) -> bool {
    let first = Parser::new(0).parse_all(bytes).next();
    matches!(first, Some(Ok(Payload::Version { encoding: Encoding::Module, .. })))
}

impl CoreModule {
    /// Reads the sections that matter.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Rejection> {
        validate(bytes)?;
        let mut found = Self::default();
        let mut payloads = Parser::new(0).parse_all(bytes);
        payloads.try_for_each(|payload| found.add(&payload?)).map_err(|error| Rejection::malformed(&error))?;
        Ok(found)
    }

    fn add(&mut self, payload: &Payload<'_>) -> wasmparser::Result<()> {
        match payload {
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    let import = import?;
                    self.imports.push((import.module.to_owned(), import.name.to_owned()));
                }
            }
            Payload::ExportSection(section) => {
                for export in section.clone() {
                    let name = export?.name;
                    self.has_start |= name == "_start";
                    self.has_realloc |= name == REALLOC;
                }
            }
            Payload::CustomSection(section) => self.has_component_type |= section.name().starts_with(COMPONENT_TYPE),
            _ => {}
        }
        Ok(())
    }

    fn imports_function(&self, module: &str, name: &str) -> bool {
        self.imports.iter().any(|(from, function)| from == module && function == name)
    }

    /// Every reason why it cannot be adapted that can be seen without trying.
    pub(super) fn problems(&self) -> Vec<Rejection> {
        let mut problems = Vec::new();
        if self.imports.iter().any(|(module, _)| module == BEFORE_WASIP1) {
            problems.push(Rejection::BeforeWasip1);
        }
        let foreign = |module: &str| ![WASIP1, BEFORE_WASIP1].contains(&module);
        let imports: Vec<String> = self
            .imports
            .iter()
            .filter(|(module, _)| foreign(module) && !self.has_component_type)
            .map(|(module, name)| format!("{module}.{name}"))
            .collect();
        if !imports.is_empty() {
            problems.push(Rejection::ForeignImports { imports });
        }
        if !self.has_start && !self.has_component_type {
            problems.push(Rejection::NoStart);
        }
        problems
    }

    /// Turns the module, which these are the bytes of, into a component.
    ///
    /// # Errors
    /// The first reason why that cannot be done.
    pub(super) fn adapt(&self, bytes: &[u8]) -> Result<Vec<u8>, Rejection> {
        match self.problems().into_iter().next() {
            Some(problem) => Err(problem),
            None => encode(bytes, self).map_err(|reason| Rejection::NotAdaptable { reason }),
        }
    }
}

/// A sentence in place of the chain of an error that the encoder made.
fn sentence(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}

fn encode(bytes: &[u8], module: &CoreModule) -> Result<Vec<u8>, String> {
    let adapter = if module.has_start { COMMAND } else { REACTOR };
    ComponentEncoder::default()
        .module(&mended(bytes, module)?)
        .and_then(|encoder| encoder.adapter(WASIP1, adapter))
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(sentence)
}

/// The program with what the adapter lacks, and the program has not got itself.
fn mended(bytes: &[u8], module: &CoreModule) -> Result<Vec<u8>, String> {
    // One with memory for the adapter to ask for shares none with it.
    let (bytes, heap) = if module.has_realloc {
        (Cow::Borrowed(bytes), None)
    } else {
        (heap_end::bounded(bytes), program_break::of_go(bytes)?)
    };
    let mends_exit = module.imports_function(WASIP1, PROC_EXIT) && !module.imports_function(EXIT.0, EXIT.1);
    let mut program = rewrite::rewrite(&bytes, heap, mends_exit).map_err(sentence)?;
    if mends_exit {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("exit.wit", EXIT_WIT).map_err(sentence)?;
        let world = resolve.select_world(&[package], Some("program")).map_err(sentence)?;
        embed_component_metadata(&mut program, &resolve, world, StringEncoding::UTF8).map_err(sentence)?;
    }
    Ok(program)
}
