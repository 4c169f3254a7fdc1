//! Packet sockets (packet(7)): every frame of an interface, with its Ethernet header. All unsafe code of the crate is here: calls of the
//! C library with pointers to values of this file or of the caller that outlive the call, and the ring that the kernel puts frames into
//! (Documentation/networking/packet_mmap.rst).
//!
//! The ring is TPACKET_V2: a frame can be read as soon as it is there. TPACKET_V3 hands over blocks of frames when they are full or when a
//! timer of a millisecond or more fires, which is longer than frames wait in a queue. Each frame is sent by one call: a ring for sending
//! costs as much.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tailback_proto::wire::MacAddress;

const VLAN_TAG_BYTES: usize = 4;
/// Unit in which the kernel allocates a ring.
const BLOCK_BYTES: usize = 1 << 17;
/// Bytes of a slot beside a frame's payload: the kernel's header, room for a VLAN tag, and the Ethernet header.
const SLOT_OVERHEAD_BYTES: usize = 128;

/// Metadata of a frame that was read.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// When the kernel got it: nanoseconds of the wall clock.
    pub at_ns: u64,
    /// Its checksum is not computed: its sender left that to NIC offload, and it passed no NIC.
    pub unfinished: bool,
    /// It is longer than the interface's MTU allows: only its beginning was read.
    pub cut: bool,
}

/// A socket on an interface.
#[derive(Debug)]
pub struct PacketSocket {
    ring: Ring,
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

/// Sets an option of packet sockets.
fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let (place, length) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value lives until the call returns, and the length is its own.
    checked(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, place, length) }).map(|_| ())
}

/// Reads an option, which is plain data.
fn get<T: Copy>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    // SAFETY: plain data, for which zeros are values.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value and its length live until the call returns.
    checked(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value)
}

/// The longest packet that an interface sends, without the Ethernet header.
fn mtu(fd: &OwnedFd, name: &CString) -> io::Result<usize> {
    // SAFETY: plain data, for which zeros are values.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.as_bytes()).take(libc::IFNAMSIZ - 1) {
        *place = *byte as libc::c_char;
    }
    // SAFETY: the request lives until the call returns.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) })?;
    // SAFETY: the call has filled in this field of the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as usize)
}

/// Memory that the kernel puts frames into, each in a slot of its own. A slot belongs to the kernel or to us, as its first word says.
#[derive(Debug)]
struct Ring {
    memory: NonNull<u8>,
    slot_bytes: usize,
    slots: usize,
    next: usize,
}

// SAFETY: the memory is this ring's alone, and is changed through `&mut` only.
unsafe impl Send for Ring {}
// SAFETY: as above; nothing is read through `&`.
unsafe impl Sync for Ring {}

