//! Cables that are made for a run: veth pairs between network namespaces that have no name. All of it ends with the process.

use std::io;
use std::process::{Command, Stdio};

use crate::socket::Namespace;

/// Most bytes of headers in a frame: the MTU of the interfaces is that of packets and this.
const HEADERS_BYTES: u32 = 104;

/// An end of a cable: where it is, and its name there.
#[derive(Clone, Copy, Debug)]
pub struct CableEnd<'a> {
    /// Namespace.
    pub namespace: &'a Namespace,
    /// Name.
    pub name: &'a str,
}

/// Lays a cable between two namespaces: a veth pair, up, without addresses. `mtu`: payload of a full packet.
///
/// # Errors
/// `ip` is missing, or it may not; what it said.
pub fn lay(ends: [CableEnd<'_>; 2], mtu: u32) -> io::Result<()> {
    let [a, b] = ends;
    let bytes = (mtu + HEADERS_BYTES).to_string();
    let far = b.namespace.path();
    let add = [
        "link", "add", "name", a.name, "mtu", &bytes, "type", "veth", "peer", "name", b.name, "mtu", &bytes,
        "netns", &far,
    ];
    a.namespace.within(|| ip(&add))??;
    for end in ends {
        end.namespace.within(|| {
            // Else the kernel sends of its own there; where there is no IPv6, it does not.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", end.name), "1");
            ip(&["link", "set", "dev", end.name, "up"])
        })??;
    }
    Ok(())
}

/// Runs `ip` in the namespace of this thread.
fn ip(arguments: &[&str]) -> io::Result<()> {
    let done = Command::new("ip").args(arguments).stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(format!("ip {}: {}", arguments.join(" "), said.trim())))
}
