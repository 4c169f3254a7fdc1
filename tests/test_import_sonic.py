"""`tailback import sonic`: a switch's config_db.json as a scenario that loads.

The values are those of SONiC's public samples: sonic-buildimage, src/sonic-config-engine/tests/sample_output,
py3/qos-nokia-ixr7250e-36x400g.json (maps, WRED_PROFILE, SCHEDULER) and py3/buffer-ft2-p64.json (BUFFER_POOL);
lossless profiles with dynamic_th -3 and xoff 177632, and with xon 18432 and xoff 35840, as in its documents.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import tailback.cli as cli
from tailback.plan import make_plan
from tailback.scenario import loads

PORTS = [f"Ethernet{8 * number}" for number in range(4)]
IDENTITY = {str(number): str(number) for number in range(8)}
DSCP = {str(dscp): "1" for dscp in range(64)} | {"3": "3", "4": "4", "5": "2", "8": "0", "46": "5", "48": "6"}

CONFIG: dict[str, Any] = {
    "DEVICE_METADATA": {"localhost": {"hostname": "str2-7250-lc1-1"}},
    "PORT": {port: {"speed": "400000", "mtu": "9100", "admin_status": "up"} for port in PORTS},
    "BUFFER_POOL": {
        "ingress_lossless_pool": {
            "size": "164733224",
            "type": "ingress",
            "mode": "dynamic",
            "xoff": "17962880",
        },
        "egress_lossless_pool": {"size": "164733224", "type": "egress", "mode": "static"},
    },
    "BUFFER_PROFILE": {
        "egress_lossy_profile": {"pool": "egress_lossless_pool", "size": "1778", "dynamic_th": "0"},
        "egress_lossless_profile": {"pool": "egress_lossless_pool", "size": "0", "static_th": "82682080"},
        "pg_lossless_400000_40m_profile": {
            "pool": "ingress_lossless_pool",
            "size": "1248",
            "dynamic_th": "-3",
            "xoff": "177632",
            "xon": "2288",
            "xon_offset": "2288",
        },
    },
    "BUFFER_PG": {f"{port}|3-4": {"profile": "pg_lossless_400000_40m_profile"} for port in PORTS},
    "WRED_PROFILE": {
        "AZURE_LOSSLESS": {
            "ecn": "ecn_all",
            **{f"{colour}_max_threshold": "10000000" for colour in ("green", "yellow", "red")},
            **{f"{colour}_min_threshold": "2000000" for colour in ("green", "yellow", "red")},
            **{f"{colour}_drop_probability": "5" for colour in ("green", "yellow", "red")},
        }
    },
    "QUEUE": {
        **{f"{port}|3-4": {"wred_profile": "AZURE_LOSSLESS", "scheduler": "scheduler.1"} for port in PORTS},
        **{f"{port}|0-2": {"scheduler": "scheduler.0"} for port in PORTS},
        **{f"{port}|6": {"scheduler": "scheduler.2"} for port in PORTS},
    },
    "SCHEDULER": {
        "scheduler.0": {"type": "DWRR", "weight": "14"},
        "scheduler.1": {"type": "DWRR", "weight": "15"},
        "scheduler.2": {"type": "STRICT"},
    },
    "PORT_QOS_MAP": {
        "global": {"dscp_to_tc_map": "AZURE"},
        **{
            port: {
                "dscp_to_tc_map": "AZURE",
                "tc_to_queue_map": "AZURE",
                "tc_to_pg_map": "AZURE",
                "pfc_to_queue_map": "AZURE",
                "pfc_enable": "3,4",
                "pfcwd_sw_enable": "3,4",
            }
            for port in PORTS
        },
    },
    "DSCP_TO_TC_MAP": {"AZURE": DSCP},
    "TC_TO_QUEUE_MAP": {"AZURE": IDENTITY},
    "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {**dict.fromkeys(IDENTITY, "0"), "3": "3", "4": "4", "7": "7"}},
    "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": IDENTITY},
    "PFC_WD": {
        "GLOBAL": {"POLL_INTERVAL": "200"},
        **{port: {"action": "drop", "detection_time": "200", "restoration_time": "200"} for port in PORTS},
    },
    "VLAN": {"Vlan1000": {}},
}


def imported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Any = CONFIG
) -> tuple[int, str, str]:
    """Status, output and errors of the command."""
    file = tmp_path / "config_db.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    status = cli.main(["import", "sonic", str(file)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def changed(table: str, **entries: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    config.setdefault(table, {}).update(entries)
    return config


def test_a_switch_becomes_a_scenario_that_loads(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, text, errors = imported(capsys, tmp_path)
    assert (status, errors) == (0, "")
    scenario = loads(text)
    assert scenario.name == "str2-7250-lc1-1"
    switch, plan = scenario.switch, make_plan(scenario)
    model = plan["switch_models"][0]
    assert plan["links"][0]["rate"] == 400 * 10**9
    assert plan["links"][0]["headroom_bytes"] == 177_632
    assert len(plan["links"]) == 4
    # The pool, and the pool of headroom beside it.
    assert (model["shared_bytes"], model["buffer"]) == (164_733_224, 164_733_224 + 17_962_880)
    assert model["pfc"]["headroom_pool"] == 17_962_880
    assert (switch.ingress_alpha, switch.egress_alpha) == (0.125, 1.0)
    assert model["lossless"] == [3, 4]
    assert switch.strict == [6]
    assert switch.weights is not None
    assert sum(switch.weights.values()) == 100
    assert switch.weights[3] >= switch.weights[0]
    assert switch.qos.class_of(3, 0) == 3
    assert switch.qos.class_of(26, 0) == 1
    assert switch.qos.class_of(48, 0) == 6
    marks = {key: value for key, value in model["ecn"][0].items() if key != "rate_bps"}
    assert marks == {
        "priorities": [3, 4],
        "k_min": 2_000_000,
        "k_max": 10_000_000,
        "p_max": 0.05,
    }
    assert model["pfc"]["xon_offset"] == 2288
    assert model["watchdog"]["detection_time"] == 200 * 10**9
    # DSCP 3 is the lossless class 3, at the hosts, too: by the class selectors it would be 0.
    assert scenario.host.qos.class_of(3, 0) == 3
    assert plan["nics"][0]["class_of"][plan["writers"][0]["code_point"]] == 3
    left = text[text.index("# Not honoured:") :]
    for what in ("POLL_INTERVAL", "xon: beside xon_offset", "size: nothing is reserved", "VLAN"):
        assert what in left
    assert "WRED_PROFILE|AZURE_LOSSLESS green_min_threshold" in text, "each value says where it is from"


def test_references_of_older_versions_and_lists_of_ports(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = copy.deepcopy(CONFIG)
    config["BUFFER_PROFILE"]["pg"] = {"dynamic_th": "0", "xon": "18432", "xoff": "35840", "size": "54272"}
    config["BUFFER_PG"] = {f"{','.join(PORTS)}|3-4": {"profile": "[BUFFER_PROFILE|pg]"}}
    config["QUEUE"] = {
        f"lc1|asic0|{port}|3": {"wred_profile": "[WRED_PROFILE|AZURE_LOSSLESS]"} for port in PORTS
    }
    model = make_plan(loads(imported(capsys, tmp_path, config)[1]))["switch_models"][0]
    assert (model["ingress_alpha"], model["pfc"]["xon"]) == (1.0, 18432)
    assert model["ecn"][0]["priorities"] == [3]


def test_ports_that_differ_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = changed(
        "PORT",
        Ethernet24={"speed": "100000", "admin_status": "up"},
        Ethernet32={"speed": "1", "admin_status": "down"},
    )
    _, text, _ = imported(capsys, tmp_path, config)
    assert "# - PORT speed: 1 of 4 is other than 400000" in text
    assert "# - PORT: those with admin_status down" in text
    assert len(make_plan(loads(text))["links"]) == 4


@pytest.mark.parametrize(
    ("table", "entry", "left"),
    [
        ("PFC_WD", {port: {"action": "forward"} for port in PORTS}, "PFC_WD action forward"),
        ("WRED_PROFILE", {"AZURE_LOSSLESS": {"ecn": "ecn_none"}}, "without ecn nothing is marked"),
        ("BUFFER_POOL", {"ingress_third_pool": {"size": "1", "type": "ingress"}}, "ingress_third_pool"),
        ("MAP_PFC_PRIORITY_TO_QUEUE", {"AZURE": {**IDENTITY, "3": "5"}}, "class 3 has"),
        ("BUFFER_PG", {f"{port}|3-4": {"profile": "NULL"} for port in PORTS}, "headroom is auto"),
        ("SCHEDULER", {"scheduler.0": {"type": "WRR", "weight": "1", "pir": "5"}}, "shaping"),
    ],
)
def test_what_has_no_place_is_listed(
    table: str, entry: dict[str, Any], left: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, text, errors = imported(capsys, tmp_path, changed(table, **entry))
    assert (status, errors) == (0, "")
    loads(text)
    assert left in text[text.index("# Not honoured:") :]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("{", "found no JSON at line 1, column 2 ("),
        ("", "found an empty file"),
        ("null", "found null and no mapping"),
        ("<DeviceMiniGraph/>", "found XML, perhaps a minigraph, expected"),
        ({"localhost": {}, "asic0": CONFIG}, "found SONiC's tables below asic0"),
        (changed("BUFFER_PG", **{"Ethernet0|3-4": None}), "BUFFER_PG|Ethernet0|3-4: found null"),
        (changed("PORT_QOS_MAP", Ethernet0={"pfc_enable": "3-4"}), "Ethernet0.pfc_enable: found '3-4'"),
        (
            changed(
                "WRED_PROFILE",
                AZURE_LOSSLESS={
                    **CONFIG["WRED_PROFILE"]["AZURE_LOSSLESS"],
                    "green_drop_probability": "500",
                },
            ),
            "WRED_PROFILE|AZURE_LOSSLESS.green_drop_probability: found 500, expected 0 to 100",
        ),
        ("[]", "expected a config_db.json"),
        ({"VLAN": {}}, "found none of SONiC's tables"),
        (
            changed("PORT", Ethernet0={"speed": "fast", "admin_status": "up"}),
            "PORT|Ethernet0.speed: found 'fast', expected a whole",
        ),
        (changed("PORT", Ethernet0=7), "PORT|Ethernet0: found a number, expected a mapping of fields"),
        ({"PORT": []}, "PORT: found a list, expected a mapping"),
        (
            changed("DSCP_TO_TC_MAP", AZURE={"70": "1"}),
            "DSCP_TO_TC_MAP|AZURE: found the key 70, expected keys of 0 to 63",
        ),
        (changed("QUEUE", **{"Ethernet0|x": {}}), "QUEUE|Ethernet0|x: found 'x', expected a class"),
        (
            changed(
                "WRED_PROFILE",
                AZURE_LOSSLESS={"ecn": "ecn_all", "green_min_threshold": "9", "green_max_threshold": "1"},
            ),
            "WRED_PROFILE|AZURE_LOSSLESS.green_min_threshold: found 9, expected at most green_max_threshold, 1",
        ),
    ],
)
def test_bad_input_is_one_line(
    config: Any, problem: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, text, errors = imported(capsys, tmp_path, config)
    assert (status, text) == (2, "")
    assert len(errors.splitlines()) == 1
    assert problem in errors


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["import", "sonic", str(tmp_path / "none.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


FILES = Path(__file__).parent / "data" / "sonic"


def switch_of(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """The engine's switch for a file, and the text of the scenario."""
    assert cli.main(["import", "sonic", str(FILES / name)]) == 0
    text = capsys.readouterr().out
    plan: dict[str, Any] = make_plan(loads(text))
    return plan["switch_models"][0], text


