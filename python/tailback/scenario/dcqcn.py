"""DCQCN's parameters under their mlnx names, the profiles that set them together, and single overrides.

Sources: NVIDIA, "DCQCN CC Parameters" (ConnectX-4 and later); Zhu et al., "Congestion Control for Large-Scale
RDMA Deployments", SIGCOMM 2015; Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from tailback.scenario.fields import Part, setting

U32_MAX = 2**32 - 1
_FROM_PROFILE = "the profile"
_NVIDIA = 'NVIDIA "DCQCN CC Parameters"'
_ZHU = "Zhu et al., SIGCOMM 2015"
_HPCC = "Li et al. (HPCC), SIGCOMM 2019"

Value = int | bool | str


@dataclass(frozen=True)
class Profile:
    """A setting of all parameters.

    `source` is that of every value without one of its own in `sources`. The rates in `per_25_gbps` hold for a
    link of 25 Gbit/s and grow with the link.
    """

    about: str
    source: str
    values: Mapping[str, Value]
    sources: Mapping[str, str] = field(default_factory=dict)
    per_25_gbps: frozenset[str] = frozenset()


_CONNECTX: dict[str, Value] = {
    "dce_tcp_g": 1019,
    "dce_tcp_rtt": 1,
    "initial_alpha_value": 1023,
    "rate_to_set_on_first_cnp": 0,
    "rpg_min_dec_fac": 50,
    "rpg_min_rate": 1,
    "rpg_gd": 11,
    "rate_reduce_monitor_period": 4,
    "clamp_tgt_rate": False,
    "clamp_tgt_rate_after_time_inc": True,
    "rpg_time_reset": 300,
    "rpg_byte_reset": 32767,
    "rpg_threshold": 1,
    "rpg_ai_rate": 5,
    "rpg_hai_rate": 50,
    "rpg_max_rate": 0,
    "min_time_between_cnps": 4,
    "byte_reset_unit_bytes": 1,
    "release_at_max_rate": True,
    "cnp_interval_per": "qp",
}
_READINGS: dict[str, str] = {
    "byte_reset_unit_bytes": "assumption: a tool's help text says bytes; 32767 then fills the 15-bit field",
    "release_at_max_rate": "assumption: a tool's help text: at rpg_max_rate the rate limiter is released",
    "cnp_interval_per": "assumption: documents differ; for a host or the port, RoCE Rocks would pause on",
}
_NOT_GIVEN = "assumption: not given there; the connectx value"

PROFILES: dict[str, Profile] = {
    "connectx": Profile(
        about="ConnectX-4 and later as shipped",
        source=f"{_NVIDIA}, defaults",
        values=_CONNECTX,
        sources=_READINGS,
    ),
    "sigcomm15": Profile(
        about="The paper's own evaluation at 40 Gbit/s",
        source=f"{_ZHU}, sections 3.1 and 5",
        values={
            **_CONNECTX,
            "dce_tcp_g": 1020,
            "dce_tcp_rtt": 55,
            "initial_alpha_value": 1024,
            "rate_reduce_monitor_period": 0,
            "clamp_tgt_rate": True,
            "rpg_time_reset": 55,
            "rpg_byte_reset": 10_000_000,
            "rpg_threshold": 5,
            "rpg_ai_rate": 40,
            "rpg_hai_rate": 50,
            "min_time_between_cnps": 50,
            "release_at_max_rate": False,
        },
        sources={
            "dce_tcp_g": f"{_ZHU}, section 5: g = 1/256, so (1024 - 4)/1024 of alpha remains",
            "dce_tcp_rtt": f"{_ZHU}, section 5: alpha timer 55 us",
            "initial_alpha_value": f"{_ZHU}, section 3.1: alpha starts at 1",
            "rpg_min_rate": _NOT_GIVEN,
            "rpg_min_dec_fac": f"{_ZHU}, equation 1: a cut by alpha/2 never takes more than half",
            "rate_reduce_monitor_period": "Zhu et al., SIGCOMM 2015, equation 1: a cut on each CNP, at once",
            "clamp_tgt_rate": f"{_ZHU}, equation 1: every cut sets the target to the rate before it",
            "clamp_tgt_rate_after_time_inc": "assumption: without effect where every cut sets the target",
            "rpg_time_reset": f"{_ZHU}, section 5: rate timer 55 us",
            "rpg_byte_reset": f"{_ZHU}, section 5: byte counter 10 MB",
            "rpg_threshold": f"{_ZHU}, section 3.1: F = 5",
            "rpg_ai_rate": f"{_ZHU}, section 3.1: R_AI = 40 Mb/s",
            "rpg_hai_rate": "assumption: the paper gives no figure; the connectx value",
            "min_time_between_cnps": f"{_ZHU}, section 3.1: 50 us",
            "byte_reset_unit_bytes": f"{_ZHU}, section 5: byte counter 10 MB",
            "release_at_max_rate": f"{_ZHU}, figure 7: nothing there releases the limiter",
            "cnp_interval_per": f"{_ZHU}, section 3.1: for each flow",
        },
    ),
    "alibaba": Profile(
        about="Alibaba's production setting; its ECN (100 KB, 400 KB per 25 Gbit/s) belongs to the switch",
        source=f"{_HPCC}, the DCQCN that Alibaba runs",
        values={
            **_CONNECTX,
            "dce_tcp_g": 1020,
            "rpg_min_rate": 1000,
            "rpg_byte_reset": 0,
        },
        sources={
            **_READINGS,
            "dce_tcp_g": f"{_HPCC}: g = 1/256, so (1024 - 4)/1024 of alpha remains",
            "initial_alpha_value": _NOT_GIVEN,
            "rate_to_set_on_first_cnp": _NOT_GIVEN,
            "rpg_min_dec_fac": _NOT_GIVEN,
            "rpg_gd": _NOT_GIVEN,
            "clamp_tgt_rate": _NOT_GIVEN,
            "clamp_tgt_rate_after_time_inc": _NOT_GIVEN,
            "rpg_byte_reset": "assumption: not given there; the authors' simulator has no byte counter",
            "rpg_max_rate": _NOT_GIVEN,
            "min_time_between_cnps": _NOT_GIVEN,
        },
        per_25_gbps=frozenset({"rpg_ai_rate", "rpg_hai_rate"}),
    ),
}


def _flag(value: Any) -> Any:
    """The driver takes its flags as 0 and 1."""
    return bool(value) if type(value) is int and value in (0, 1) else value


Flag = Annotated[bool, BeforeValidator(_flag), WithJsonSchema({"enum": [False, True, 0, 1]})]


def _parameter(about: str, minimum: int = 0, maximum: int = U32_MAX) -> Any:
    return setting(None, about, _FROM_PROFILE, ge=minimum, le=maximum)


def _other(about: str) -> Any:
    return setting(None, about, _FROM_PROFILE)


class Dcqcn(Part):
    """DCQCN: a profile, and what differs from it under the mlnx names, in the NIC's own units."""

    profile: Literal["connectx", "sigcomm15", "alibaba"] = setting(
        "connectx",
        "Which setting the parameters start from: "
        + "; ".join(f"{name}: {profile.about}" for name, profile in PROFILES.items())
        + ".",
        "the NIC as it is shipped",
    )
    dce_tcp_g: int | None = _parameter("Share of alpha that remains after a period, in 1/1024.", 0, 1024)
    dce_tcp_rtt: int | None = _parameter("Period of the update of alpha, in us.", 1)
    initial_alpha_value: int | None = _parameter("Alpha at the first CNP of a flow, in 1/1024.", 0, 1024)
    rate_to_set_on_first_cnp: int | None = _parameter("Rate at the first CNP, in Mb/s; 0: the line rate.")
    rpg_min_dec_fac: int | None = _parameter("Least share of the rate that a cut leaves, in %.", 0, 100)
    rpg_min_rate: int | None = _parameter("Lowest rate of a queue pair, in Mb/s.", 1)
    rpg_gd: int | None = _parameter("A cut gives rate * (1 - alpha / 2^(rpg_gd - 10)).", 10, 30)
    rate_reduce_monitor_period: int | None = _parameter(
        "At most one cut in this period, in us; 0: at each CNP."
    )
    clamp_tgt_rate: Flag | None = _other("Every cut sets the target to the rate before it.")
    clamp_tgt_rate_after_time_inc: Flag | None = _other(
        "Where not every cut sets the target: one after an increase by the timer does, "
        "not only one after an increase by the byte counter."
    )
    rpg_time_reset: int | None = _parameter("Period of the timer of rate increases, in us.", 1)
    rpg_byte_reset: int | None = _parameter(
        "Data between two rate increases by the byte counter, in byte_reset_unit_bytes; 0: no byte counter."
    )
    rpg_threshold: int | None = _parameter("Increases of either counter before fast recovery ends.")
    rpg_ai_rate: int | None = _parameter("Additive increase of the target, in Mb/s.")
    rpg_hai_rate: int | None = _parameter("Hyper increase of the target, in Mb/s.")
    rpg_max_rate: int | None = _parameter("Highest rate, in Mb/s; 0: the line rate.")
    min_time_between_cnps: int | None = _parameter("Least time between two CNPs of the receiver, in us.")
    byte_reset_unit_bytes: Literal[1, 64] | None = _other("Reading: the unit of rpg_byte_reset, in bytes.")
    release_at_max_rate: Flag | None = _other(
        "Reading: at the highest rate the limiter is released, and the next CNP is a first one again."
    )
    cnp_interval_per: Literal["qp", "destination", "port"] | None = _other(
        "Reading: whether min_time_between_cnps holds for each queue pair, for each host that CNPs go to, or "
        "for the port."
    )


