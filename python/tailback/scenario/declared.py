"""Settings as the engine declares them.

Made by tools/make_settings.py from crates; not to be edited. What depends on several settings, and what only
scenarios have, is in the classes made from these.
"""

# ruff: noqa: E501, RUF100
# No `from __future__ import annotations`: each annotation would be compiled when the module is loaded.

from typing import Annotated, Literal

from pydantic import Field

from tailback.scenario.by_rate import ShareByRate, SizeByRate
from tailback.scenario.fields import Declared, falling, setting
from tailback.units import DURATION, FREQUENCY, RATE, SIZE


class Run(Declared):
    """How long, and with which random numbers."""

    duration: Annotated[int, DURATION.between("1ps", maximum="36000s")] = Field(
        description="Simulated time; the run ends earlier if everything is sent."
    )
    seed: int = setting(
        1,
        "Seed of all random numbers: starts of writers; clocks; times, sizes and receivers of messages; ECN marks; lost packets.",
        "assumption: any number would do",
        ge=0,
        le=9223372036854775807,
    )
    ecmp_by_seed: bool = setting(
        False,
        "Whether the seed also draws the hash by which switches choose among equally short routes. false: a connection takes the same route with every seed.",
        "assumption: seeds repeat what one placement of flows does; a switch has one hash",
    )
    clock_ppm: float = setting(
        100.0,
        "Each port sends by a clock of its own, drawn by the seed from this many millionths below its link's rate to as many above. 0: all clocks are exact.",
        "IEEE 802.3: clocks within 100 ppm; assumption: all within are equally likely",
        ge=0.0,
        le=1000.0,
        allow_inf_nan=False,
    )
    skip: Literal["never", "steady"] = setting(
        "never",
        "What is not simulated packet by packet. never: all is. steady: where rates and queues have been steady for a while, and nothing starts, ends, is dropped or paused, the run goes on as they were measured to be, in steps that are checked by packets after each.",
        "assumption: results are exact unless an estimate is asked for",
    )
    skip_error: float = setting(
        0.01,
        "Largest error of goodput in a sample that `skip: steady` goes by (half of a 95 % confidence interval, relative to the goodput); twice as much of the mean queue, and as much of the completion time of a message.",
        "assumption: what a plot can show; clocks and drawn starts change more",
        ge=0.001,
        le=0.1,
        allow_inf_nan=False,
    )


class BridgeCore(Declared):
    """A core of the bridge."""

    cpu: int = Field(description="Its number.", ge=0, le=65535)
    numa: int = setting(0, "Its NUMA node.", "assumption: one node", ge=0, le=1023)
    guest: bool = setting(
        False, "A virtual CPU that never sleeps runs on it.", "assumption: no virtual machine"
    )


class BridgePort(Declared):
    """A port: which core serves which of its channels, each with a receive and a transmit ring."""

    numa: int = setting(0, "NUMA node of its device.", "assumption: one node", ge=0, le=1023)


class Link(Declared):
    """A full-duplex link."""

    rate: Annotated[int, RATE.between("1Mbps", maximum="100Tbps")] = setting(
        RATE.parse("100Gbps"),
        "Rate of each direction.",
        'assumption: "RoCE Rocks without PFC" gives none; its ConnectX-4 and SN2700 have ports of 100 Gbit/s',
    )
    delay: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("500ns"),
        "Propagation, one way.",
        "assumption: 100 m of fibre at 5 ns/m, the longest in a row of racks",
    )
    loss: float = setting(
        0.0,
        "Probability that a packet is lost on the link, in each direction. PFC frames are never lost.",
        "assumption: a clean link",
        ge=0.0,
        lt=1.0,
        allow_inf_nan=False,
    )


class Failure(Declared):
    """A link that fails, both ways at once, and may be repaired."""

    at: Annotated[int, DURATION.between(maximum="36000s")] = Field(description="When it fails.")
    repair: Annotated[int, DURATION.between("1ps", maximum="36000s")] | None = setting(
        None, "When it is repaired; null: never.", "assumption: never"
    )
    detection: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"),
        "From a failure, or a repair, until routing has noticed it: BFD, BGP or a fast failover. Until then packets go on being sent into a failed link and are lost, and a repaired link carries none. One that is repaired before it was noticed is never routed around.",
        "assumption: all switches know at once; a routing protocol takes from 50 ms (BFD) to 180 s (RFC 4271: BGP's hold time is 90 s, and often 180)",
    )


class Nic(Declared):
    """The NIC of every host."""

    mtu: Annotated[int, SIZE.one_of("256B", "512B", "1024B", "2048B", "4096B")] = setting(
        SIZE.parse("1KiB"),
        "RoCE path MTU: payload of a full packet.",
        "the largest path MTU of the IB specification that fits into an Ethernet MTU of 1500 B",
    )
    rx_latency: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("300ns"),
        "From a packet's last bit on the wire to the transport.",
        "assumption: no vendor document says; the same order as a switch",
    )
    ect: bool = setting(
        True,
        "RoCE data packets carry ECT(0), so queues may mark them. false: Not-ECT, as soft-RoCE sends without a traffic class; RED drops the packets that it would mark.",
        "NVIDIA: a ConnectX with ECN on for the priority (ecn/roce_rp/enable) sets ECT(0)",
    )


class Switch(Declared):
    """The switch: output queues behind one shared buffer."""

    buffer: Annotated[int, SIZE.between("1B", maximum="64GiB")] = setting(
        SIZE.parse("16MB"),
        "Packet memory, headroom included.",
        'assumption: "RoCE Rocks without PFC" gives none; Spectrum (SN2700) has 16 MB',
    )
    latency: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("300ns"),
        "From a packet's last bit at the ingress to the egress queue.",
        "assumption: no document separates it; the order of a data centre switch's port-to-port latency",
    )
    ingress_alpha: float = setting(
        1.0,
        "An ingress priority group may hold this many times the free buffer.",
        "Linux mlxsw spectrum_buffers.c, Spectrum-1: ingress threshold 8 = alpha 1",
        gt=0.0,
        le=1024.0,
        allow_inf_nan=False,
    )
    egress_alpha: float = setting(
        2.0,
        "A lossy egress queue may hold this many times the free buffer.",
        "Linux mlxsw spectrum_buffers.c, Spectrum-1: egress threshold 9 = alpha 2",
        gt=0.0,
        le=1024.0,
        allow_inf_nan=False,
    )
    load_balancing: Literal["ecmp", "flowlet", "spray", "adaptive"] = setting(
        "ecmp",
        "Which of several shortest routes data takes. ecmp: by a hash of the connection; flowlet: a random one whenever the connection was silent for flowlet_gap; spray: a random one for each RoCE packet; adaptive: for each RoCE packet the port with the shortest queue. ACKs, NAKs, CNPs, and TCP except with flowlet, keep to the hash.",
        "what switches do unless adaptive routing is switched on",
    )
    flowlet_gap: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("500us"),
        "Silence after which data of a connection may take another route, with load_balancing: flowlet.",
        'Alizadeh et al., "CONGA", SIGCOMM 2014: its default, which LetFlow tests, too',
    )


class Thresholds(Declared):
    """Thresholds of ECN marking."""

    k_min: SizeByRate = setting(
        SIZE.parse("150KB"),
        "No marks up to this queue; for all ports, or by the port's rate.",
        '"RoCE Rocks without PFC", section 3.1',
    )
    k_max: SizeByRate = setting(
        SIZE.parse("1.5MB"),
        "Every packet is marked above this queue; for all ports, or by the port's rate.",
        '"RoCE Rocks without PFC", section 3.1',
    )
    p_max: ShareByRate = setting(
        1.0,
        "Probability of a mark at k_max; it grows in a straight line from 0 at k_min. For all ports, or by the port's rate.",
        "Mellanox community DOC-2500: always marked above the maximum, linear between",
    )


