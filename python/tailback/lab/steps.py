"""The steps that set a lab up, in order, with their undo commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tailback.lab import undo_steps
from tailback.lab.model import Command, Lab, LabBridge, LabNic, LabPfc, LabPort, Rebind
from tailback.lab.undo_steps import PRIORITY_COUNT, Undo
from tailback.scenario import declared
from tailback.units import format_rate

RING_ENTRIES_LINE = (
    "ethtool -g %s | awk '/^Current/{now=1} now && /^RX:/{print $2; ok=1; exit} END{exit !ok}'"
)
"""Prints the current size of the receive ring."""
SHELL_CHARACTERS = frozenset("|&;<>()$`\\\"'*?[]#~%!{}\n")
"""A line without any of them can run without a shell."""


@dataclass(frozen=True)
class Step:
    """A command on a host, as a line."""

    host: str
    about: str
    do: str
    back: Undo | None = None
    """How to undo it; None: it cannot be undone."""
    own: bool = False
    """A line of the lab file, for a shell."""

    @property
    def command(self) -> str | list[str]:
        """A line for `sh -c`, or the words of a command that needs no shell."""
        return self.do if self.own else words(self.do)


def words(line: str) -> str | list[str]:
    """A line as words where it needs no shell, else the line."""
    return line if SHELL_CHARACTERS & set(line) else line.split()


def plan(lab: Lab) -> list[Step]:
    own = {when: [one for one in lab.commands if one.when == when] for when in ("first", "after-bridges")}
    return [
        *map(_own, own["first"]),
        *(step for one in lab.rebind for step in _rebind(one)),
        *(step for one in lab.bridges for step in bridge_steps(one)),
        *map(_own, own["after-bridges"]),
        *(step for one in lab.nics for step in _nic(one)),
    ]


def _own(one: Command) -> Step:
    undo = undo_steps.fixed("command", one.do, one.undo) if one.undo else None
    return Step(one.host, one.about, one.do, undo, own=True)


def _rebind(one: Rebind) -> Iterator[Step]:
    where = f"{one.pci}, {one.from_} to {one.to}"
    unbind = f"echo {one.pci} > /sys/bus/pci/drivers/%s/unbind"
    bound = f"if [ -e /sys/bus/pci/drivers/%s/{one.pci} ]; then %s; fi"
    free = f"if [ ! -e /sys/bus/pci/drivers/%s/{one.pci} ]; then %s; fi"
    from_, to = one.from_, one.to
    gives_back = undo_steps.fixed("unbind", one.pci, free % (from_, _bind(one.pci, from_)))
    yield Step(one.host, f"{where}: leave the driver", unbind % from_, gives_back)
    file = f"/sys/bus/pci/devices/{one.pci}/driver_override"
    override = undo_steps.value_of(file, r"[A-Za-z0-9_-]{1,64}|\(null\)")
    yield Step(one.host, f"{where}: name the driver that may take it", f"echo {to} > {file}", override)
    leaves = undo_steps.fixed("bind", one.pci, bound % (to, unbind % to))
    yield Step(one.host, f"{where}: take it", _bind(one.pci, to), leaves)


def _bind(pci: str, driver: str) -> str:
    return f"echo {pci} > /sys/bus/pci/drivers/{driver}/bind"


def bridge_steps(bridge: LabBridge) -> Iterator[Step]:
    """The steps that create a bridge and its ports."""
    host, name = bridge.host, bridge.name
    for port in bridge.ports:
        if port.roce is not None:
            yield from _roce(host, f"pci/{port.pci}", port.roce)
    add = f"ip link add name {name} mtu {bridge.mtu} type bridge stp_state 0"
    yield Step(host, "the bridge, without STP", add, undo_steps.bridge(name))
    for port in bridge.ports:
        interface = port.interface
        join = f"ip link set dev {interface} master {name}"
        yield _mtu(host, interface, bridge.mtu)
        yield Step(host, "a port of the bridge", join, undo_steps.master(interface))
        yield _up(host, interface)
        yield from _tuned(host, port)
    yield Step(host, "the bridge is up", f"ip link set dev {name} up")  # undone by removing the bridge


def _roce(host: str, device: str, wanted: bool) -> Iterator[Step]:
    words = f"devlink dev param set {device} name enable_roce value %s cmode driverinit"
    about = "the NIC takes RoCE itself" if wanted else "RoCE is to reach the bridge"
    show = f"devlink -j dev param show {device} name enable_roce"
    yield Step(host, about, words % str(wanted).lower(), undo_steps.roce(device, show, words))
    yield Step(host, "the driver takes that up", f"devlink dev reload {device}")


def _mtu(host: str, interface: str, mtu: int) -> Step:
    about = "jumbo frames" if mtu > 1500 else "the MTU"
    return Step(host, about, f"ip link set dev {interface} mtu {mtu}", undo_steps.mtu(interface))


def _up(host: str, interface: str) -> Step:
    return Step(host, "the port is up", f"ip link set dev {interface} up", undo_steps.state(interface))


def _tuned(host: str, port: LabPort) -> Iterator[Step]:
    name = port.interface
    if port.rx_ring is not None:
        yield Step(host, "receive ring", f"ethtool -G {name} rx {port.rx_ring}", undo_steps.ring(name))
    if port.coalesce is not None:
        words = [f"adaptive-rx {'on' if port.coalesce.adaptive else 'off'}"]
        if port.coalesce.usecs is not None:
            words.append(f"rx-usecs {port.coalesce.usecs // 10**6}")
        if port.coalesce.frames is not None:
            words.append(f"rx-frames {port.coalesce.frames}")
        do = f"ethtool -C {name} {' '.join(words)}"
        yield Step(host, "moderation of interrupts", do, undo_steps.coalesce(name))
    if port.irq_cores is not None:
        # Names in /proc/interrupts are chosen by the driver; msi_irqs lists the interrupts of the device.
        device = f"/sys/bus/pci/devices/{port.pci}" if port.pci else f"/sys/class/net/{name}/device"
        file = "/proc/irq/$irq/smp_affinity_list"
        each = f"irqs=$(ls {device}/msi_irqs) && for irq in $irqs; do [ -e {file} ] || continue;"
        cores = " ".join(map(str, port.irq_cores))
        do = f"set -- {cores}; {each} echo $1 > {file} || exit 1; first=$1; shift; set -- $@ $first; done"
        read = f"{each} echo $irq $(cat {file}); done"
        yield Step(host, "cores of its interrupts", do, undo_steps.irqs(name, read))
    if port.qdisc is not None:
        for at, line in enumerate(qdisc_words(port.qdisc)):
            undo = undo_steps.qdisc(name) if at == 0 else None
            yield Step(host, "queueing discipline", f"tc qdisc add dev {name} {line}", undo)


def qdisc_words(qdisc: object) -> list[str]:
    """The words after `tc qdisc add dev DEV`, a line for each discipline."""
    match qdisc:
        case declared.Tbf():
            root = f"root handle 1: tbf rate {_rate(qdisc.rate)} burst {qdisc.burst}b"
            if (child := getattr(qdisc, "child", None)) is None:
                return [f"{root} limit {qdisc.limit}b"]
            # tc requires a limit, although bytes wait in the child, which has its own limit.
            return [f"{root} limit 2000000b", f"parent 1:1 handle 10: {_leaf(child)}"]
        case _:
            return [f"root {_leaf(qdisc)}"]


def _leaf(qdisc: object) -> str:
    match qdisc:
        case declared.Pfifo():
            return f"pfifo limit {qdisc.limit}"
        case declared.Bfifo():
            return f"bfifo limit {qdisc.limit}b" if qdisc.limit else "bfifo"
        case declared.Red():
            words = [f"red limit {qdisc.limit}"]
            for key in ("min", "max"):
                value = getattr(qdisc, key)
                words += [f"{key} {value}"] if value else []
            words.append(f"avpkt {qdisc.avpkt}")
            words += [f"burst {qdisc.burst}"] if qdisc.burst else []
            words.append(f"bandwidth {_rate(qdisc.bandwidth)}")
            words += ["ecn"] if qdisc.ecn else []
            words.append(f"probability {qdisc.probability:g}")
            return " ".join(words)
        case _:
            raise AssertionError(f"no words for {qdisc}")  # other kinds are refused when the file is read


def _rate(bps: int) -> str:
    """A rate for tc, in `bit`: it reads `bps` as bytes per second."""
    return format_rate(bps).replace(" ", "").replace("bps", "bit")


def _nic(nic: LabNic) -> Iterator[Step]:
    host, name = nic.host, nic.interface
    if nic.mtu is not None:
        yield _mtu(host, name, nic.mtu)
    if nic.address is not None:
        add = f"ip addr add {nic.address} dev {name}"
        yield Step(host, "address of the tests", add, undo_steps.address(name, nic.address))
    yield _up(host, name)
    for priority in nic.ecn:
        for role, what in (("roce_np", "notification point"), ("roce_rp", "reaction point")):
            file = f"/sys/class/net/{name}/ecn/{role}/enable/{priority}"
            yield Step(host, f"DCQCN, {what}", f"echo 1 > {file}", undo_steps.value_of(file, "[01]"))
    if nic.pfc is not None:
        yield from _pfc(host, name, nic.pfc)


def _pfc(host: str, name: str, pfc: LabPfc) -> Iterator[Step]:
    qos = f"mlnx_qos -i {name}"
    lossless = [number in pfc.priorities for number in range(PRIORITY_COUNT)]
    enable = f"{qos} --pfc {_listed(lossless)}"
    yield Step(host, "lossless priorities", enable, undo_steps.qos_row(name, "enabled", "--pfc"))
    buffers = f"{qos} --prio2buffer {_listed([pfc.buffer * one for one in lossless])}"
    yield Step(host, "their buffer", buffers, undo_steps.qos_row(name, "buffer", "--prio2buffer"))
    if pfc.cable_len is not None:  # the output of mlnx_qos about the cable is not documented
        yield Step(host, "length of the cable, for headroom", f"{qos} --cable_len {pfc.cable_len}")
    if pfc.buffer_size is not None:
        sizes = [pfc.buffer_size * (number == pfc.buffer) for number in range(PRIORITY_COUNT)]
        file = f"/sys/class/net/{name}/qos/buffer_size"
        set_sizes = f"{qos} --buffer_size {_listed(sizes)}"
        yield Step(host, "size of that buffer", set_sizes, undo_steps.buffer_size(name, file))


def _listed(values: list[int] | list[bool]) -> str:
    return ",".join(str(int(one)) for one in values)