PARAMETERS: tuple[str, ...] = tuple(name for name in Dcqcn.model_fields if name != "profile")
"""All parameters, in the order in which they are shown."""


@dataclass(frozen=True)
class Resolved:
    """A parameter's value, and where it came from unless the scenario sets it."""

    value: Value
    source: str


def resolve(dcqcn: Dcqcn, rate_bps: int) -> dict[str, Resolved]:
    """All parameters for a NIC on a link of `rate_bps`.

    A rate that a profile gives per 25 Gbit/s is multiplied by the link's rate over 25 Gbit/s, rounded to the
    nearest Mb/s (halves up), and at least 1. Overrides are taken as they are.
    """
    profile = PROFILES[dcqcn.profile]
    resolved = {}
    for name in PARAMETERS:
        value = profile.values[name]
        source = f"{dcqcn.profile}: {profile.sources.get(name, profile.source)}"
        if name in profile.per_25_gbps:
            source += f", {value} Mb/s for each 25 Gbit/s of the link"
            value = max(1, (int(value) * rate_bps * 2 + 25 * 10**9) // (50 * 10**9))
        given = getattr(dcqcn, name)
        resolved[name] = Resolved(value if given is None else given, source)
    return resolved


_NOTIFICATION_POINT = ("min_time_between_cnps", "cnp_interval_per")
"""Parameters of the receiver; all others are the sender's."""


def in_plan(values: Mapping[str, Value]) -> dict[str, Any]:
    """All parameters as the plan has them: those of the reaction point together."""
    reaction = {name: value for name, value in values.items() if name not in _NOTIFICATION_POINT}
    return {"dcqcn": {"reaction": reaction, **{name: values[name] for name in _NOTIFICATION_POINT}}}