class Pfc(Declared):
    """Priority flow control of a switch (IEEE 802.1Qbb)."""

    xoff: Annotated[int, SIZE.between("1B", maximum="4.294967295GB")] | None = setting(
        None,
        "An ingress group above this pauses its peer. null: switch.ingress_alpha times the free buffer.",
        "Linux mlxsw spectrum_buffers.c: thresholds of shared pools are dynamic",
    )
    xon: Annotated[int, SIZE.between(maximum="4.294967295GB")] | None = setting(
        None,
        "An ingress group at or below this resumes its peer. null: xon_offset below xoff.",
        "assumption: a fixed value makes no sense below a threshold that moves",
    )
    xon_offset: Annotated[int, SIZE] = setting(
        SIZE.parse("3KiB"),
        "How far below xoff a group resumes its peer, where xon is null.",
        "the HPCC authors' simulator, switch-mmu.cc; Zhu et al., SIGCOMM 2015: two MTUs",
    )
    headroom_pool: Annotated[int, SIZE.between("1B", maximum="64GiB")] | None = setting(
        None,
        "Buffer that the headroom of all ports of a switch comes from together (a shared headroom pool): each may use up to its headroom, and all of them no more than this. null: each keeps its own.",
        "SAI: a buffer pool has an XOFF_SIZE of 0 unless it is set; SONiC: xoff of BUFFER_POOL",
    )


class Pause(Declared):
    """The pauses that a switch or a NIC asks for."""

    quanta: int = setting(
        65535,
        "Length of a pause, in 512 bit times; repeated at half of it while it is needed.",
        "IEEE 802.1Qbb: the most that a frame can ask for",
        ge=2,
        le=65535,
    )
    response_delay: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("2.01728us"),
        "From a pause frame's last bit to the moment its receiver is quiet.",
        "IEEE 802.3 annex 31B.3.7: 394 quanta at 100 Gbit/s, the most that a port may take",
    )


class Headroom(Declared):
    """Buffer that a switch keeps free for what still arrives after it asks for a pause."""

    headroom: Annotated[int | Literal["auto"], SIZE.or_word("auto")] = setting(
        "auto",
        "Buffer kept for each port and lossless priority, for packets that arrive once a pause is due. auto: frames of the packet that passes xoff; of what the link carries in twice its delay, the response delay, the switch's latency, a packet of the greatest length that delays the pause, and the PFC frame; and of one more packet that the peer has begun.",
        "IEEE 802.1Q annex N (the terms of the sum); docs/models/pfc.md",
    )


class Shared(Declared):
    """What of the buffer is shared: `shared_bytes` of a model."""

    shared: Annotated[int | Literal["auto"], SIZE.between("1B").or_word("auto")] = setting(
        "auto",
        "The part of the buffer that all queues share. auto: all that headroom leaves.",
        "Linux mlxsw spectrum_buffers.c: MLXSW_SP_SB_REST",
    )


class Pools(Declared):
    """The shared buffer in two: lossless priorities draw on one part, all others on the other."""

    lossless: Annotated[int, SIZE.between("1B")] = setting(
        SIZE.parse("4MiB"),
        "What lossless priorities share.",
        "Mellanox community DOC-2591: a pool of 4 MiB for RoCE",
    )
    lossy: Annotated[int | Literal["auto"], SIZE.between("1B").or_word("auto")] = setting(
        "auto",
        "What all others share. auto: the rest of what is shared.",
        "Linux mlxsw spectrum_buffers.c: MLXSW_SP_SB_REST",
    )


class Watchdog(Declared):
    """The PFC watchdog of the switches' ports, with the action drop."""

    detection_time: Annotated[int, DURATION.between("1ps", maximum="18000s")] = setting(
        DURATION.parse("200ms"),
        "A lossless queue that is paused for this long drops its packets and all that arrive.",
        "SONiC, pfcwd: DEFAULT_DETECTION_TIME",
    )
    restoration_time: Annotated[int, DURATION.between("1ps", maximum="18000s")] = setting(
        DURATION.parse("200ms"),
        "The queue works again after this long without a pause.",
        "SONiC, pfcwd: DEFAULT_RESTORATION_TIME",
    )


class Trimming(Declared):
    """Packet trimming: RoCE's data that a lossy priority has no room for loses its payload, and its headers go on."""

    size: Annotated[int, SIZE.between("64B", maximum="1KiB")] = setting(
        SIZE.parse("64B"),
        "Trimmed packets are cut to this, from address to FCS.",
        'Handley et al., "NDP", SIGCOMM 2017: headers of 64 B; SAI\'s default is 128 B, that of Cumulus Linux 256 B',
    )
    queue: Annotated[int, SIZE.between("1B", maximum="4.294967295GB")] | None = setting(
        None,
        "Packets are trimmed where the egress queue would hold more. null: where the buffer refuses them.",
        'SAI, "Packet Trimming": upon a failed admission to the shared buffer; NDP has 8 packets',
    )


class Record(Declared):
    """What is kept of a run, however long it is."""

    max_bins: int = setting(
        2048,
        "Most bins of a time series; a longer run has longer bins.",
        "assumption: twice as many as a plot has pixels across",
        ge=16,
        le=1000000,
    )
    qps: int = setting(
        64,
        "Queue pairs whose rate and alpha are recorded.",
        "assumption: more lines cannot be told apart in a plot",
        ge=0,
        le=100000,
    )


class RhccReceiver(Declared):
    """RHCC's receiver: it takes memory bandwidth from its CPUs."""

    sample_interval: Annotated[int, DURATION.between("10ns", maximum="1s")] = setting(
        DURATION.parse("1us"),
        "Time between two readings of the counters.",
        "assumption: below a round trip; hostCC's module polls its registers without a pause",
    )
    iio_clock_mhz: int = setting(
        500,
        "Clock of the IIO in MHz: its counter grows by the occupancy at every cycle.",
        "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC): Intel Cascade Lake",
        ge=1,
        le=100000,
    )
    write_time: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("20us"),
        "Time to write a level, which then takes effect; nothing else is decided meanwhile.",
        "assumption: no source gives it; registers of other cores are written through interrupts to them",
    )
    iio_threshold: Annotated[float, Field(ge=0.0, le=1000000.0, allow_inf_nan=False)] | Literal["auto"] = (
        setting(
            "auto",
            "I_thr in cache lines of 64 B. auto: what the link's rate keeps in the IIO at threshold_delay.",
            "assumption: the paper names no value; by Little's law the same congestion as D_thr",
        )
    )
    levels: Annotated[list[Annotated[int, RATE.between("1bps", maximum="100Tbps")]], falling(16)] = setting(
        [
            RATE.parse("265.6Gbps"),
            RATE.parse("212Gbps"),
            RATE.parse("160Gbps"),
            RATE.parse("120Gbps"),
            RATE.parse("80Gbps"),
        ],
        "Memory bandwidths that CPUs may have (Intel MBA), falling; the first is no limit.",
        "Wan et al. (RHCC), APNet 2024, section 3.2: 33.2, 26.5, 20, 15 and 10 GB/s",
    )
    raise_interval: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("150us"),
        "Time without congestion before the bandwidth goes up a level, and from there to the next level.",
        "assumption: the paper does not say when; hostCC's kernel module (github.com/Terabit-Ethernet/hostCC): 150 us between two levels up",
    )