@pytest.mark.parametrize("name", ["no-pfc-at-all.json", "pool-without-pfc.json", "flat-dump.json"])
def test_without_pfc_enable_nothing_is_lossless(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, text = switch_of(name, capsys)
    assert model["lossless"] == []
    assert "SONiC sends and obeys no PFC" in text
    no_table = "no PORT_QOS_MAP in the file" in text
    assert no_table == ("# - the table PORT_QOS_MAP: no class is lossless" in text)
    assert no_table == ("PORT_QOS_MAP" not in (FILES / name).read_text())


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("PORT_QOS_MAP", "PORT_QOS_MAP pfc_enable: 3 of 4 ports have none"),
        ("QUEUE", "QUEUE 3 wred_profile: 3 of 4 ports have none"),
        ("QUEUE", "QUEUE 3 scheduler: 3 of 4 ports have none"),
        ("BUFFER_PG", "BUFFER_PG profile of lossless groups: 3 of 4 ports have none"),
        ("BUFFER_QUEUE", "BUFFER_QUEUE profile of lossy queues: 3 of 4 ports have none"),
        ("CABLE_LENGTH", "CABLE_LENGTH: 3 of 4 ports have none"),
        ("PFC_WD", "PFC_WD: 3 of 4 ports have none"),
    ],
)
def test_ports_without_an_entry_are_counted(
    table: str, line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A value that one port has becomes that of all, and the others are said to have none."""
    config = copy.deepcopy(CONFIG)
    config.setdefault("PFC_WD", {port: {"action": "drop", "detection_time": "200"} for port in PORTS})
    config.setdefault("CABLE_LENGTH", {"AZURE": dict.fromkeys(PORTS, "5m")})
    config.setdefault("BUFFER_QUEUE", {f"{port}|0-2": {"profile": "egress_lossy_profile"} for port in PORTS})
    entries = config[table]["AZURE"] if table == "CABLE_LENGTH" else config[table]
    _, whole, _ = imported(capsys, tmp_path, config)
    assert "have none" not in whole
    for key in [key for key in entries if PORTS[0] not in key.split("|")[0].split(",")]:
        del entries[key]
    assert entries
    _, text, _ = imported(capsys, tmp_path, config)
    assert f"# - {line}\n" in text
    assert loads(text).switch == loads(whole).switch


def test_entries_of_ports_that_are_down_do_not_count(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Files have profiles of no memory for ports that are down, and those ports may be the most."""
    config = copy.deepcopy(CONFIG)
    config["BUFFER_QUEUE"] = {f"{port}|0-2": {"profile": "egress_lossy_profile"} for port in PORTS}
    _, without, _ = imported(capsys, tmp_path, config)
    down = [f"Ethernet{8 * number}" for number in range(4, 12)]
    for number, port in enumerate(down):
        config["PORT"][port] = {"speed": "100"} | ({"admin_status": "down"} if number % 2 else {})
        config["BUFFER_PG"][f"{port}|3-4"] = {"profile": "ingress_zero_profile"}
        config["BUFFER_QUEUE"][f"{port}|0-2"] = {"profile": "egress_zero_profile"}
        config["QUEUE"][f"{port}|3"] = {"scheduler": "none", "wred_profile": "none"}
        config["PORT_QOS_MAP"][port] = {"pfc_enable": "1"}
    for way, pool in (("ingress", "ingress_lossless_pool"), ("egress", "egress_lossless_pool")):
        profile = {"pool": pool, "size": "0", "dynamic_th": "-8"}
        config["BUFFER_PROFILE"][f"{way}_zero_profile"] = profile
    _, text, _ = imported(capsys, tmp_path, config)
    left = "# - PORT: those with admin_status down, or without one, for which SONiC takes down\n"
    assert left in text
    assert text.replace(left, "") == without


def test_ports_of_a_file_that_says_of_none_that_it_is_up(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = copy.deepcopy(CONFIG)
    for port in config["PORT"].values():
        del port["admin_status"]
    _, text, _ = imported(capsys, tmp_path, config)
    assert len(make_plan(loads(text))["links"]) == 4
    assert "# - PORT admin_status up: all 4 ports are taken as up" in text


@pytest.mark.parametrize(
    ("table", "entry", "left"),
    [
        ("DOT1P_TO_TC_MAP", {"AZURE": {}}, "tables of classes, queues and buffers that are not read: DOT1P"),
        ("BUFFER_PORT_INGRESS_PROFILE_LIST", {"Ethernet0": {}}, "that are not read: BUFFER_PORT_INGRESS"),
        ("VLAN", {"Vlan2": {}}, "tables that say nothing of queues: VLAN"),
        ("BUFFER_POOL", {"ingress_lossy_pool": {"type": "ingress", "percentage": "9"}}, "percentage: not"),
        ("BUFFER_POOL", {"ingress_lossy_pool": {"type": "ingress", "xoff": "9"}}, "_lossy_pool xoff: not"),
        (
            "PORT",
            {"Ethernet0": {**CONFIG["PORT"]["Ethernet0"], "pfc_asym": "on"}},
            "PORT pfc_asym on",
        ),
        (
            "WRED_PROFILE",
            {
                "AZURE_LOSSLESS": {
                    **CONFIG["WRED_PROFILE"]["AZURE_LOSSLESS"],
                    "wred_green_enable": "false",
                }
            },
            "wred_green_enable false",
        ),
    ],
)
def test_what_is_not_read_is_listed_for_what_it_is(
    table: str, entry: dict[str, Any], left: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = copy.deepcopy(CONFIG)
    config[table] = config.get(table, {}) | entry
    _, text, _ = imported(capsys, tmp_path, config)
    assert left in text[text.index("# Not honoured:") :]


def test_a_byte_order_mark_is_no_content(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, plain, _ = imported(capsys, tmp_path, CONFIG)
    path = tmp_path / "marked.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8-sig")
    assert cli.main(["import", "sonic", str(path)]) == 0
    assert capsys.readouterr().out == plain


@pytest.mark.parametrize(
    ("name", "memory_bytes"),
    [
        ("shared-headroom.json", 14_000_000),
        ("shared-headroom-64.json", 5_000_000),
        ("deep-buffer.json", 6_011_000_000),
    ],
)
def test_a_pool_of_headroom_is_memory_of_its_own(
    name: str, memory_bytes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert switch_of(name, capsys)[0]["buffer"] == memory_bytes


def test_pools_and_profiles_may_have_any_name(capsys: pytest.CaptureFixture[str]) -> None:
    model, text = switch_of("other-names.json", capsys)
    assert (model["shared_bytes"], model["ingress_alpha"], model["egress_alpha"]) == (60_000_000, 0.125, 0.25)
    assert make_plan(loads(text))["links"][0]["delay"] == 300 * 5000, "the cable is 300 m long"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-speed.json", "speed of ports: 100Gbps"),
        ("no-port-table.json", "the table PORT: 4 ports are named in others"),
        ("class-8.json", "TC_TO_QUEUE_MAP|AZURE: classes above 7"),
        ("no-pfc-at-all.json", "memory of the switch: 16MB"),
    ],
)
def test_what_the_file_does_not_say_is_listed(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"# - {words}" in switch_of(name, capsys)[1]


def test_lossless_and_lossy_classes_may_have_pools_of_their_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lossy = {"size": "20000000", "type": "ingress", "mode": "dynamic"}
    _, text, _ = imported(capsys, tmp_path, changed("BUFFER_POOL", ingress_lossy_pool=lossy))
    model = make_plan(loads(text))["switch_models"][0]
    assert model["pools"] == {"lossless_bytes": 164_733_224, "lossy_bytes": 20_000_000}


def test_a_template_is_no_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = '{%- set ports = PORT %}\n{"BUFFER_POOL": {{ pools }}}'
    status, _, errors = imported(capsys, tmp_path, text)
    assert status == 2
    assert "found a Jinja template" in errors


def drawn(rng: random.Random) -> dict[str, Any]:
    """The configuration with some of its tables, entries and fields gone, or with another value."""
    config = copy.deepcopy(CONFIG)
    for _ in range(rng.randint(1, 6)):
        table = rng.choice(sorted(config))
        entries = config[table]
        key = rng.choice(sorted(entries)) if entries else None
        field = rng.choice(sorted(entries[key])) if key and entries[key] else None
        kind = rng.random()
        if key is None or kind < 0.15:
            del config[table]
        elif field is None or kind < 0.3:
            del entries[key]
        elif kind < 0.5:
            del entries[key][field]
        else:
            values = [
                "0",
                "1",
                "3",
                "7",
                "9",
                "64",
                "100000",
                "4294967296",
                "99999999999",
                "-3",
                "-9",
                "AZURE",
            ]
            entries[key][field] = rng.choice(values)
        if not config:
            return CONFIG
    return config


@pytest.mark.parametrize("seed", range(150))
def test_it_loads_or_names_a_table_of_the_file(
    seed: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = drawn(random.Random(seed))
    status, text, errors = imported(capsys, tmp_path, config)
    if status == 0:
        loads(text)
    else:
        assert status == 2
        for line in errors.splitlines():
            where = line.removeprefix(f"{tmp_path}/config_db.json: ")
            assert any(where.startswith(table) for table in CONFIG) or "none of SONiC's tables" in where, line


@pytest.mark.parametrize("without_port", [False, True])
@pytest.mark.parametrize("zeros", range(5))
@pytest.mark.parametrize(
    "zero",
    [
        ("ingress_lossless_zero_profile", {"size": "0", "dynamic_th": "-8"}),
        ("unused", {"size": "0", "static_th": "0"}),
        ("none_at_all", {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "-8"}),
    ],
)
def test_zero_profiles_of_ports_that_are_not_in_use_give_no_threshold(
    zero: tuple[str, dict[str, str]],
    zeros: int,
    without_port: bool,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    config = copy.deepcopy(CONFIG)
    config["BUFFER_PROFILE"][zero[0]] = zero[1]
    for port in PORTS[:zeros]:
        config["BUFFER_PG"][f"{port}|3-4"] = {"profile": zero[0]}
    if without_port:
        del config["PORT"]
    status, out, _ = imported(capsys, tmp_path, config)
    assert status == 0
    assert "2^-8" not in out
    assert (f"{2 * zeros} of 8 are zero profiles, as ports that are not in use have" in out) == (zeros > 0)
    if zeros < 4:
        assert "ingress_alpha: 0.125 " in out
    else:
        assert "ingress_alpha:" not in out
        assert "dynamic_th of lossless groups: alpha" in out


def twice(config: dict[str, Any], table: str, key: str | None, field: str | None) -> str:
    """The file with a table, a key or a field a second time."""
    inner = (
        config[table] if key is None else config[table][key] if field is None else config[table][key][field]
    )
    name = field or key or table
    one = f"{json.dumps(name)}: {json.dumps(inner)}"
    marked = json.loads(json.dumps(config))
    if key is None:
        marked = {**marked, "MARK": 1}
    elif field is None:
        marked[table]["MARK"] = 1
    else:
        marked[table][key]["MARK"] = 1
    return json.dumps(marked).replace('"MARK": 1', one)


READ = [
    (table, key, field)
    for table in CONFIG
    for key in (None, next(iter(CONFIG[table])))
    for field in (None, *([next(iter(CONFIG[table][key]), None)] if key else []))
    if table != "VLAN" and (key is not None or field is None)
]


@pytest.mark.parametrize(("table", "key", "field"), READ)
def test_a_key_twice_in_a_table_that_is_read_is_named(
    table: str,
    key: str | None,
    field: str | None,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    status, _, said = imported(capsys, tmp_path, twice(CONFIG, table, key, field))
    assert status == 2
    (line,) = said.splitlines()
    assert f"{table}" in line
    assert f"{field or key or 'the table'} twice, expected each once" in line


@pytest.mark.parametrize(("key", "field"), [(None, None), ("Vlan1000", None), ("Vlan1000", "vlanid")])
def test_a_key_twice_in_a_table_that_is_not_read_does_not_matter(
    key: str | None, field: str | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = {**CONFIG, "VLAN": {"Vlan1000": {"vlanid": "1000"}}}
    status, out, _ = imported(capsys, tmp_path, twice(config, "VLAN", key, field))
    assert status == 0
    assert out == imported(capsys, tmp_path, config)[1]


def test_a_key_twice_in_a_dump_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    flat = {f"{table}|{key}": entry for table, keys in CONFIG.items() for key, entry in keys.items()}
    text = json.dumps({**flat, "MARK": 1})
    for name, refused in [("PORT|Ethernet0", True), ("VLAN|Vlan1000", False)]:
        again = text.replace('"MARK": 1', f"{json.dumps(name)}: {json.dumps(flat[name])}")
        status, _, said = imported(capsys, tmp_path, again)
        assert status == (2 if refused else 0)
        assert ("PORT: found the key Ethernet0 twice" in said) == refused


NO_NUMBERS = ["1_000", "\uff11\uff12", "1e3", "0x10", "9" * 5000, "", " "]


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize(
    "path",
    [
        ("BUFFER_POOL", "ingress_lossless_pool", "size"),
        ("BUFFER_PROFILE", "pg_lossless_400000_40m_profile", "dynamic_th"),
        ("WRED_PROFILE", "AZURE_LOSSLESS", "green_max_threshold"),
        ("SCHEDULER", "scheduler.0", "weight"),
        ("PORT", "Ethernet0", "speed"),
        ("PFC_WD", "Ethernet0", "detection_time"),
        ("DSCP_TO_TC_MAP", "AZURE", "3"),
        ("CABLE_LENGTH", "AZURE", "Ethernet0"),
    ],
)
def test_what_only_python_takes_for_a_number_is_refused(
    path: tuple[str, str, str], text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = json.loads(json.dumps(CONFIG))
    config.setdefault(path[0], {}).setdefault(path[1], {})[path[2]] = text
    status, _, said = imported(capsys, tmp_path, config)
    assert status == 2
    (line,) = said.splitlines()
    assert f"{path[0]}|{path[1]}.{path[2]}: found " in line


@pytest.mark.parametrize("weight", ["0", "-3"])
def test_a_weight_below_1_is_refused(weight: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = json.loads(json.dumps(CONFIG))
    config["SCHEDULER"]["scheduler.0"]["weight"] = weight
    _, _, said = imported(capsys, tmp_path, config)
    assert f"SCHEDULER|scheduler.0.weight: found {weight}, expected 1 or more" in said


@pytest.mark.parametrize("table", ["BUFFER_PG", "QUEUE", "BUFFER_QUEUE"])
def test_a_range_of_classes_from_high_to_low_is_refused(
    table: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = json.loads(json.dumps(CONFIG))
    config.setdefault(table, {})["Ethernet0|4-3"] = {"profile": "pg_lossless_400000_40m_profile"}
    _, _, said = imported(capsys, tmp_path, config)
    assert f"{table}|Ethernet0|4-3: found '4-3', expected a class or a range of them" in said


@pytest.mark.parametrize("name", ["a\nb: c", "\x1b[31m", "x\r\ny", "#:{", "\u202e"])
def test_names_of_the_file_stay_in_their_comments(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = json.loads(json.dumps(CONFIG))
    config["BUFFER_PROFILE"][name] = config["BUFFER_PROFILE"]["pg_lossless_400000_40m_profile"]
    config["WRED_PROFILE"][name] = config["WRED_PROFILE"]["AZURE_LOSSLESS"]
    for entry in config["BUFFER_PG"].values():
        entry["profile"] = name
    for entry in config["QUEUE"].values():
        if "wred_profile" in entry:
            entry["wred_profile"] = name
    status, out, _ = imported(capsys, tmp_path, config)
    assert status == 0
    assert all(line.isprintable() for line in out.splitlines())
    assert "ingress_alpha: 0.125" in out
    loads(out)