impl Ring {
    /// A ring of `bytes`, or of one block where a slot is larger.
    fn new(fd: &OwnedFd, mtu: usize, bytes: usize) -> io::Result<Ring> {
        let slot_bytes = (mtu + SLOT_OVERHEAD_BYTES).next_power_of_two();
        let block_bytes = BLOCK_BYTES.max(slot_bytes);
        let blocks = (bytes / block_bytes).max(1);
        let slots = blocks * block_bytes / slot_bytes;
        set(fd, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
        set(fd, libc::PACKET_RESERVE, &(VLAN_TAG_BYTES as libc::c_int))?;
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: slot_bytes as libc::c_uint,
            tp_frame_nr: slots as libc::c_uint,
        };
        set(fd, libc::PACKET_RX_RING, &request)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, of the size asked for, at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), blocks * block_bytes, protection, flags, fd.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Ring { memory, slot_bytes, slots, next: 0 })
    }

    fn next<T>(&mut self, act: impl FnOnce(&[u8], Received) -> T) -> Option<T> {
        // SAFETY: `next` is below `slots`, so the slot is within the mapping. It begins with its status, an atomic word to the kernel
        // and to us; it is aligned to a page, or to a power of two above the header's alignment.
        let (slot, status) = unsafe {
            let slot = self.memory.as_ptr().add(self.next * self.slot_bytes);
            (slot, AtomicU32::from_ptr(slot.cast()))
        };
        let state = status.load(Ordering::Acquire);
        if state & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is ours until we change its status, and begins with a header that the kernel has written.
        let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
        let begin = (header.tp_mac as usize).clamp(VLAN_TAG_BYTES, self.slot_bytes);
        let end = (begin + header.tp_snaplen as usize).min(self.slot_bytes);
        // SAFETY: at most from behind the header to the end of the slot, which is ours.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(slot.add(begin - VLAN_TAG_BYTES), end - begin + VLAN_TAG_BYTES)
        };
        let mut frame = &mut bytes[VLAN_TAG_BYTES..];
        if state & libc::TP_STATUS_VLAN_VALID != 0 && frame.len() >= 12 {
            frame = bytes;
            frame.copy_within(VLAN_TAG_BYTES..VLAN_TAG_BYTES + 12, 0);
            frame[12..14].copy_from_slice(&header.tp_vlan_tpid.to_be_bytes());
            frame[14..16].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
        }
        let received = Received {
            at_ns: header.tp_sec as u64 * 1_000_000_000 + header.tp_nsec as u64,
            unfinished: state & libc::TP_STATUS_CSUMNOTREADY != 0,
            cut: header.tp_len > header.tp_snaplen,
        };
        let done = act(frame, received);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        Some(done)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`, which nothing else uses.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.slots * self.slot_bytes) };
    }
}

impl PacketSocket {
    /// Opens a socket on an interface, `eth0`, or `NS/eth0` in a network namespace of `ip netns`. It sees all frames, whatever their
    /// destination, except those that it sends. `ring_bytes`: room for frames that wait to be read, a power of two.
    ///
    /// # Errors
    /// There is no such interface or namespace, or reading is not permitted (CAP_NET_RAW).
    pub fn open(name: &str, ring_bytes: usize) -> io::Result<PacketSocket> {
        let Some((namespace, interface)) = name.split_once('/') else {
            return Self::open_here(name, ring_bytes);
        };
        let there = Namespace(File::open(format!("/run/netns/{namespace}"))?);
        there.within(|| Self::open_here(interface, ring_bytes))?
    }

    /// The same in an open namespace.
    ///
    /// # Errors
    /// As [`PacketSocket::open`].
    pub fn open_in(namespace: &Namespace, interface: &str, ring_bytes: usize) -> io::Result<PacketSocket> {
        namespace.within(|| Self::open_here(interface, ring_bytes))?
    }

    fn open_here(interface: &str, ring_bytes: usize) -> io::Result<PacketSocket> {
        let name = CString::new(interface).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
        // SAFETY: the name ends with a 0.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // With protocol 0 it gets no frame before it is bound; it would get those of other interfaces.
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor is new, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        set(&fd, libc::PACKET_IGNORE_OUTGOING, &1)?;
        let ring = Ring::new(&fd, mtu(&fd, &name)?, ring_bytes)?;
        // SAFETY: plain data, for which zeros are values.
        let mut request: libc::packet_mreq = unsafe { zeroed() };
        request.mr_ifindex = index as libc::c_int;
        request.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
        set(&fd, libc::PACKET_ADD_MEMBERSHIP, &request)?;
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
        Ok(PacketSocket { ring, fd, mac: MacAddress(mac) })
    }

    /// Calls `act` with the next frame, which is in the kernel's memory. `None`: there is no frame now. A VLAN tag that the kernel took
    /// off is put back.
    pub fn receive<T>(&mut self, act: impl FnOnce(&[u8], Received) -> T) -> Option<T> {
        self.ring.next(act)
    }

    /// Frames that came while the ring was full, since the last call.
    ///
    /// # Errors
    /// The interface is gone or down.
    pub fn take_drops(&self) -> io::Result<u64> {
        let broken: libc::c_int = get(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR)?;
        if broken != 0 {
            return Err(io::Error::from_raw_os_error(broken));
        }
        let statistics: libc::tpacket_stats = get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(statistics.tp_drops as u64)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// `EMSGSIZE`: it is too long for the interface; `ENOBUFS`, `EAGAIN`: the interface does not accept it now; others: it is gone or down.
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

/// Waits until one of the sockets has a frame, but no longer than `most`. Looks at the first 64 only.
pub fn wait<'a>(sockets: impl IntoIterator<Item = &'a PacketSocket>, most: Duration) {
    let mut polled = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 64];
    let mut count = 0;
    for (slot, socket) in polled.iter_mut().zip(sockets) {
        slot.fd = socket.fd.as_raw_fd();
        count += 1;
    }
    let time = libc::timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos() as _ };
    // SAFETY: both live until the call returns. An interrupted call only waits for a shorter time.
    unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const time, std::ptr::null()) };
}

/// A network namespace. One made here goes, with all its interfaces, when its last descriptor is closed: with the process, however
/// that ends.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Makes a namespace without a name.
    ///
    /// # Errors
    /// It is not permitted (CAP_SYS_ADMIN).
    pub fn make() -> io::Result<Namespace> {
        let home = Self::current()?;
        // SAFETY: no pointers. Only this thread's namespace changes, and changes back at once.
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

    /// Calls `act` in the namespace, in this thread, and leaves it again.
    ///
    /// # Errors
    /// It cannot be entered, or left.
    pub fn within<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let home = Self::current()?;
        self.enter()?;
        let done = act();
        home.enter()?;
        Ok(done)
    }

    /// The path by which other processes find it, as long as this one holds it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}