class HostCc(Declared):
    """HostCC: the receiver sets its CPUs' memory bandwidth and marks packets before the transport."""

    sample_interval: Annotated[int, DURATION.between("10ns", maximum="1s")] = setting(
        DURATION.parse("1us"),
        "Time between two readings of the counters.",
        "assumption: below a round trip; hostCC's module polls its registers without a pause",
    )
    iio_clock_mhz: int = setting(
        500,
        "Clock of the IIO in MHz: its counter grows by the occupancy at every cycle.",
        "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC): Intel Cascade Lake",
        ge=1,
        le=100000,
    )
    write_time: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("20us"),
        "Time to write a level, which then takes effect; nothing else is decided meanwhile.",
        "assumption: no source gives it; registers of other cores are written through interrupts to them",
    )
    iio_threshold: float = setting(
        70.0,
        "I_T in cache lines of 64 B.",
        "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC): target_iio_thresh",
        ge=0.0,
        le=1000000.0,
        allow_inf_nan=False,
    )
    iio_weight: float = setting(
        0.125,
        "Weight of the newest occupancy in its average.",
        "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC): 1/8",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    pcie_threshold: Annotated[
        int | Literal["auto"], RATE.between("1bps", maximum="100Tbps").or_word("auto")
    ] = setting(
        "auto",
        "B_T: PCIe bandwidth promised to the network. auto: 84 % of the link's rate.",
        "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC): 84 Gbit/s at 100 Gbit/s",
    )
    pcie_weight: float = setting(
        0.00390625,
        "Weight of the newest bandwidth in its average.",
        "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC): 1/256",
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    levels: Annotated[list[Annotated[int, RATE.between("1bps", maximum="100Tbps")]], falling(16)] = setting(
        [
            RATE.parse("265.6Gbps"),
            RATE.parse("185.9Gbps"),
            RATE.parse("106.2Gbps"),
            RATE.parse("26.6Gbps"),
            RATE.parse("1Mbps"),
        ],
        "Memory bandwidths that CPUs may have (Intel MBA), falling; the first is no limit.",
        "assumption: hostCC's kernel module (github.com/Terabit-Ethernet/hostCC) throttles none to three of three NUMA nodes to 10 %, then stops the process (1 Mbit/s here); of the 33.2 GB/s that Wan et al. measured",
    )
    raise_interval: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("150us"),
        "Least time between two levels up.",
        "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC): REDUCTION_TIMEOUT_US",
    )
    mark: bool = setting(
        True,
        "Whether packets are marked CE while the occupancy is above iio_threshold.",
        "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC)",
    )


class HostPath(Declared):
    """What a packet meets behind the NIC's port, on a host and a PCIe link as a preset has them."""

    rate: Annotated[int, RATE.between("1Gbps", maximum="100Tbps")] | None = setting(
        None,
        "What PCIe has for TLPs, each way. null: the preset's.",
        "PCI Express: transfers * lanes * 128/130; assumption: less 2 % for DLLPs",
    )
    queue_pair_rate: Annotated[int, RATE.between("1Gbps", maximum="100Tbps")] | None = setting(
        None,
        "Payload per second of packets of one queue pair that follow each other out of the receive buffer; those of several queue pairs do not wait for each other. null: a queue pair alone is as fast as PCIe.",
        "assumption: no document says. A ConnectX-5 (openfabric-systems/simllm) drops at its receive buffer where one queue pair sends more than 94 Gbit/s, and not where two send 97.7 together",
    )
    max_payload: Annotated[int, SIZE.between("128B", maximum="4KiB")] = setting(
        SIZE.parse("256B"),
        "Payload of a full write, a power of two.",
        "assumption: what root ports of servers offer most",
    )
    header_credits: int = setting(
        128,
        "Writes that may be on their way: posted header credits.",
        "assumption: more than data credits allow, so that these decide",
        ge=1,
        le=1048576,
    )
    iio_lines: int | None = setting(
        None,
        "Buffer of the IIO in cache lines of 64 B: posted data credits. null: the preset's.",
        "assumption: pcie3: 93, recollection of Agarwal et al. (hostCC), SIGCOMM 2023, not verified; twice as many with each generation, as its rate needs",
        ge=2,
        le=4194304,
    )
    credit_latency: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("213ns"),
        "From a write's end to the return of its credits at the NIC.",
        "assumption: what the IIO's occupancy at 100 Gbit/s leaves, recollection of Agarwal et al. (hostCC), SIGCOMM 2023, not verified",
    )
    iio_latency: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("113ns"),
        "From a write's last bit on PCIe to its end, with nothing in its way.",
        "assumption: calibrated on the 120 ns of an idle receiver in Wan et al. (RHCC), APNet 2024, section 4",
    )


class ReceiveBuffer(Declared):
    """The NIC's receive buffer: a part for its lossless priorities, and one for all others."""

    lossless_size: Annotated[int, SIZE.between("9KiB", maximum="1GiB")] = setting(
        SIZE.parse("256KiB"),
        "Size of the part of the lossless priorities.",
        "assumption: about the 262,016 B that mlnx_qos shows of a ConnectX at 25 Gbit/s",
    )
    lossy_size: Annotated[int, SIZE.between("9KiB", maximum="1GiB")] = setting(
        SIZE.parse("256KiB"), "Size of the part of all others.", "assumption: as large as the lossless part"
    )
    cnp_threshold: Annotated[int, SIZE.between("1B", maximum="1GiB")] | None = setting(
        SIZE.parse("128KiB"),
        "Above this fill of the lossy part the NIC sends CNPs of its own, under DCQCN; null: it never does.",
        "assumption: half of lossy_size; Wan et al. (RHCC), APNet 2024, section 2.2, sees such CNPs and gives no threshold",
    )
    cnp_interval: Annotated[int, DURATION.between("1ps", maximum="1s")] | None = setting(
        None,
        "Least time between two such CNPs of a queue pair. null: min_time_between_cnps, which marks share.",
        "assumption: no document says; a ConnectX-5 was seen to send one per 3.54 ms and queue pair",
    )


class ReceiveThresholds(Declared):
    """When the lossless part of a receive buffer asks for pauses, and when they end."""

    xoff: Annotated[int | Literal["auto"], SIZE.between(maximum="1GiB").or_word("auto")] = setting(
        "auto",
        "The NIC pauses its peer from this fill on. auto: below lossless_size by what switch.pfc.headroom: auto would be with this response delay and host.rx_latency; or, with cable_len, as the mlx5 driver has it.",
        "IEEE 802.1Q annex N (the terms of the sum); with cable_len Linux mlx5 en/port_buffer.c",
    )
    xon: Annotated[int | Literal["auto"], SIZE.between(maximum="1GiB").or_word("auto")] = setting(
        "auto",
        "The pause ends at this fill. auto: 10,000 B below xoff, or 0; with cable_len, as the mlx5 driver has it.",
        "mlnx_qos of a ConnectX at 25 Gbit/s: xoff 91,392 B, xon 81,408 B, 9,984 B below; with cable_len Linux mlx5 en/port_buffer.c",
    )
    cable_len: int | None = setting(
        None,
        "Length of the cable in metres, as mlnx_qos --cable_len takes it: an xoff that is auto then lies (301 + 2.16 * cable_len) B for each Gbit/s of the link, of at least 40, and 2.72 * interface_mtu below lossless_size; xon another 9978 B below; both in cells of 128 B. null: xoff from the link's delay.",
        "Linux mlx5 en/port_buffer.c: calculate_xoff, update_xoff_threshold",
        ge=0,
        le=1000,
    )
    interface_mtu: Annotated[int, SIZE.between("68B", maximum="9.978KB")] | None = setting(
        None,
        "MTU of the interface, as ip link shows it, where cable_len is given. null: the least that host.mtu fits into, or host.tcp.mtu with TCP.",
        "assumption: set no larger than RoCE needs",
    )


