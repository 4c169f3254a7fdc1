"""Drawn settings of hosts: NICs, transport, congestion control, PCIe, memory, TCP; and of bridges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drawn import Dice, Scale

Json = dict[str, Any]


def host(dice: Dice, scale: Scale, hosts: list[str]) -> Json:
    """The section `host`."""
    from drawn import bps, classification, ps, size, weights

    span = scale.duration
    control = dice.pick("dcqcn", "dcqcn", "dcqcn", "none", "none", "hpcc", "timely", "dctcp")
    found: Json = {"mtu": f"{scale.mtu}B", "congestion": control}
    found |= dice.settings(
        0.2,
        rx_latency=lambda: ps(dice.pick(0, dice.log(1, 3_000_000), dice.log(1, 50_000_000))),
        ect=lambda: False,
        cnp_priority=lambda: dice.pick("data", 0, 3, 7),
        strict=lambda: dice.pick([], [6], [3], [0, 3, 6]),
    )
    if dice.chance(0.15):
        found["weights"] = weights(dice, found.get("strict") or [])
    if dice.chance(0.12):
        found["qos"] = classification(dice)
    transport = dice.settings(
        0.4,
        ack_every=lambda: dice.pick(1, 2, 64, 65536),
        retry_count=lambda: dice.whole(0, 7),
        nak_reaction=lambda: ps(dice.log(1, span)),
        nak_delay=lambda: ps(dice.log(1, span)),
        slow_restart=lambda: dice.pick("never", "timeout", "loss"),
        losses_are_cnps=lambda: dice.pick(True, False),
        loss_recovery=lambda: dice.pick("go-back-n", "selective-repeat"),
        window_packets=lambda: dice.pick(None, 1, 7, 500, 65_535),
        reordering=lambda: dice.pick(1, 3, 100, 65_535),
        rto_low=lambda: ps(dice.log(1_000_000, 1_000_000_000)),
        rto_high=lambda: ps(dice.log(1_000_000, 1_000_000_000)),
    )
    if dice.chance(0.6):
        transport["ack_timeout"] = ps(dice.log(span / 50 + 1, span))
        first = dice.pick(None, dice.log(span / 200 + 1, span / 50 + 1))
        transport["adaptive_timeout"] = first and ps(first)
    found["transport"] = transport
    rate = scale.rate
    if control == "dcqcn" and dice.chance(0.7):
        found["dcqcn"] = _dcqcn(dice)
    elif control == "hpcc":
        found["hpcc"] = dice.settings(
            0.3,
            eta=lambda: dice.share(0.3, 1.0),
            max_stage=lambda: dice.pick(0, 1, 5, 1000),
            additive=lambda: size(dice.log(1, 10_000)),
            min_rate=lambda: bps(dice.log(1e6, rate)),
            telemetry=lambda: size(dice.log(1, 1024)),
        )
    elif control == "timely":
        found["timely"] = dice.settings(
            0.3,
            alpha=lambda: dice.pick(0.02, 0.875, 1.0),
            beta=lambda: dice.pick(0.01, 0.8, 1.0),
            additive=lambda: bps(dice.log(1e6, rate)),
            hyper_after=lambda: dice.pick(0, 1, 5),
            t_low=lambda: ps(dice.log(1, span)),
            t_high=lambda: ps(dice.log(1, span)),
            min_rtt=lambda: dice.pick("auto", "20us", ps(dice.log(1000, span))),
            segment=lambda: dice.pick("0B", "16KB", size(dice.log(1, 100_000))),
            min_rate=lambda: bps(dice.log(1e6, rate)),
            telemetry=lambda: size(dice.log(1, 1024)),
        )
    elif control == "dctcp":
        found["dctcp"] = dice.settings(
            0.3,
            g=lambda: dice.pick(0.001, 0.0625, 1.0),
            additive=lambda: bps(dice.log(1e6, rate)),
            min_rate=lambda: bps(dice.log(1e6, rate)),
            window_rtt=lambda: dice.pick(None, "auto", ps(dice.log(1000, span))),
        )
    if dice.chance(0.28):
        found["path"] = _path(dice, scale)
        if dice.chance(0.3):
            found["rhcc"] = _rhcc(dice, scale)
        if dice.chance(0.2):
            found["hostcc"] = {"enabled": True, **dice.settings(0.3, mark=lambda: False)}
            found["hostcc"] |= dice.settings(0.3, iio_threshold=lambda: dice.share(0, 100))
    if dice.chance(0.12):
        found["path_by_host"] = [{"hosts": dice.some(hosts, 1)[:2], **_path(dice, scale)}]
    found["tcp"] = _tcp(dice, scale)
    if dice.chance(0.7):
        found["cpu"] = _cpu(dice)
    return found


def _dcqcn(dice: Dice) -> Json:
    return {
        "profile": dice.pick("connectx", "sigcomm15", "alibaba"),
        **dice.settings(
            0.15,
            dce_tcp_g=lambda: dice.pick(0, 512, 1024),
            dce_tcp_rtt=lambda: dice.log(1, 1000),
            initial_alpha_value=lambda: dice.whole(0, 1024),
            rate_to_set_on_first_cnp=lambda: dice.log(1, 100_000),
            rpg_min_dec_fac=lambda: dice.whole(0, 100),
            rpg_min_rate=lambda: dice.log(1, 1000),
            rpg_gd=lambda: dice.whole(10, 30),
            rate_reduce_monitor_period=lambda: dice.pick(0, 1, 100),
            clamp_tgt_rate=lambda: dice.chance(0.5),
            clamp_tgt_rate_after_time_inc=lambda: dice.chance(0.5),
            rpg_time_reset=lambda: dice.log(1, 1000),
            rpg_byte_reset=lambda: dice.pick(0, 1, dice.log(1, 10**7)),
            rpg_threshold=lambda: dice.whole(0, 6),
            rpg_ai_rate=lambda: dice.pick(0, dice.log(1, 100_000)),
            rpg_hai_rate=lambda: dice.pick(0, dice.log(1, 100_000)),
            rpg_max_rate=lambda: dice.pick(0, dice.log(1000, 2_000_000)),
            min_time_between_cnps=lambda: dice.pick(0, 1, 50),
            byte_reset_unit_bytes=lambda: dice.pick(1, 64),
            release_at_max_rate=lambda: dice.chance(0.5),
            cnp_interval_per=lambda: dice.pick("qp", "destination", "port"),
        ),
    }


def _rhcc(dice: Dice, scale: Scale) -> Json:
    from drawn import bps, ps, size

    return {
        "sender": dice.chance(0.8),
        "receiver": dice.chance(0.6),
        **dice.settings(
            0.25,
            probe_bytes=lambda: size(dice.log(1, 100_000)),
            threshold_delay=lambda: ps(dice.log(1000, 2_000_000)),
            law=lambda: dice.pick("pid", "aimd"),
            alpha=lambda: dice.pick(0.0, 0.0005, 1.0),
            beta=lambda: dice.pick(0.0, 0.0005, 1.0),
            decrease=lambda: dice.share(),
            floor=lambda: bps(dice.log(1e6, scale.rate)),
            idle_probe=lambda: dice.pick(None, ps(dice.log(100_000, scale.duration + 100_000))),
            sample_interval=lambda: ps(dice.log(100_000, 10_000_000)),
            write_time=lambda: ps(dice.log(1, scale.duration)),
        ),
    }


def _path(dice: Dice, scale: Scale) -> Json:
    from drawn import bps, ps, size

    def buffer() -> Json:
        # `draw` doubles a lossless part that is too small for what comes after a pause.
        found = {"lossless_size": size(dice.log(9216, 1_000_000))}
        found |= dice.settings(
            0.25,
            lossy_size=lambda: size(dice.log(9216, 1_000_000)),
            lossless=lambda: dice.pick([], [0], [3], [0, 3, 6]),
            cnp_threshold=lambda: dice.pick(None, size(dice.log(1, 300_000))),
            quanta=lambda: dice.log(2, 65535),
            response_delay=lambda: ps(dice.pick(0, dice.log(1, 5_000_000))),
            cable_len=lambda: dice.whole(1, 300),
            xon=lambda: "0B",
        )
        return found

    def memory() -> Json:
        return dice.settings(
            0.3,
            bandwidth=lambda: bps(dice.log(1e9, 2e12)),
            service=lambda: ps(dice.pick(0, dice.log(1, 100_000))),
            write_queue=lambda: dice.log(1, 1000),
            write_wait=lambda: dice.pick(0.0, 7.0, 100.0),
            read_spread=lambda: dice.share(),
            cpu_latency=lambda: ps(dice.log(1, 1_000_000)),
            ddio=lambda: dice.pick(
                None,
                dice.settings(
                    0.5,
                    capacity=lambda: size(dice.log(64, 1e7)),
                    cpu_share=lambda: dice.share(),
                    working_set=lambda: size(dice.log(64, 1e8)),
                ),
            ),
        )

    def gpu() -> Json:
        stalls = {"interval": ps(dice.log(1e6, 1e9)), "duration": ps(dice.log(1e3, 5e7))}
        return dice.settings(
            0.4,
            bandwidth=lambda: bps(dice.log(1e9, 1e12)),
            hops=lambda: dice.whole(0, 16),
            hop_latency=lambda: ps(dice.log(1, 1_000_000)),
            outstanding=lambda: size(dice.log(4096, 1e6)),
            stalls=lambda: stalls,
        )

    found: Json = {"preset": dice.pick("pcie3-x8", "pcie3-x16", "pcie4-x16", "pcie5-x16")}
    found |= {"target": dice.pick("memory", "memory", "gpu"), "receive_buffer": buffer()}
    found |= dice.settings(
        0.25,
        rate=lambda: bps(dice.log(1e9, 1e12)),
        max_payload=lambda: size(2 ** dice.whole(7, 12)),
        header_credits=lambda: dice.log(1, 1000),
        iio_lines=lambda: dice.log(64, 4000),
        credit_latency=lambda: ps(dice.pick(0, dice.log(1, 5_000_000))),
        iio_latency=lambda: ps(dice.pick(0, dice.log(1, 20_000_000))),
        reads=lambda: dice.settings(
            0.7, outstanding=lambda: size(dice.log(1, 1e6)), latency=lambda: ps(dice.log(1, 5_000_000))
        ),
    )
    found["memory"] = memory()
    if found["target"] == "gpu":
        found["gpu"] = gpu()
    return found


def memory_load(dice: Dice, scale: Scale, hosts: list[str], data: Json) -> None:
    """Adds load on the memory of hosts that have a path."""
    from drawn import ps

    path = data["host"].get("path")
    own = {name for one in data["host"].get("path_by_host", ()) for name in one["hosts"]}
    usable = [name for name in hosts if name not in own]
    if path is None or path["target"] != "memory" or not usable or dice.chance(0.4):
        return
    data["memory_load"] = [
        {
            "host": dice.some(usable, 1)[:3],
            "cores": dice.log(1, 128),
            **dice.settings(
                0.3,
                lines_per_core=lambda: dice.log(1, 100),
                read_share=lambda: dice.share(),
                start=lambda: ps(dice.whole(0, scale.duration - 1)),
            ),
        }
        for _ in range(dice.whole(1, 2))
    ]


def _tcp(dice: Dice, scale: Scale) -> Json:
    from drawn import ps, size

    # Timeouts have no part in a run that is over before the first.
    short = {"min_rto": ps(dice.log(2e6, 2e6 + scale.duration)), "delayed_ack": "1us"}
    return {
        "control": dice.pick("cubic", "newreno", "dctcp"),
        **(short if dice.chance(0.7) else {}),
        **dice.settings(
            0.25,
            mtu=lambda: dice.pick("576B", "1500B", "9000B", "9216B"),
            sack=lambda: False,
            ecn=lambda: True,
            initial_window=lambda: dice.log(1, 1000),
            ack_every=lambda: dice.pick(1, 2, 64),
            receive_buffer=lambda: size(dice.log(1, 1e7)),
            tso=lambda: size(dice.log(1, 524_288)),
            small_queue=lambda: size(dice.log(1, 1e7)),
        ),
    }


def _cpu(dice: Dice) -> Json:
    from drawn import ps

    return dice.settings(
        0.3,
        cores=lambda: dice.pick(1, 2, 16, 100),
        clock=lambda: f"{dice.log(1e8, 1e10)}Hz",
        rx_ring=lambda: dice.log(1, 4096),
        interrupt_delay=lambda: ps(dice.pick(0, dice.log(1, 5e7))),
        interrupt_packets=lambda: dice.log(1, 128),
        napi_budget=lambda: dice.log(1, 256),
        gro=lambda: dice.pick("0B", "64KiB", "512KiB"),
        cycles_per_interrupt=lambda: dice.pick(0, 2500, 100_000),
        cycles_per_packet=lambda: dice.pick(0, 700, 20_000),
        cycles_per_segment=lambda: dice.pick(0, 3000),
        cycles_per_byte=lambda: dice.pick(0, 0.32, 10),
    )


def bridge(dice: Dice, scale: Scale, hosts: list[str]) -> Json:
    """The section `bridge`."""
    from drawn import ps, size

    count = dice.whole(1, 4)
    cores: list[Json] = [
        {
            "cpu": number,
            **dice.settings(0.15, numa=lambda: 1, isolated=lambda: True, guest=lambda: dice.chance(0.5)),
        }
        for number in range(count)
    ]
    cores[0].pop("isolated", None)
    usable = [core["cpu"] for core in cores if not core.get("isolated")]
    ports = []
    for name in dice.some(hosts):
        irqs = [dice.pick(*usable) for _ in range(dice.whole(1, 4))]
        rss = {"rss": [dice.whole(0, len(irqs) - 1) for _ in range(3)]} if dice.chance(0.2) else {}
        ports.append({"to": name, "numa": dice.pick(0, 0, 1), "irqs": irqs, **rss})

    def moderation() -> Json:
        return {"adaptive": dice.chance(0.5), "usecs": dice.pick(0, 1, 16, 200), "frames": dice.log(1, 200)}

    return {
        "cores": cores,
        "ports": ports,
        **dice.settings(
            0.4,
            rx_ring=lambda: dice.log(64, 2048),
            tx_ring=lambda: dice.log(64, 2048),
            rx=moderation,
            tx=moderation,
            bql=lambda: dice.pick(None, {"limit_max": size(dice.log(100, 1e6))}),
            qdisc=lambda: qdisc(dice, scale.rate, nowhere=False),
            costs=lambda: dice.settings(
                0.4,
                receive=lambda: ps(dice.log(1000, 5e6)),
                per_byte=lambda: dice.share(0, 2),
                qdisc=lambda: ps(dice.log(1, 1e6)),
                transmit=lambda: ps(dice.log(1000, 1e6)),
                complete=lambda: ps(dice.log(1000, 1e6)),
                remote_factor=lambda: dice.pick(1, 1.5, 4),
            ),
            interrupt=lambda: ps(dice.log(1000, 1e6)),
            idle_exit=lambda: ps(dice.pick(0, dice.log(1, 1e7))),
            rx_latency=lambda: ps(dice.pick(0, dice.log(1, 1e6))),
            tx_latency=lambda: ps(dice.pick(0, dice.log(1, 1e6))),
        ),
    }


def qdisc(dice: Dice, rate: int, *, nowhere: bool, leaf: bool = False) -> Json | None:
    """A queueing discipline. `nowhere`: it may hold nothing; `leaf`: it is inside of another."""
    from drawn import bps, ps, size

    kinds = ["pfifo", "bfifo", "red", "codel", "fq_codel", "sfq", "tbf", "noqueue"]
    kind = dice.pick(*[one for one in kinds if (one != "tbf" or not leaf) and (one != "noqueue" or nowhere)])
    found: Json = {"kind": kind}
    if kind == "pfifo":
        found["limit"] = dice.log(1, 2000)
    elif kind == "bfifo":
        found["limit"] = size(dice.log(1, 2e6))
    elif kind == "red":
        limit, packet = dice.log(20_000, 1e6), dice.pick(500, 1000, 1500)
        found |= {"limit": size(limit), "avpkt": size(packet), "probability": dice.share(0.001, 0.9)}
        found |= dice.settings(
            0.4,
            ecn=lambda: True,
            harddrop=lambda: True,
            bandwidth=lambda: bps(dice.log(1e7, 3e10)),
            whole_us=lambda: True,
        )
    elif kind == "tbf":
        found |= {"rate": bps(dice.log(1e7, rate)), "burst": size(dice.log(2000, 1e6))}
        if dice.chance(0.5):
            found["limit"] = size(dice.log(1, 1e6))
        else:
            found["child"] = qdisc(dice, rate, nowhere=False, leaf=True)
    elif kind in ("codel", "fq_codel"):
        found |= dice.settings(
            0.4,
            target=lambda: ps(dice.whole(1, 1000) * 10**6),
            interval=lambda: ps(dice.whole(1, 5000) * 10**6),
            stale=lambda: True,
            ecn=lambda: dice.chance(0.5),
            limit=lambda: dice.log(1, 10_000),
        )
        if kind == "fq_codel":
            found |= dice.settings(
                0.3,
                flows=lambda: dice.log(1, 1024),
                quantum=lambda: size(dice.log(1, 20_000)),
                memory_limit=lambda: size(dice.log(1, 1e7)),
                drop_batch=lambda: dice.log(1, 64),
            )
    elif kind == "sfq":
        found |= dice.settings(
            0.4,
            limit=lambda: dice.log(1, 500),
            depth=lambda: dice.whole(1, 127),
            flows=lambda: dice.log(1, 200),
            divisor=lambda: 2 ** dice.whole(0, 16),
            quantum=lambda: size(dice.log(1, 20_000)),
        )
    return found
