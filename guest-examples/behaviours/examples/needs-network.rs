//! Needs a network: fails when it has none, and believes that another attempt is worth it.

use behaviours::{Failure, Invocation, Payload, retryable};
use wasip2::sockets::{network::IpAddressFamily, tcp_create_socket::create_tcp_socket};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    match create_tcp_socket(IpAddressFamily::Ipv4) {
        Ok(_) => Ok(payload),
        Err(code) => Err(retryable("no-network", format!("no socket: {}", code.name()))),
    }
}