class Memory(Declared):
    """The memory controller, which the NIC shares with the cores."""

    bandwidth: Annotated[int, RATE.between("1Gbps", maximum="100Tbps")] | None = setting(
        None,
        "All channels together. null: the preset's.",
        "pcie3: Wan et al. (RHCC), APNet 2024, section 3.2: 33.2 GB/s; assumption for pcie4 and pcie5: 80 % of 8 channels of DDR4-3200 and DDR5-4800",
    )
    service: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("10ns"),
        "Mean time of a request in a bank: the scale of its wait under load.",
        "assumption: of the order of a row hit in DDR4",
    )
    write_queue: int | None = setting(
        None,
        "Entries of the queue of pending writes, in cache lines of 64 B, all channels together. A write of I/O ends when it gets one. null: the preset's.",
        "Intel uncore guide 327043-001: 32 a channel, WPQ_OCCUPANCY; Wan et al. (RHCC), APNet 2024, section 2.2: two channels, pcie3; assumption for pcie4 and pcie5: as many a channel, 8 channels",
        ge=2,
        le=1048576,
    )
    write_wait: float = setting(
        7.0,
        "A write stays in the full queue this many times as long as a read waits, beside its time on the bus.",
        "assumption: calibrated on the 62 % that Wan et al. (RHCC), APNet 2024, figure 2, loses with PFC at the highest load",
        ge=0.0,
        le=1000000.0,
        allow_inf_nan=False,
    )
    read_spread: float = setting(
        0.0,
        "Reads are served for some time before a batch of writes: that time varies by this share of its mean, evenly up and down.",
        "assumption: a fluid; the real distribution is not known",
        ge=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    refresh_interval: Annotated[int, DURATION.between("1us", maximum="1s")] = setting(
        DURATION.parse("7.8us"),
        "Time between two refreshes of a bank, which then serves neither reads nor writes.",
        "JEDEC JESD79-4, tREFI: 7.8 us of DDR4; DDR5 has 3.9 us",
    )
    refresh_time: Annotated[int, DURATION.between(maximum="900ns")] = setting(
        DURATION.parse("0s"),
        "Length of a refresh, of all channels at once; 0s: there is no refresh. bandwidth, which is measured, includes it.",
        "assumption: a fluid; JEDEC JESD79-4, tRFC1, has 350 ns of chips of 8 Gbit and 550 ns of 16 Gbit, but all channels at once is too harsh: the sender's half of Wan et al. (RHCC), APNet 2024 would keep 3 of 38 Gbit/s",
    )
    cpu_latency: Annotated[int, DURATION.between("1ps", maximum="1s")] = setting(
        DURATION.parse("90ns"),
        "A read of a core, with nothing in its way.",
        "assumption: what Intel MLC shows of a local DRAM read on Xeon servers",
    )


class Gpu(Declared):
    """A GPU's memory behind another root port, peer to peer."""

    bandwidth: Annotated[int, RATE.between("100Mbps", maximum="100Tbps")] | None = setting(
        None,
        "Reads and writes together. null: the preset's.",
        "assumption: what writes of max_payload leave of a PCIe link like the NIC's, both ways together",
    )
    hops: int = setting(
        0, "Hops between NUMA nodes on the way.", "assumption: the GPU is at the NIC's own node", ge=0, le=16
    )
    hop_latency: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("150ns"),
        "What each hop adds.",
        "assumption: the order of a remote read's extra time on Xeon servers",
    )
    outstanding: Annotated[int, SIZE.between("4KiB", maximum="1GiB")] = setting(
        SIZE.parse("8KiB"),
        "Most bytes of writes on their way between the root ports.",
        "assumption: no vendor document says; of the order of the IIO's buffer",
    )


class Stalls(Declared):
    """Times in which a GPU's memory answers nothing; gaps and durations are drawn."""

    interval: Annotated[int, DURATION.between("1ps", maximum="36000s")] = Field(
        description="Mean time from the end of one to the next."
    )
    duration: Annotated[int, DURATION.between("1ps", maximum="1s")] = Field(
        description="Mean duration; all from 0 to twice this are equally likely."
    )


class Transport(Declared):
    """Reliable connections of the NIC."""

    ack_every: int = setting(
        16,
        "Packets between two requests for an ACK. Where it is not given, hpcc and dctcp take 1.",
        "assumption: no vendor document says; at MTU 1024 ACKs then take 0.5 % of the reverse direction",
        ge=1,
        le=65536,
    )
    ack_timeout: Annotated[int, DURATION.between("1ps", maximum="549.755813888s")] = setting(
        DURATION.parse("67.108864ms"),
        "Time without an ACK until packets are retransmitted.",
        "perftest, ib_write_bw: 4.096 us * 2^14",
    )
    adaptive_timeout: Annotated[int, DURATION.between("1ps", maximum="549.755813888s")] | None = setting(
        DURATION.parse("4.194304ms"),
        "First value of the timeout, which doubles with each timeout up to ack_timeout and is reset after progress. null: it is always ack_timeout.",
        'assumption: NVIDIA\'s adaptive retransmission is on by default, but its first value is not given: 4.096 us * 2^10, longer than a switch with 16 MB takes to drain at 100 Gbit/s (1.3 ms), and what Yu et al., "Lumina", SIGCOMM 2023, saw of ConnectX NICs',
    )
    retry_count: int = setting(
        7,
        "Retries of a full ack_timeout without progress until the queue pair is in error.",
        "perftest, ib_write_bw: retry_cnt, a field of 3 bits",
        ge=0,
        le=7,
    )
    nak_reaction: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("0s"),
        "From a NAK to the first retransmission; the queue pair sends nothing meanwhile.",
        "assumption: at once; no vendor document says",
    )
    nak_delay: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("0s"),
        "From a gap to the responder's NAK: a slow path, once for each gap.",
        "assumption: at once; ConnectX-5 takes almost 20 us",
    )
    slow_restart: Literal["never", "timeout", "loss"] = setting(
        "loss",
        "When the sender restarts slowly, with one packet, doubled each round trip. timeout: after timeouts; loss: after NAKs, too.",
        "assumption: no document gives the law; see the page on what follows a loss",
    )
    losses_are_cnps: bool = setting(
        False,
        "Each NAK and each timeout is a CNP to the sender's congestion control, too.",
        "assumption: counters of ConnectX senders say that they are, those of BlueField that they are not",
    )
    discarded_cause_cnps: bool = setting(
        True,
        "A marked packet that the transport discards, out of sequence or a duplicate, may cause a CNP.",
        "assumption: Zhu et al. (DCQCN), SIGCOMM 2015, section 3.1, lets every marked packet cause one",
    )
    loss_recovery: Literal["go-back-n", "selective-repeat"] = setting(
        "go-back-n",
        "What is retransmitted after a loss. go-back-n: the missing packet and all after it; selective-repeat: only what is missing, while the receiver places packets out of order (IRN).",
        "IB specification 9.7.5.1.3, and what NICs do without a vendor's mode for adaptive routing",
    )
    window_packets: int | None = setting(
        None,
        "Under selective-repeat: packets in flight at most. null: as many as the link carries in the longest round trip of the network without queues, by full packets.",
        'Mittal et al., "IRN", SIGCOMM 2018, section 3.2: the bandwidth-delay product of the longest route',
        ge=1,
        le=65535,
    )
    reordering: int = setting(
        1,
        "Under selective-repeat: a packet counts as lost once a packet sent this many packets later has arrived.",
        'Mittal et al., "IRN", SIGCOMM 2018, section 3.1: any later packet; more where packets are sprayed',
        ge=1,
        le=65535,
    )
    rto_low: Annotated[int, DURATION.between("1ps", maximum="549.755813888s")] = setting(
        DURATION.parse("100us"),
        "Under selective-repeat: first value of the timer with fewer than three packets in flight.",
        'Mittal et al., "IRN", SIGCOMM 2018, section 4.1',
    )
    rto_high: Annotated[int, DURATION.between("1ps", maximum="549.755813888s")] = setting(
        DURATION.parse("320us"),
        "Under selective-repeat: first value of the timer otherwise. It doubles up to ack_timeout.",
        'Mittal et al., "IRN", SIGCOMM 2018, section 4.1',
    )
    rto_follows_round_trip: bool = setting(
        False,
        "Under selective-repeat: the timers start at the smoothed round trip and four times its variation where that is longer than rto_low and rto_high; before a round trip was measured, at adaptive_timeout.",
        'Mittal et al., "IRN", SIGCOMM 2018, section 4.1, has fixed timers; RFC 6298 has those that follow',
    )


