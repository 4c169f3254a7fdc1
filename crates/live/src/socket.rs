//! Packet sockets (packet(7)): every frame of an interface, with its Ethernet header. All that is unsafe is here: calls of the C library
//! with pointers to what lives in this file, or in the caller's hands, for as long as the call takes.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use tailback_proto::wire::MacAddress;

/// The longest frame that is read: what an offload may merge, and more.
pub const MAX_FRAME_BYTES: usize = 1 << 17;
/// Memory of the kernel for frames that wait to be read, bytes.
const RECEIVE_BUFFER_BYTES: libc::c_int = 8 << 20;
const VLAN_TAG_BYTES: usize = 4;

/// A frame that was read.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Bytes of it in the buffer.
    pub length: usize,
    /// Its checksum is left to a NIC that there is not: its sender's offload is on.
    pub unfinished: bool,
}

/// A socket on an interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    /// Address of the interface.
    pub mac: MacAddress,
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

impl PacketSocket {
    /// Opens a socket on an interface, `eth0`, or `NS/eth0` in a network namespace of `ip netns`. It sees all frames, whoever they are
    /// for, but for those that it sends.
    ///
    /// # Errors
    /// There is no such interface or namespace; it may not be read (CAP_NET_RAW).
    pub fn open(name: &str) -> io::Result<PacketSocket> {
        let Some((namespace, interface)) = name.split_once('/') else { return Self::open_here(name) };
        let there = Namespace(File::open(format!("/run/netns/{namespace}"))?);
        there.within(|| Self::open_here(interface))?
    }

    /// The same in a namespace that is at hand.
    ///
    /// # Errors
    /// As [`PacketSocket::open`].
    pub fn open_in(namespace: &Namespace, interface: &str) -> io::Result<PacketSocket> {
        namespace.within(|| Self::open_here(interface))?
    }

    fn open_here(interface: &str) -> io::Result<PacketSocket> {
        let name = CString::new(interface).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
        // SAFETY: the name ends with a 0.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Without a protocol it gets nothing until it is bound: else it would get frames of other interfaces.
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor is new, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let set = |level, option, value: libc::c_int| {
            // SAFETY: the value lives until the call returns.
            checked(unsafe {
                libc::setsockopt(
                    fd.as_raw_fd(),
                    level,
                    option,
                    (&raw const value).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            })
        };
        set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        // More than the system's limit where that is allowed.
        if set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES).is_err() {
            set(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES)?;
        }
        // SAFETY: plain data, for which zeros are values.
        let mut request: libc::packet_mreq = unsafe { zeroed() };
        request.mr_ifindex = index as libc::c_int;
        request.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
        // SAFETY: the request lives until the call returns.
        checked(unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                size_of::<libc::packet_mreq>() as libc::socklen_t,
            )
        })?;
        // SAFETY: plain data, for which zeros are values.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = all;
        address.sll_ifindex = index as libc::c_int;
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address and its length live until the calls return.
        checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        checked(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut length) })?;
        let mut mac = [0; 6];
        mac.copy_from_slice(&address.sll_addr[..6]);
        Ok(PacketSocket { fd, mac: MacAddress(mac) })
    }

    /// Reads a frame into a buffer of [`MAX_FRAME_BYTES`]; none: there is none now. A VLAN tag that the kernel has taken off is put
    /// back.
    ///
    /// # Errors
    /// The interface is gone or down.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let room = buffer.len() - VLAN_TAG_BYTES;
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: room };
        let mut control = [0u64; 8];
        // SAFETY: plain data, for which zeros are values.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: buffer and control live until the call returns, and their lengths are theirs.
        let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, 0) };
        if length < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        let mut received = Received { length: length as usize, unfinished: false };
        // SAFETY: the kernel has filled in the message; the header is looked at where the macros say that there is one.
        let auxiliary: Option<libc::tpacket_auxdata> = unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            let fits = !header.is_null()
                && (*header).cmsg_level == libc::SOL_PACKET
                && (*header).cmsg_type == libc::PACKET_AUXDATA;
            fits.then(|| libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned())
        };
        if let Some(auxiliary) = auxiliary {
            received.unfinished = auxiliary.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
            if auxiliary.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && received.length >= 12 {
                buffer.copy_within(12..received.length, 12 + VLAN_TAG_BYTES);
                buffer[12..14].copy_from_slice(&auxiliary.tp_vlan_tpid.to_be_bytes());
                buffer[14..16].copy_from_slice(&auxiliary.tp_vlan_tci.to_be_bytes());
                received.length += VLAN_TAG_BYTES;
            }
        }
        Ok(Some(received))
    }

    /// Frames that came while the kernel's memory for this socket was full, since the last time that it was asked.
    pub fn take_drops(&self) -> u64 {
        // SAFETY: plain data, for which zeros are values.
        let mut statistics: libc::tpacket_stats = unsafe { zeroed() };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the statistics and their length live until the call returns.
        let done = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if done == 0 {
            statistics.tp_drops as u64
        } else {
            0
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// `EMSGSIZE`: it is too long for the interface; `ENOBUFS`, `EAGAIN`: the interface does not take it now; others: it is gone or down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame lives until the call returns.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

/// Waits until one of the sockets has a frame, or for so long. Of more than 64 only the first are looked at.
pub fn wait<'a>(sockets: impl IntoIterator<Item = &'a PacketSocket>, most: Duration) {
    let mut polled = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 64];
    let mut count = 0;
    for (slot, socket) in polled.iter_mut().zip(sockets) {
        slot.fd = socket.fd.as_raw_fd();
        count += 1;
    }
    let time = libc::timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos() as _ };
    // SAFETY: both live until the call returns. An interrupted call is as one that waited shorter.
    unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const time, std::ptr::null()) };
}

/// A network namespace. One that was made here, and all interfaces in it, end with its last descriptor: with the process, however that
/// ends.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Makes one without a name.
    ///
    /// # Errors
    /// It is not permitted (CAP_SYS_ADMIN).
    pub fn make() -> io::Result<Namespace> {
        let home = Self::current()?;
        // SAFETY: no pointers. It is this thread's namespace that changes, and back again at once.
        checked(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
        let made = Self::current();
        home.enter()?;
        made
    }

    fn current() -> io::Result<Namespace> {
        File::open("/proc/thread-self/ns/net").map(Namespace)
    }

    fn enter(&self) -> io::Result<()> {
        // SAFETY: no pointers.
        checked(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) }).map(|_| ())
    }

    /// Does something there, in this thread, and comes back.
    ///
    /// # Errors
    /// It may not be entered, or left.
    pub fn within<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let home = Self::current()?;
        self.enter()?;
        let done = act();
        home.enter()?;
        Ok(done)
    }

    /// Its path, for other processes as long as this one has it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}
