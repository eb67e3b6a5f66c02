//! What a guest can reach: the linker that offers what `offered.rs` lists.
//!
//! Invariants: [`OFFERED`](super::offered::OFFERED) and [`build`] agree (a test holds them together), so a component that
//! passes the inspection links. Interfaces that are answered by `wasmtime-wasi` mark what they
//! observe in the accessor, which runs at every call.

use wasmtime::Engine;
use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random, sockets};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsCtxView};

use super::bindings::wasmq::task;
use super::observed::Observation;
use super::state::State;

/// The `wasi:io` interfaces work on nothing but the table of resources.
struct Io;

impl HasData for Io {
    type Data<'a> = &'a mut ResourceTable;
}

/// Builds the linker that all components share.
pub(super) fn build(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    add_own(&mut linker)?;
    add_io(&mut linker)?;
    add_cli(&mut linker)?;
    add_files_and_sockets(&mut linker)?;
    Ok(linker)
}

type Itself = HasSelf<State>;

fn add_own(l: &mut Linker<State>) -> wasmtime::Result<()> {
    task::types::add_to_linker::<State, Itself>(l, |state| state)?;
    task::host::add_to_linker::<State, Itself>(l, |state| state)?;
    clocks::wall_clock::add_to_linker::<State, Itself>(l, |state| state)?;
    clocks::monotonic_clock::add_to_linker::<State, Itself>(l, |state| state)?;
    random::random::add_to_linker::<State, Itself>(l, |state| state)?;
    random::insecure::add_to_linker::<State, Itself>(l, |state| state)?;
    random::insecure_seed::add_to_linker::<State, Itself>(l, |state| state)
}

fn add_io(l: &mut Linker<State>) -> wasmtime::Result<()> {
    use wasmtime_wasi::p2::bindings::io;
    io::error::add_to_linker::<State, Io>(l, |state| &mut state.table)?;
    io::poll::add_to_linker::<State, Io>(l, |state| &mut state.table)?;
    io::streams::add_to_linker::<State, Io>(l, |state| &mut state.table)
}

fn add_cli(l: &mut Linker<State>) -> wasmtime::Result<()> {
    cli::environment::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::exit::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::stdin::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::stdout::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::stderr::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::terminal_input::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::terminal_output::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::terminal_stdin::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::terminal_stdout::add_to_linker::<State, Itself>(l, |state| state)?;
    cli::terminal_stderr::add_to_linker::<State, Itself>(l, |state| state)
}

fn files(state: &mut State) -> WasiFilesystemCtxView<'_> {
    WasiFilesystemCtxView { ctx: &mut state.files, table: &mut state.table }
}

fn observed_files(state: &mut State) -> WasiFilesystemCtxView<'_> {
    state.observe(Observation::Files);
    files(state)
}

fn sockets(state: &mut State) -> WasiSocketsCtxView<'_> {
    let (ctx, table) = state.sockets();
    WasiSocketsCtxView { ctx, table }
}

fn denied_sockets(state: &mut State) -> WasiSocketsCtxView<'_> {
    state.observe(Observation::Network);
    state.deny("the network");
    sockets(state)
}

fn add_files_and_sockets(l: &mut Linker<State>) -> wasmtime::Result<()> {
    // The list of directories is empty for everybody, so asking for it is no observation.
    filesystem::preopens::add_to_linker::<State, WasiFilesystem>(l, files)?;
    filesystem::types::add_to_linker::<State, WasiFilesystem>(l, observed_files)?;
    // The handle of the network is a constant; so are the names of errors.
    sockets::instance_network::add_to_linker::<State, WasiSockets>(l, sockets)?;
    let options = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<State, WasiSockets>(l, &options, sockets)?;
    sockets::tcp::add_to_linker::<State, WasiSockets>(l, denied_sockets)?;
    sockets::udp::add_to_linker::<State, WasiSockets>(l, denied_sockets)?;
    sockets::tcp_create_socket::add_to_linker::<State, WasiSockets>(l, denied_sockets)?;
    sockets::udp_create_socket::add_to_linker::<State, WasiSockets>(l, denied_sockets)?;
    sockets::ip_name_lookup::add_to_linker::<State, WasiSockets>(l, denied_sockets)
}