class Tcp(Declared):
    """TCP of every host, as a Linux kernel has it; without effect where no traffic is tcp."""

    control: Literal["cubic", "newreno", "dctcp"] = setting(
        "cubic",
        "Congestion control: cubic (RFC 9438), newreno (RFC 5681, RFC 6582) or dctcp (RFC 8257).",
        "Linux net/ipv4/Kconfig: DEFAULT_CUBIC",
    )
    cubic_beta: float = setting(
        0.7,
        "CUBIC: the share of the window that a loss leaves.",
        "RFC 9438, section 4.6; Linux tcp_cubic.c has 717/1024, module parameter beta",
        ge=0.1,
        le=0.95,
        allow_inf_nan=False,
    )
    mtu: Annotated[int, SIZE.between("576B", maximum="9KiB")] = setting(
        SIZE.parse("1.5KB"),
        "Largest IP packet; 52 B of it are headers.",
        "IEEE 802.3: the payload of a frame that is no jumbo frame",
    )
    sack: bool = setting(
        True,
        "Selective acknowledgements (RFC 2018, RFC 6675); without them NewReno's recovery (RFC 6582).",
        "Linux tcp_ipv4.c: net.ipv4.tcp_sack = 1",
    )
    ecn: bool = setting(
        False,
        "Whether connections use ECN (RFC 3168). dctcp always does.",
        "Linux tcp_ipv4.c: net.ipv4.tcp_ecn = 2, which accepts ECN and does not ask for it",
    )
    initial_window: int = setting(
        10, "Segments of the first window.", "RFC 6928; Linux tcp.h: TCP_INIT_CWND", ge=1, le=10000
    )
    initial_rto: Annotated[int, DURATION.between("1us", maximum="600s")] | None = setting(
        None,
        "Retransmission timeout before data has measured a round trip. null: min_rto.",
        "assumption: the handshake, which is left out, has measured a short round trip by then (RFC 6298, section 2.1, and Linux, TCP_TIMEOUT_INIT, have 1 s without one)",
    )
    min_rto: Annotated[int, DURATION.between("1us", maximum="600s")] = setting(
        DURATION.parse("200ms"),
        "Shortest retransmission timeout; longer than delayed_ack, or it ends waits for ACKs that are due.",
        "Linux tcp.h: TCP_RTO_MIN (RFC 6298 has 1 s)",
    )
    max_rto: Annotated[int, DURATION.between("1us", maximum="600s")] = setting(
        DURATION.parse("120s"), "Longest retransmission timeout.", "Linux tcp.h: TCP_RTO_MAX"
    )
    delayed_ack: Annotated[int, DURATION.between("1us", maximum="600s")] = setting(
        DURATION.parse("40ms"), "Longest time that an ACK waits for more data.", "Linux tcp.h: TCP_DELACK_MIN"
    )
    ack_every: int = setting(
        2, "Full segments after which an ACK waits no longer.", "RFC 5681, section 4.2", ge=1, le=64
    )
    receive_buffer: Annotated[int, SIZE.between("1B", maximum="1GiB")] = setting(
        SIZE.parse("6MiB"),
        "Most bytes of a connection in flight or unread at its receiver.",
        "Linux tcp.c, tcp_init: the largest of net.ipv4.tcp_rmem (32 MiB in the newest kernels); its growth up to there is left out",
    )
    tso: Annotated[int, SIZE.between(maximum="512KiB")] = setting(
        SIZE.parse("64KiB"),
        "Most that TCP hands to the NIC at once, which cuts it into segments; less than a segment: segment by segment.",
        "Linux netdevice.h: GSO_LEGACY_MAX_SIZE",
    )
    small_queue: Annotated[int, SIZE.between("1B", maximum="1GiB")] = setting(
        SIZE.parse("1MiB"),
        "Most of one connection that waits in its own host's queues (TCP small queues).",
        "Linux tcp_ipv4.c: net.ipv4.tcp_limit_output_bytes = 16 bursts of 64 KiB (4 MiB in the newest kernels)",
    )


class Cpu(Declared):
    """The CPU of every host, of which TCP takes a part and RDMA none; no effect where no traffic is tcp."""

    cores: int = setting(
        16,
        "Cores, each with a receive ring and an interrupt; a hash spreads connections over them (RSS).",
        "assumption: a server of 2016 or 2017 with two processors of 8 cores (Xeon E5-2600 v4)",
        ge=1,
        le=1024,
    )
    clock: Annotated[int, FREQUENCY.between("1MHz", maximum="100GHz")] = setting(
        FREQUENCY.parse("2.6GHz"), "Cycles of a core in a second.", "assumption: Xeon E5-2600 v4 at 8 cores"
    )
    rx_ring: int = setting(
        1024,
        "Packets that a receive ring holds; more are dropped.",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE = 10",
        ge=1,
        le=1048576,
    )
    interrupt_delay: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("8us"),
        "An interrupt comes at most this long after a packet.",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_RX_CQ_MODERATION_USEC_FROM_CQE",
    )
    interrupt_packets: int = setting(
        32,
        "An interrupt comes at once when this many packets wait.",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_RX_CQ_MODERATION_PKTS",
        ge=1,
        le=65535,
    )
    napi_budget: int = setting(
        64, "Packets of a poll.", "Linux netdevice.h: NAPI_POLL_WEIGHT", ge=1, le=65535
    )
    gro: Annotated[int, SIZE.between(maximum="512KiB")] = setting(
        SIZE.parse("64KiB"),
        "Most that neighbouring segments of a connection are merged into before they go up the stack (GRO); 0: off.",
        "Linux netdevice.h: GRO_LEGACY_MAX_SIZE",
    )
    cycles_per_interrupt: float = setting(
        2500.0,
        "Cycles of an interrupt and of the begin and end of its polls.",
        "assumption: about a microsecond, the usual price of an interrupt and a softirq",
        ge=0.0,
        le=1000000000.0,
        allow_inf_nan=False,
    )
    cycles_per_packet: float = setting(
        700.0,
        "Cycles of a packet in the driver and in GRO.",
        'assumption: of the order of Cai et al., "Understanding Host Network Stack Overheads", SIGCOMM 2021, section 3: about a million packets per second and core without GRO',
        ge=0.0,
        le=1000000000.0,
        allow_inf_nan=False,
    )
    cycles_per_segment: float = setting(
        3000.0,
        "Cycles of each unit that goes through the stack: merged segments up, an ACK or a burst down.",
        'assumption: of the order of Cai et al., "Understanding Host Network Stack Overheads", SIGCOMM 2021, section 3; a microsecond of IP, TCP and the socket',
        ge=0.0,
        le=1000000000.0,
        allow_inf_nan=False,
    )
    cycles_per_byte: float = setting(
        0.32,
        "Cycles of copying a byte between kernel and application.",
        'assumption: worked out from Cai et al., "Understanding Host Network Stack Overheads", SIGCOMM 2021: 42 Gbit/s a receiving core of 3.4 GHz are 0.65 cycles a byte, half of them copying',
        ge=0.0,
        le=1000000000.0,
        allow_inf_nan=False,
    )


