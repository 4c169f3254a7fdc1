"""`tailback import sonic` of several switches: one scenario with each switch's own settings, and their links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tailback
from tailback.cli import main
from tailback.imports.sonic_fabric import sonic_fabric
from tailback.plan import make_plan
from tailback.scenario.load import loads

LEAF = {"buffer": 32_000_000, "ecn": (100_000, 400_000), "mtu": "9100", "pfc": "3,4"}
SPINE = {"buffer": 64_000_000, "ecn": (500_000, 2_000_000), "mtu": "9100", "pfc": "3,4"}


def config(
    name: str, ports: dict[str, int], neighbours: dict[str, tuple[str, str]], **own: Any
) -> dict[str, Any]:
    """config_db.json of a switch with these ports (Mbit/s) and, by port, a neighbour and its port."""
    kind = {**LEAF, **own}
    low, high = kind["ecn"]
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": name}},
        "PORT": {
            port: {"speed": str(speed), "mtu": kind["mtu"], "admin_status": "up"}
            for port, speed in ports.items()
        },
        "CABLE_LENGTH": {"AZURE": dict.fromkeys(ports, kind.get("cable", "40m"))},
        "DEVICE_NEIGHBOR": {port: {"name": other, "port": far} for port, (other, far) in neighbours.items()},
        "BUFFER_POOL": {
            "ingress_lossless_pool": {
                "size": str(kind["buffer"]),
                "type": "ingress",
                "mode": "dynamic",
                "xoff": "4000000",
            }
        },
        "BUFFER_PROFILE": {
            "lossless": {
                "pool": "ingress_lossless_pool",
                "size": "0",
                "dynamic_th": "0",
                "xoff": "60000",
                "xon": "18432",
            }
        },
        "BUFFER_PG": {f"{port}|3-4": {"profile": "lossless"} for port in ports},
        "WRED_PROFILE": {
            "RED": {
                "ecn": "ecn_all",
                "green_min_threshold": str(low),
                "green_max_threshold": str(high),
                "green_drop_probability": "5",
            }
        },
        "QUEUE": {f"{port}|3-4": {"wred_profile": "RED"} for port in ports},
        "PORT_QOS_MAP": {port: {"pfc_enable": kind["pfc"]} for port in ports},
    }


def fabric() -> dict[str, dict[str, Any]]:
    """Two leaves with a server each at 100 Gbit/s and one link at 400 Gbit/s to each of two spines."""
    configs = {}
    for leaf in range(2):
        neighbours = {"Ethernet0": (f"server{leaf}", "eth0")}
        neighbours |= {
            f"Ethernet{8 + 8 * spine}": (f"spine{spine}", f"Ethernet{8 * leaf}") for spine in range(2)
        }
        ports = {"Ethernet0": 100_000, "Ethernet8": 400_000, "Ethernet16": 400_000}
        configs[f"leaf{leaf}"] = config(f"leaf{leaf}", ports, neighbours)
    for spine in range(2):
        neighbours = {f"Ethernet{8 * leaf}": (f"leaf{leaf}", f"Ethernet{8 + 8 * spine}") for leaf in range(2)}
        configs[f"spine{spine}"] = config(
            f"spine{spine}", dict.fromkeys(neighbours, 400_000), neighbours, **SPINE
        )
    return configs


def written(folder: Path, configs: dict[str, dict[str, Any]]) -> list[Path]:
    paths = []
    for name, one in configs.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(one), encoding="utf-8")
    return paths


def test_each_switch_keeps_its_own_settings(tmp_path: Path) -> None:
    plan = make_plan(loads(sonic_fabric(written(tmp_path, fabric()))))
    models = {one["name"]: plan["switch_models"][one["model"]] for one in plan["switches"]}
    assert {name: model["buffer"] for name, model in models.items()} == {
        "leaf0": 36_000_000,
        "leaf1": 36_000_000,
        "spine0": 68_000_000,
        "spine1": 68_000_000,
    }
    assert {entry["k_max"] for entry in models["leaf1"]["ecn"] if 3 in entry["priorities"]} == {400_000}
    assert {entry["k_max"] for entry in models["spine1"]["ecn"] if 3 in entry["priorities"]} == {2_000_000}
    links = {(one["a"], one["b"]): (one["rate"], one["delay"]) for one in plan["links"]}
    assert links == {
        **{
            (f"leaf{leaf}", f"spine{spine}"): (400 * 10**9, 200_000)
            for leaf in range(2)
            for spine in range(2)
        },
        ("h0", "leaf0"): (100 * 10**9, 200_000),
        ("h1", "leaf1"): (100 * 10**9, 200_000),
    }


def test_it_runs(tmp_path: Path) -> None:
    result = tailback.run(loads(sonic_fabric(written(tmp_path, fabric()))))
    assert result.summary["goodput"]["total_bps"] > 85e9
    assert not result.faults


def test_neighbours_may_be_in_a_table(tmp_path: Path) -> None:
    configs = fabric()
    rows = [
        f"{name},{port},{entry['name']},{entry['port']}"
        for name, one in configs.items()
        for port, entry in one.pop("DEVICE_NEIGHBOR").items()
    ]
    links = tmp_path / "links.csv"
    links.write_text("\n".join(["switch,port,neighbor,neighbor_port", *rows, ""]), encoding="utf-8")
    paths = written(tmp_path, configs)
    from_table = sonic_fabric(paths, links)
    assert make_plan(loads(from_table)) == make_plan(loads(sonic_fabric(written(tmp_path, fabric()))))


def test_what_two_ends_disagree_on_is_listed(tmp_path: Path) -> None:
    configs = fabric()
    configs["spine0"]["PORT"]["Ethernet0"] |= {"mtu": "1500", "speed": "200000"}
    configs["spine1"]["PORT_QOS_MAP"]["Ethernet8"]["pfc_enable"] = "3"
    configs["spine1"]["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = "300m"
    text = sonic_fabric(written(tmp_path, configs))
    said = text.partition("# The two ends of links")[2]
    for words in (
        "leaf0 Ethernet8-spine0 Ethernet0: speed is 400Gbps and 200Gbps",
        "leaf0 Ethernet8-spine0 Ethernet0: mtu is 9100 and 1500",
        "leaf1 Ethernet16-spine1 Ethernet8: pfc_enable is 3,4 and 3",
        "leaf0 Ethernet16-spine1 Ethernet0: CABLE_LENGTH is 40m and 300m",
    ):
        assert words in said, said
    assert "    - leaf0 spine0 200Gbps 200ns" in text
    assert "    - leaf0 spine1 400Gbps 1.5us" in text
    assert "disagree" not in sonic_fabric(written(tmp_path, fabric())).partition("# The two ends")[2]


def test_several_links_between_two_switches_are_one_of_their_rate_and_said(tmp_path: Path) -> None:
    configs = {
        "a": config(
            "a",
            dict.fromkeys(("Ethernet0", "Ethernet4", "Ethernet8"), 100_000),
            {"Ethernet0": ("b", "Ethernet0"), "Ethernet4": ("b", "Ethernet4")},
        ),
        "b": config("b", dict.fromkeys(("Ethernet0", "Ethernet4", "Ethernet8"), 100_000), {}),
    }
    text = sonic_fabric(written(tmp_path, configs))
    assert "    - a b 200Gbps 200ns" in text
    assert "a-b: 2 links between them are one of the summed rate here" in text


def test_links_side_by_side_add_up_and_the_longest_counts(tmp_path: Path) -> None:
    ports = {"Ethernet0": 100_000, "Ethernet4": 400_000, "Ethernet8": 100_000}
    both = {port: ("b", port) for port in ("Ethernet0", "Ethernet4")}
    configs = {"a": config("a", ports, both), "b": config("b", ports, {})}
    for one in configs.values():
        one["CABLE_LENGTH"]["AZURE"]["Ethernet4"] = "300m"
    text = sonic_fabric(written(tmp_path, configs))
    assert "    - a b 500Gbps 1.5us" in text
    assert "a-b: CABLE_LENGTH of its links is 40m to 300m; the longest counts" in text


def test_a_port_has_one_link(tmp_path: Path) -> None:
    configs = fabric()
    configs["spine1"]["DEVICE_NEIGHBOR"]["Ethernet0"] = {"name": "leaf0", "port": "Ethernet8"}
    text = sonic_fabric(written(tmp_path, configs))
    assert "its link to leaf0 Ethernet8 is left out, as spine1 Ethernet0 has another link" in text
    assert text.count("Ethernet8-Ethernet0") == 1


def test_aliases_and_other_case_name_ports_and_switches(tmp_path: Path) -> None:
    configs = fabric()
    for one in configs.values():
        for port, entry in one["PORT"].items():
            entry["alias"] = port.replace("Ethernet", "Eth1/")
        for entry in one["DEVICE_NEIGHBOR"].values():
            entry["port"] = entry["port"].replace("Ethernet", "Eth1/")
            entry["name"] = entry["name"].upper()
    assert make_plan(loads(sonic_fabric(written(tmp_path, configs)))) == make_plan(
        loads(sonic_fabric(written(tmp_path, fabric())))
    )


def test_ports_to_the_chassis_are_left_out_and_said(tmp_path: Path) -> None:
    configs = fabric()
    configs["leaf0"]["PORT"]["Ethernet-Rec0"] = {"speed": "400000", "admin_status": "up", "role": "Rec"}
    text = sonic_fabric(written(tmp_path, configs))
    assert "leaf0: Ethernet-Rec0: left out, as ports to its own chassis" in text
    assert "h2" not in text


def test_a_port_without_speed_or_length_is_said(tmp_path: Path) -> None:
    configs = fabric()
    del configs["leaf0"]["PORT"]["Ethernet0"]["speed"]
    del configs["leaf1"]["CABLE_LENGTH"]["AZURE"]["Ethernet0"]
    text = sonic_fabric(written(tmp_path, configs))
    assert "leaf0 Ethernet0: no speed is given" in text
    assert "leaf1 Ethernet0: no CABLE_LENGTH is given" in text


def test_hostnames_that_are_no_names_here_are_said(tmp_path: Path) -> None:
    configs = fabric()
    configs["leaf0"]["DEVICE_METADATA"]["localhost"]["hostname"] = "leaf.0"
    for one in configs.values():
        for entry in one["DEVICE_NEIGHBOR"].values():
            entry["name"] = "leaf.0" if entry["name"] == "leaf0" else entry["name"]
    text = sonic_fabric(written(tmp_path, configs))
    assert "the switch leaf.0 is leaf-0 here" in text
    assert "    - leaf-0 spine0 400Gbps" in text


def test_a_fabric_in_parts_names_what_was_left_out(tmp_path: Path) -> None:
    configs = fabric()
    for port in ("Ethernet8", "Ethernet16"):
        configs["leaf0"]["PORT"][port]["admin_status"] = "down"
    with pytest.raises(
        tailback.InputError, match=r"found no link from leaf0 to .*its link to spine0 Ethernet0 is left out"
    ):
        sonic_fabric(written(tmp_path, configs))


def test_a_table_of_links_may_have_hosts_first_and_a_byte_order_mark(tmp_path: Path) -> None:
    links = tmp_path / "links.csv"
    rows = [
        "server0,eth0,leaf0,Ethernet0",
        "leaf0,Ethernet8,spine0,Ethernet0",
        "spine0,Ethernet8,leaf1,Ethernet8",
        "leaf0,Ethernet16,spine1,Ethernet0",
    ]
    links.write_bytes("\n".join(["\ufeffswitch,port,neighbor,neighbor_port", *rows, ""]).encode())
    text = sonic_fabric(written(tmp_path, fabric()), links)
    assert "h0 leaf0 100Gbps 200ns  # Ethernet0: server0" in text
    assert "leaf0 spine0 400Gbps 200ns" in text
    links.write_text(
        "switch,port,neighbor,neighbor_port\nleaf0,Ethernet0,leaf0,Ethernet0\n", encoding="utf-8"
    )
    with pytest.raises(tailback.InputError, match=r"links\.csv:2: found leaf0 Ethernet0 twice"):
        sonic_fabric(written(tmp_path, fabric()), links)


def test_a_link_to_a_port_that_is_down_is_left_out_and_said(tmp_path: Path) -> None:
    configs = fabric()
    configs["spine0"]["PORT"]["Ethernet0"]["admin_status"] = "down"
    text = sonic_fabric(written(tmp_path, configs))
    assert "- leaf0 spine0" not in text
    assert "leaf0 Ethernet8: its link to spine0 Ethernet0 is left out, as Ethernet0 there is down" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda configs: configs["spine1"]["DEVICE_METADATA"]["localhost"].update(hostname="spine0"),
            "found the switch spine0",
        ),
        (
            lambda configs: [one.pop("DEVICE_NEIGHBOR") for one in configs.values()],
            "found no link between two",
        ),
        (lambda configs: configs["leaf1"]["PORT"]["Ethernet0"].update(speed="fast"), "PORT|Ethernet0.speed"),
    ],
)
def test_a_bad_file_is_one_line(
    change: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = fabric()
    change(configs)
    assert main(["import", "sonic", *map(str, written(tmp_path, configs))]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert len(captured.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("switch,port\n", "links.csv:1: found no column neighbor"),
        (
            "switch,port,neighbor,neighbor_port\ntor9,Ethernet0,tor8,Ethernet0\n",
            "links.csv:2: found the switch 'tor9'",
        ),
        (
            "switch,port,neighbor,neighbor_port\nleaf0,Ethernet0\n",
            "links.csv:2: found another number of columns",
        ),
        (None, "links.csv: found no such file"),
    ],
)
def test_a_bad_table_of_links_is_one_line(
    text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = tmp_path / "links.csv"
    if text is not None:
        links.write_text(text, encoding="utf-8")
    paths = written(tmp_path, fabric())
    assert main(["import", "sonic", *map(str, paths), "--links", str(links)]) == 2
    assert words in capsys.readouterr().err
