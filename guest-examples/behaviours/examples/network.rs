//! Tries to open a TCP connection to 127.0.0.1, at the port that its payload names, and returns as
//! JSON how far it came.
//!
//! It speaks `wasi:sockets` itself, as `std::net` does not link with every wasi-libc.

use behaviours::{Failure, Invocation, Payload, json, number, permanent};
use serde_json::json;
use wasip2::sockets::{
    instance_network::instance_network,
    network::{ErrorCode, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress},
    tcp_create_socket::create_tcp_socket,
};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let port = u16::try_from(number(&payload)?).map_err(|_| permanent("bad-payload", "a port is at most 65535"))?;
    Ok(json(&match connect(port) {
        Ok(()) => json!({ "connected": true }),
        Err((step, code)) => json!({ "connected": false, "step": step, "error": code.name() }),
    }))
}

fn connect(port: u16) -> Result<(), (&'static str, ErrorCode)> {
    let socket = create_tcp_socket(IpAddressFamily::Ipv4).map_err(|code| ("create", code))?;
    let address = Ipv4SocketAddress { port, address: (127, 0, 0, 1) };
    socket.start_connect(&instance_network(), IpSocketAddress::Ipv4(address)).map_err(|code| ("start", code))?;
    socket.subscribe().block();
    socket.finish_connect().map_err(|code| ("finish", code))?;
    Ok(())
}