class Ddio(Declared):
    """Direct cache access: writes of the NIC go to some ways of the last-level cache."""

    capacity: Annotated[int, SIZE.between("1B", maximum="1TB")] = setting(
        SIZE.parse("4MB"), "What these ways hold.", "Wan et al. (RHCC), APNet 2024, section 2.2"
    )
    cpu_share: float = setting(
        0.181818,
        "Share of the cores' cache lines that are allocated in these ways.",
        "assumption: fills spread evenly, and I/O has 2 of 11 ways (Intel IIO_LLC_WAYS 0x600)",
        ge=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    working_set: Annotated[int, SIZE.between("1B", maximum="1TB")] | None = setting(
        None,
        "Bytes that are written before the first of them is written again; null: messages outstanding times their size, over all queue pairs to the host.",
        "assumption: applications use their buffers in turn, and no more of them than are outstanding",
    )


class Reads(Declared):
    """How the NIC fetches what it sends."""

    outstanding: Annotated[int, SIZE.between("1B", maximum="1GiB")] = setting(
        SIZE.parse("16KiB"), "Read requests outstanding times their size.", "assumption: 32 requests of 512 B"
    )
    latency: Annotated[int, DURATION.between("1ps", maximum="1s")] = setting(
        DURATION.parse("700ns"),
        "From a read request to its last completion.",
        "assumption: the order of a PCIe read of memory; a GPU's takes longer",
    )


class Coalescing(Declared):
    """When completions interrupt a core, as ethtool -C has it."""

    adaptive: bool = setting(
        True, "Dynamic moderation chooses usecs and frames (adaptive-rx, adaptive-tx).", "Linux mlx5 en.h: on"
    )
    usecs: int = setting(
        16,
        "An interrupt comes this long after a packet; without effect where it is adaptive.",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_TX_CQ_MODERATION_USEC; of receive queues the driver's default is adaptive",
        ge=0,
        le=65535,
    )
    frames: int = setting(
        32,
        "An interrupt comes with this many packets; without effect where it is adaptive.",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_TX_CQ_MODERATION_PKTS",
        ge=1,
        le=65535,
    )


class Costs(Declared):
    """What a packet costs a core."""

    receive: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("1.5us"),
        "Receiving it and looking up its port, up to the queueing discipline.",
        "assumption: the order of what forwarding costs a core of 3 GHz; a measurement decides",
    )
    per_byte: float = setting(
        0.0,
        "The same, ns for each byte of the frame.",
        "assumption: forwarding touches headers only",
        ge=0.0,
        le=1000.0,
        allow_inf_nan=False,
    )
    qdisc: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("0s"),
        "Queueing it and taking it out again, where the discipline is not bypassed.",
        "assumption: part of receive and transmit",
    )
    transmit: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("400ns"),
        "Handing it to the device.",
        "assumption: the order of what forwarding costs a core of 3 GHz; a measurement decides",
    )
    complete: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("150ns"),
        "Its transmit completion: unmapping and freeing it.",
        "assumption: the order of what forwarding costs a core of 3 GHz; a measurement decides",
    )
    remote_factor: float = setting(
        1.0,
        "Factor of all of these, where the core is not on the NUMA node of the device.",
        "assumption: no document says; 1 = it makes no difference",
        ge=1.0,
        le=100.0,
        allow_inf_nan=False,
    )


class Bql(Declared):
    """Byte queue limits: how much may wait in a transmit ring."""

    limit_min: Annotated[int, SIZE.between(maximum="1GiB")] = setting(
        SIZE.parse("0B"), "The limit is not below this.", "Linux lib/dynamic_queue_limits.c"
    )
    limit_max: Annotated[int, SIZE.between(maximum="1GiB")] = setting(
        SIZE.parse("1GiB"),
        "The limit is not above this.",
        "Linux lib/dynamic_queue_limits.c: DQL_MAX_LIMIT, about 1.9 GB",
    )
    hold_time: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("1s"),
        "Time over which slack is observed before the limit is lowered.",
        "Linux net/core/dev.c: HZ",
    )


class Bridge(Declared):
    """The Linux host that forwards, in softirq, between its ports."""

    rx_ring: int = setting(
        1024,
        "Descriptors of each receive ring (ethtool -G rx).",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE",
        ge=64,
        le=65536,
    )
    tx_ring: int = setting(
        1024,
        "Descriptors of each transmit ring (ethtool -G tx).",
        "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_SQ_SIZE",
        ge=64,
        le=65536,
    )
    interrupt: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("500ns"),
        "A hard interrupt, entry and exit included.",
        "assumption: the order of what forwarding costs a core of 3 GHz; a measurement decides",
    )
    idle_exit: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("1us"),
        "From an interrupt to its handler on a core that sleeps.",
        "assumption: a shallow idle state (C1) and the message over PCIe",
    )
    poll: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("200ns"),
        "The start of a poll, with its softirq.",
        "assumption: the order of what forwarding costs a core of 3 GHz; a measurement decides",
    )
    rx_latency: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("500ns"),
        "From a packet's last bit on the wire to its completion in memory.",
        "assumption: NIC and PCIe; no vendor document says",
    )
    tx_latency: Annotated[int, DURATION.between(maximum="1s")] = setting(
        DURATION.parse("500ns"),
        "From the doorbell to a packet's first bit on the wire.",
        "assumption: NIC and PCIe; no vendor document says",
    )


class Veth(Declared):
    """The veth pair of a topology of kind veth."""

    kernel: Literal["6.1", "6.18"] = setting(
        "6.18",
        "What a full ring does. 6.1 (and older): the packet is freed. 6.18 (6.16 and newer): the queue of a device with a qdisc stops until the peer's next poll ends.",
        "Linux commits dc82a33297fc and 5442a9da6978",
    )
    ring: int = setting(
        256, "Entries of the ring of each end.", "drivers/net/veth.c: VETH_RING_SIZE", ge=1, le=1048576
    )
    bql: Literal["none", "packets", "bytes"] = setting(
        "none",
        "Byte queue limits: none, as in kernels without the series; packets: one unit each, as from its v2 on; bytes: their lengths, as in v1.",
        "Linux up to 7.3: veth has none",
    )
    tx_usecs: Annotated[int, DURATION] = setting(
        DURATION.parse("100us"),
        "Time over which completions are coalesced before the limit sees them; 0us: it sees each at once. Without effect where bql is none.",
        "v7 of the series, patch 5: ethtool tx-usecs, 100 us",
    )
    multiqueue: bool = setting(
        True,
        "The device has several transmit queues and uses one, as `ip link add` makes it on a machine with several CPUs. Its qdisc hands over up to nine packets at once, whether the queue is stopped or not, and what cannot go then goes before all that come later, a ping's included. false: one at a time, as with numtxqueues 1.",
        "drivers/net/veth.c: veth_get_num_queues; net/sched/sch_generic.c: try_bulk_dequeue_skb_slow, and no TCQ_F_ONETXQUEUE",
    )
    output: Annotated[int, DURATION.between("1ps", maximum="10s")] = setting(
        DURATION.parse("500ns"),
        "To take a packet from the qdisc and put it into the ring, where a softirq does that.",
        "assumption: a third of a call of sendto",
    )


