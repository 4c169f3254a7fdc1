"""What sets a lab up: every command, in order, with what takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tailback.lab.model import Command, Lab, LabBridge, LabNic, LabPort, Rebind
from tailback.scenario import declared
from tailback.units import format_rate

PRIORITIES = 8
RING = "ethtool -g %s | awk '/^Current/{now=1} now && /^RX:/{print $2; ok=1; exit} END{exit !ok}'"
"""Prints the receive ring as it is."""
LINK_WORD = "ip -o -d link show %s | grep -o ' %s [^ ]*'"
"""Prints a word of a link, such as `mtu`, and what follows it."""


@dataclass(frozen=True)
class Step:
    """A command on a host. Lines are for `sh -c`."""

    host: str
    about: str
    do: str
    undo: str = ""
    """What takes it back, run in the reverse order; empty: nothing does."""
    remember: str = ""
    """In place of `undo`: a line that, run before `do`, prints what takes it back."""


def plan(lab: Lab) -> list[Step]:
    """All steps of a lab."""
    own = {when: [one for one in lab.commands if one.when == when] for when in ("first", "after-bridges")}
    return [
        *map(_own, own["first"]),
        *(step for one in lab.rebind for step in _rebind(one)),
        *(step for one in lab.bridges for step in bridge_steps(one)),
        *map(_own, own["after-bridges"]),
        *(step for one in lab.nics for step in _nic(one)),
    ]


def _own(one: Command) -> Step:
    return Step(one.host, one.about, one.do, one.undo or "")


def _rebind(one: Rebind) -> Iterator[Step]:
    for do, undo, about in (
        (
            f"echo {one.pci} > /sys/bus/pci/drivers/{one.from_}/unbind",
            _bind(one.pci, one.from_),
            "leave the driver",
        ),
        (_override(one.pci, one.to), _override(one.pci, one.from_), "name the driver that may take it"),
        (_bind(one.pci, one.to), f"echo {one.pci} > /sys/bus/pci/drivers/{one.to}/unbind", "take it"),
    ):
        yield Step(one.host, f"{one.pci}, {one.from_} to {one.to}: {about}", do, undo)


def _bind(pci: str, driver: str) -> str:
    return f"echo {pci} > /sys/bus/pci/drivers/{driver}/bind"


def _override(pci: str, driver: str) -> str:
    return f"echo {driver} > /sys/bus/pci/devices/{pci}/driver_override"


def bridge_steps(bridge: LabBridge) -> Iterator[Step]:
    """What makes a bridge and its ports."""
    host, name = bridge.host, bridge.name
    for port in bridge.ports:
        if port.roce is not None:
            yield from _roce(host, f"pci/{port.pci}", port.roce)
    yield Step(
        host,
        "the bridge, without STP",
        f"ip link add {name} mtu {bridge.mtu} type bridge stp_state 0",
        f"ip link del {name}",
    )
    for port in bridge.ports:
        yield _mtu(host, port.interface, bridge.mtu)
        yield Step(
            host,
            "a port of the bridge",
            f"ip link set {port.interface} master {name}",
            f"ip link set {port.interface} nomaster",
        )
        yield Step(
            host,
            "the port is up",
            f"ip link set {port.interface} up",
            remember=_if_down(port.interface),
        )
        yield from _tuned(host, port)
    yield Step(host, "the bridge is up", f"ip link set {name} up", f"ip link set {name} down")


def _roce(host: str, device: str, wanted: bool) -> Iterator[Step]:
    words = f"devlink dev param set {device} name enable_roce value %s cmode driverinit"
    do, other = (words % str(value).lower() for value in (wanted, not wanted))
    reload = f"devlink dev reload {device}"
    about = "the NIC takes RoCE itself" if wanted else "RoCE is to reach the bridge"
    yield Step(host, about, do, f"{other} && {reload}")
    yield Step(host, "the driver takes that up", reload)


def _mtu(host: str, interface: str, mtu: int) -> Step:
    return Step(
        host,
        "jumbo frames" if mtu > 1500 else "the MTU",
        f"ip link set {interface} mtu {mtu}",
        remember=_kept(LINK_WORD % (interface, "mtu"), f"ip link set {interface} $was"),
    )


def _kept(found: str, command: str) -> str:
    """A line that prints a command with what another finds, as `$was`; it fails where that finds nothing."""
    return f'was=$({found}) && echo "{command}"'


def _if_down(interface: str) -> str:
    """A device that was up is to stay so."""
    down = f"echo 'ip link set {interface} down'"
    return f"was=$(ip -o link show {interface}) && case $was in *[,\\<]UP[,\\>]*) ;; *) {down};; esac"


def _tuned(host: str, port: LabPort) -> Iterator[Step]:
    name = port.interface
    if port.rx_ring is not None:
        yield Step(
            host,
            "receive ring",
            f"ethtool -G {name} rx {port.rx_ring}",
            remember=_kept(RING % name, f"ethtool -G {name} rx $was"),
        )
    if port.coalesce is not None:
        words = [f"adaptive-rx {'on' if port.coalesce.adaptive else 'off'}"]
        if port.coalesce.usecs is not None:
            words.append(f"rx-usecs {port.coalesce.usecs // 10**6}")
        if port.coalesce.frames is not None:
            words.append(f"rx-frames {port.coalesce.frames}")
        remember = (
            f"ethtool -c {name} | awk '/^Adaptive/{{a=$3}} /^rx-usecs:/{{u=$2}} /^rx-frames:/{{f=$2}} "
            f'END{{print "ethtool -C {name} adaptive-rx " a " rx-usecs " u " rx-frames " f}}\''
        )
        yield Step(
            host, "moderation of interrupts", f"ethtool -C {name} {' '.join(words)}", remember=remember
        )
    if port.irq_cores is not None:
        irqs = f"grep -E '{port.pci or name}' /proc/interrupts | awk '{{sub(/:/, \"\", $1); print $1}}'"
        cores = " ".join(map(str, port.irq_cores))
        file = "/proc/irq/$irq/smp_affinity_list"
        each = f"for irq in $({irqs}); do"
        do = f"set -- {cores}; {each} echo $1 > {file}; first=$1; shift; set -- $@ $first; done"
        remember = f'{each} echo "echo $(cat {file}) > {file};"; done; echo true'
        yield Step(host, "cores of its interrupts", do, remember=remember)
    if port.qdisc is not None:
        for at, line in enumerate(qdisc_words(port.qdisc)):
            undo = f"tc qdisc del dev {name} root" if at == 0 else ""
            yield Step(host, "queueing discipline", f"tc qdisc add dev {name} {line}", undo)


def qdisc_words(qdisc: object) -> list[str]:
    """The words after `tc qdisc add dev DEV`, a line a discipline."""
    match qdisc:
        case declared.Tbf():
            root = f"root handle 1: tbf rate {_rate(qdisc.rate)} burst {qdisc.burst}b"
            if (child := getattr(qdisc, "child", None)) is None:
                return [f"{root} limit {qdisc.limit}b"]
            # Whether bytes wait here or in the child, tc asks for a limit: the child has its own.
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
            raise AssertionError(f"no words for {qdisc}")  # refused when the file was read


def _rate(bps: int) -> str:
    """As tc reads it: bits are `bit`, not `bps`, which it takes for bytes."""
    return format_rate(bps).replace(" ", "").replace("bps", "bit")


def _nic(nic: LabNic) -> Iterator[Step]:
    host, name = nic.host, nic.interface
    if nic.mtu is not None:
        yield _mtu(host, name, nic.mtu)
    if nic.address is not None:
        yield Step(
            host,
            "address of the tests",
            f"ip addr add {nic.address} dev {name}",
            f"ip addr del {nic.address} dev {name}",
        )
    yield Step(host, "the port is up", f"ip link set {name} up", remember=_if_down(name))
    for priority in nic.ecn:
        for role, what in (("roce_np", "notification point"), ("roce_rp", "reaction point")):
            file = f"/sys/class/net/{name}/ecn/{role}/enable/{priority}"
            yield Step(
                host,
                f"DCQCN, {what}",
                f"echo 1 > {file}",
                remember=_kept(f"cat {file}", f"echo $was > {file}"),
            )
    if nic.pfc is not None:
        yield from _pfc(nic)


def _pfc(nic: LabNic) -> Iterator[Step]:
    pfc, qos = nic.pfc, f"mlnx_qos -i {nic.interface}"
    assert pfc is not None
    lossless = [number in pfc.priorities for number in range(PRIORITIES)]
    yield Step(
        nic.host,
        "lossless priorities",
        f"{qos} --pfc {_listed(lossless)}",
        remember=_row_of_qos(nic.interface, "enabled", "--pfc"),
    )
    yield Step(
        nic.host,
        "their buffer",
        f"{qos} --prio2buffer {_listed([pfc.buffer * one for one in lossless])}",
        remember=_row_of_qos(nic.interface, "buffer", "--prio2buffer"),
    )
    if pfc.cable_len is not None:  # mlnx_qos tells the length of the cable in no form that is documented
        yield Step(nic.host, "length of the cable, for headroom", f"{qos} --cable_len {pfc.cable_len}")
    if pfc.buffer_size is not None:
        sizes = [pfc.buffer_size * (number == pfc.buffer) for number in range(PRIORITIES)]
        file = f"/sys/class/net/{nic.interface}/qos/buffer_size"
        # Rows of buffers begin with their number; those that are not listed have no bytes.
        awk = '$1 ~ /^[0-7]$/ {s[$1]=$2} END {for (i = 0; i < 8; i++) printf "%s%d", (i ? "," : ""), s[i]}'
        yield Step(
            nic.host,
            "size of that buffer",
            f"{qos} --buffer_size {_listed(sizes)}",
            remember=_kept(f"awk '{awk}' {file}", f"{qos} --buffer_size $was"),
        )


def _row_of_qos(interface: str, row: str, option: str) -> str:
    """Prints the command that sets a row of mlnx_qos's table of priorities as it is now."""
    awk = f'$1 == "{row}" && NF == 9 {{for (i = 2; i < 10; i++) printf "%s%s", (i > 2 ? "," : ""), $i; exit}}'
    return _kept(
        f"mlnx_qos -i {interface} | awk '{awk} END {{exit !i}}'", f"mlnx_qos -i {interface} {option} $was"
    )


def _listed(values: list[int] | list[bool]) -> str:
    return ",".join(str(int(one)) for one in values)