class Consumer(Declared):
    """What receiving costs in the consumer's namespace. The producer's is alike, but has no rules."""

    rules: int = setting(
        0, "Rules of iptables that each packet is compared with.", "assumption: none", ge=0, le=1000000
    )
    rule: Annotated[int, DURATION.between(maximum="10s")] = setting(
        DURATION.parse("7.7ns"),
        "A comparison with one rule.",
        "the authors' sweep on a Ryzen 5 5600X (text_sweep.txt): 10,000 rules, 13,000 packets per second",
    )
    stack: Annotated[int, DURATION.between("1ps", maximum="10s")] = setting(
        DURATION.parse("270ns"),
        "A packet's way up the stack, without rules.",
        "the authors' sweep on a Ryzen 5 5600X (text_sweep.txt): 0.57 us a packet without rules, less take",
    )
    take: Annotated[int, DURATION.between("1ps", maximum="10s")] = setting(
        DURATION.parse("300ns"),
        "To take a packet from the ring and hand it to GRO.",
        "the authors' sweep of intervals (interval.csv): 0.3 to 0.4 us between two completions of a list",
    )
    echo: float = setting(
        1.0,
        "An echo request costs this many times as much as another packet, rules included.",
        "assumption: the same",
        ge=1.0,
        le=1000.0,
        allow_inf_nan=False,
    )
    jitter: float = setting(
        0.0,
        "A poll's packets take up to this share less or more, drawn anew for each poll.",
        "assumption: none",
        ge=0.0,
        lt=1.0,
        allow_inf_nan=False,
    )
    wakeup: Annotated[int, DURATION.between(maximum="10s")] = setting(
        DURATION.parse("5us"),
        "From the wake-up of a thread, or of a core that sleeps, to its first instruction.",
        "assumption: no document says; the order of a context switch and a short sleep of a core",
    )
    napi: Literal["threaded", "softirq"] = setting(
        "threaded",
        "Where rings are polled: each in a thread with a core of its own, or in softirqs of the core that sent to it first.",
        "the authors' veth_bql_test.sh: without threads both ends share a core, and nothing builds up",
    )
    gro_batch: int = setting(
        8,
        "Packets that GRO collects before the stack sees them.",
        "Linux net/core: sysctl net.core.gro_normal_batch",
        ge=1,
        le=64,
    )


class Write(Declared):
    """RDMA WRITEs from one host to another, as `ib_write_bw` posts them."""

    qps: int = setting(1, "Queue pairs of each pair of hosts.", "perftest, ib_write_bw -q", ge=1, le=1000000)
    message: Annotated[int, SIZE.between("1B", maximum="2GiB")] = setting(
        SIZE.parse("64KiB"), "Size of a message.", "perftest, ib_write_bw -s"
    )
    depth: int = setting(
        128,
        "Messages outstanding on a queue pair. Above 8 KiB each is posted when another is done; smaller ones are posted 100 at a time, or depth at a time if that is less, when all of the last ones are done.",
        "perftest, ib_write_bw -t (tx-depth)",
        ge=1,
        le=1048576,
    )
    messages: int | None = setting(
        None,
        "Messages of each queue pair; null: until stop or the end of the run.",
        "perftest, ib_write_bw -D: for a duration",
        ge=1,
        le=1099511627776,
    )
    start: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"), "When it begins, at the earliest.", "assumption: at once"
    )
    start_spread: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"),
        "Each pair of hosts of writers, and each TCP connection, also draws a delay of its own, uniformly from 0 to this.",
        "assumption: none",
    )
    stop: Annotated[int, DURATION.between("1ps", maximum="36000s")] | None = setting(
        None, "When it ends, and nothing more is posted or written; null: with the run.", "assumption: never"
    )


class TcpConnections(Declared):
    """TCP connections from one host to another, as `iperf3` has them."""

    connections: int = setting(1, "Connections of each pair of hosts.", "iperf3 -P", ge=1, le=65536)
    bytes: Annotated[int, SIZE.between("1B", maximum="1048576TiB")] | None = setting(
        None,
        "What each connection sends; null: until stop or the end of the run.",
        "iperf3 -t: for a duration",
    )
    start: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"), "When it begins, at the earliest.", "assumption: at once"
    )
    start_spread: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"),
        "Each pair of hosts of writers, and each TCP connection, also draws a delay of its own, uniformly from 0 to this.",
        "assumption: none",
    )
    stop: Annotated[int, DURATION.between("1ps", maximum="36000s")] | None = setting(
        None, "When it ends, and nothing more is posted or written; null: with the run.", "assumption: never"
    )


class MemoryLoad(Declared):
    """Traffic of cores to memory, as Intel MLC makes it: each core keeps cache lines outstanding."""

    cores: int = Field(description="Cores that do so.", ge=1, le=4096)
    lines_per_core: int = setting(
        10,
        "Cache lines of 64 B that each keeps outstanding.",
        "assumption: the line fill buffers of an Intel core before Ice Lake",
        ge=1,
        le=4096,
    )
    read_share: float = setting(
        0.5,
        "Share of the traffic that is read.",
        "Wan et al. (RHCC), APNet 2024, section 2.2: reads and writes 1:1",
        ge=0.0,
        le=1.0,
        allow_inf_nan=False,
    )
    start: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"), "When it begins, at the earliest.", "assumption: at once"
    )
    stop: Annotated[int, DURATION.between("1ps", maximum="36000s")] | None = setting(
        None, "When it ends, and nothing more is posted or written; null: with the run.", "assumption: never"
    )


class Datagrams(Declared):
    """UDP datagrams through one socket, as fast as a thread can call sendto, or at a rate."""

    send: Annotated[int, DURATION.between("1ps", maximum="10s")] = setting(
        DURATION.parse("1.5us"),
        "A call of sendto, down to the device.",
        "assumption: about 0.7 million calls a second of one core, of datagrams of 1400 B",
    )
    interval: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"), "Time between two calls; 0us: as fast as it can.", "assumption: a flood"
    )
    sndbuf: Annotated[int, SIZE.between("1B", maximum="1TiB")] = setting(
        SIZE.parse("208KiB"),
        "Memory that the socket's packets may take until the receiver has them, as the kernel counts it: twice what setsockopt is given.",
        "Linux net/core/sock.c: sysctl net.core.wmem_default",
    )
    blocking: bool = setting(
        True,
        "A sender that finds no room sleeps until half of it is free; false: it tries again at once (MSG_DONTWAIT in a loop).",
        "POSIX: a socket blocks",
    )
    start: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"), "When it begins, at the earliest.", "assumption: at once"
    )
    stop: Annotated[int, DURATION.between("1ps", maximum="36000s")] | None = setting(
        None, "When it ends, and nothing more is posted or written; null: with the run.", "assumption: never"
    )


class Pings(Declared):
    """ICMP echo requests at regular intervals, and the round trips of their answers."""

    interval: Annotated[int, DURATION.between("1ps", maximum="36000s")] = setting(
        DURATION.parse("200ms"), "Time between two requests.", "the authors' veth_bql_test.sh: ping -i 0.2"
    )
    spread: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("4ms"),
        "Each request is sent up to this much later, drawn uniformly; less than interval.",
        "iputils: ping sleeps in recvmsg with SO_RCVTIMEO, which counts in jiffies; assumption: HZ is 250",
    )
    start: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"), "When it begins, at the earliest.", "assumption: at once"
    )
    stop: Annotated[int, DURATION.between("1ps", maximum="36000s")] | None = setting(
        None, "When it ends, and nothing more is posted or written; null: with the run.", "assumption: never"
    )


class Frames(Declared):
    """XDP frames that are redirected to the sender's device in batches: past its qdisc and its limit."""

    batch: int = setting(64, "Frames of a batch.", "v7 of the series: batches of 16 to 64", ge=1, le=4096)
    interval: Annotated[int, DURATION.between("1ps", maximum="36000s")] = Field(
        description="Time between two batches."
    )
    start: Annotated[int, DURATION.between(maximum="36000s")] = setting(
        DURATION.parse("0s"), "When it begins, at the earliest.", "assumption: at once"
    )
    stop: Annotated[int, DURATION.between("1ps", maximum="36000s")] | None = setting(
        None, "When it ends, and nothing more is posted or written; null: with the run.", "assumption: never"
    )


class Pfifo(Declared):
    """First in, first out, with a limit in packets."""

    kind: Literal["pfifo"] = Field(description="The discipline.")
    limit: int = setting(
        1000, "Most packets that wait.", "Linux: txqueuelen, of Ethernet 1000", ge=1, le=16777216
    )


class Bfifo(Declared):
    """First in, first out, with a limit in bytes."""

    kind: Literal["bfifo"] = Field(description="The discipline.")
    limit: Annotated[int, SIZE.between("1B", maximum="4.294967295GB")] | None = setting(
        None,
        "Most bytes that wait; null: 1000 times the device's MTU and 14 B.",
        "Linux net/sched/sch_fifo.c: txqueuelen times psched_mtu",
    )


class Red(Declared):
    """Random early detection: marks or drops by the average of the queue."""

    kind: Literal["red"] = Field(description="The discipline.")
    limit: Annotated[int, SIZE.between("1B", maximum="4.294967295GB")] = Field(
        description="Most bytes that wait."
    )
    min: Annotated[int, SIZE.between("1B", maximum="4.294967295GB")] | None = setting(
        None,
        "Average from which on packets are marked with a probability; null: a third of max.",
        "iproute2 tc/q_red.c",
    )
    max: Annotated[int, SIZE.between("1B", maximum="4.294967295GB")] | None = setting(
        None,
        "Average from which on all packets are marked; null: three times min, without min a quarter of limit.",
        "iproute2 tc/q_red.c",
    )
    avpkt: Annotated[int, SIZE.between("1B", maximum="65.535KB")] = Field(
        description="Size of an average packet."
    )
    burst: int | None = setting(
        None,
        "Packets of a burst that is let through: with avpkt and min it gives the weight of the average. null: (2 min + max) / (3 avpkt).",
        "iproute2 tc/q_red.c",
        ge=1,
        le=16777216,
    )
    bandwidth: Annotated[int, RATE.between("8bps", maximum="34.35973836Gbps")] = setting(
        RATE.parse("10Mbps"), "Rate by which the average of an idle queue decays.", "iproute2 tc/q_red.c"
    )
    probability: float = setting(
        0.02, "Probability at max.", "iproute2 tc/q_red.c", gt=0.0, lt=1.0, allow_inf_nan=False
    )
    ecn: bool = setting(
        False, "Mark ECT packets instead of dropping them; others are dropped.", "iproute2 tc/q_red.c"
    )
    harddrop: bool = setting(False, "With ecn: above max drop ECT packets, too.", "iproute2 tc/q_red.c")
    whole_us: bool = setting(
        False,
        "Whether tc counts the time of avpkt at bandwidth in whole microseconds, rounded down. Where that gives 0, an idle average is halved at once, and gone after 255 us.",
        "iproute2 tc/tc_core.c from 2025 on; before that: true",
    )


class CodelDelays(Declared):
    """CoDel's settings, for one queue or for each of many."""

    target: Annotated[int, DURATION.between("1us", maximum="1000s")] = setting(
        DURATION.parse("5ms"), "Acceptable wait.", "RFC 8289, section 4.3"
    )
    interval: Annotated[int, DURATION.between("1us", maximum="1000s")] = setting(
        DURATION.parse("100ms"),
        "How long the wait must exceed the target before the first drop.",
        "RFC 8289, section 4.3",
    )
    stale: bool = setting(
        False,
        "Whether a flow whose queue ran empty still counts as waiting too long, so that its next packet can be dropped.",
        "Linux 7.0 (commit 815980fe6dbb) and stable kernels that took it over; all before them: true",
    )


class Codel(Declared):
    """One queue, whose packets are dropped or marked when they have waited too long for an interval."""

    kind: Literal["codel"] = Field(description="The discipline.")
    limit: int = setting(1000, "Most packets that wait.", "Linux net/sched/sch_codel.c", ge=1, le=16777216)
    ecn: bool = setting(False, "Mark ECT packets instead of dropping them.", "Linux net/sched/sch_codel.c")


class FqCodel(Declared):
    """A queue for each flow, served in turn, with CoDel in each."""

    kind: Literal["fq_codel"] = Field(description="The discipline.")
    limit: int = setting(
        10240, "Most packets that wait.", "Linux net/sched/sch_fq_codel.c", ge=1, le=16777216
    )
    flows: int = setting(
        1024, "Queues that flows are hashed to.", "Linux net/sched/sch_fq_codel.c", ge=1, le=65536
    )
    quantum: Annotated[int, SIZE.between("1B", maximum="2.147483647GB")] | None = setting(
        None,
        "Bytes that a flow sends in a round; null: the device's MTU and 14 B of Ethernet header.",
        "Linux net/sched/sch_fq_codel.c",
    )
    ecn: bool = setting(True, "Mark ECT packets instead of dropping them.", "Linux net/sched/sch_fq_codel.c")
    memory_limit: Annotated[int, SIZE.between("1B", maximum="2GiB")] = setting(
        SIZE.parse("32MiB"), "Most memory that waiting packets take.", "Linux net/sched/sch_fq_codel.c"
    )
    drop_batch: int = setting(
        64,
        "Most packets that are dropped at once when it is full.",
        "Linux net/sched/sch_fq_codel.c",
        ge=1,
        le=16777216,
    )


class Sfq(Declared):
    """A queue for each flow, served in turn; when full, the longest queue drops its last packet."""

    kind: Literal["sfq"] = Field(description="The discipline.")
    limit: int = setting(127, "Most packets that wait.", "Linux net/sched/sch_sfq.c", ge=1, le=16777216)
    depth: int = setting(127, "Most packets of a flow that wait.", "Linux net/sched/sch_sfq.c", ge=1, le=127)
    flows: int = setting(128, "Most flows that wait.", "Linux net/sched/sch_sfq.c", ge=1, le=65408)
    divisor: int = setting(
        1024, "Values of the hash, a power of two.", "Linux net/sched/sch_sfq.c", ge=1, le=65536
    )
    quantum: Annotated[int, SIZE.between("1B", maximum="2.147483647GB")] | None = setting(
        None,
        "Bytes that a flow sends in a round; null: the device's MTU and 14 B of Ethernet header.",
        "Linux net/sched/sch_sfq.c",
    )


class Tbf(Declared):
    """A rate and a burst: packets wait in another discipline until there are tokens for them."""

    kind: Literal["tbf"] = Field(description="The discipline.")
    rate: Annotated[int, RATE.between("8bps", maximum="100Tbps")] = Field(
        description="Rate that is not exceeded."
    )
    burst: Annotated[int, SIZE.between("1B", maximum="4.294967295GB")] = Field(
        description="Size of the bucket: what may be sent at once. Larger packets are dropped."
    )
    limit: Annotated[int, SIZE.between("1B", maximum="4.294967295GB")] | None = setting(
        None, "Most bytes that wait, where there is no child.", "assumption: child is set"
    )


Start = Annotated[int, DURATION.between(maximum="36000s")]
"""When something begins, or how much later: within the bounds of traffic."""
RunTime = Annotated[int, DURATION.between("1ps", maximum="36000s")]
"""When something ends, or how long it takes: likewise."""
Message = Annotated[int, SIZE.between("1B", maximum="2GiB")]
"""Size of a message of RDMA."""
