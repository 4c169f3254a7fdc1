"""Writes python/tailback/scenario/controllers.py and declared.py: what can be set, as the engine declares it.

Each setting is declared once, in crates, beside what it sets. The modules made from that are what editors,
mypy and the scenario model read. `make settings` writes them; `--check` fails where they are not current.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
# The front itself cannot be loaded before what is written here is there.
sys.modules["tailback"] = package = ModuleType("tailback")
package.__path__ = [str(ROOT / "python/tailback")]

from tailback._engine import controllers, settings  # noqa: E402
from tailback.units import DURATION, FREQUENCY, RATE, SIZE, Quantity  # noqa: E402

FOLDER = ROOT / "python/tailback/scenario"

QUANTITIES: dict[str, tuple[str, Quantity]] = {
    "duration": ("DURATION", DURATION),
    "round-trip": ("DURATION", DURATION),
    "rate": ("RATE", RATE),
    "size": ("SIZE", SIZE),
    "frequency": ("FREQUENCY", FREQUENCY),
}
BY_RATE = {("size", None, None): "SizeByRate", ("number", 0.0, 1.0): "ShareByRate"}
"""Types of settings that may depend on a link's rate, by quantity and bounds."""
SHARED = {
    "Start": ("start", "When something begins, or how much later: within the bounds of traffic."),
    "RunTime": ("stop", "When something ends, or how long it takes: likewise."),
    "Message": ("message", "Size of a message of RDMA."),
}
"""Types that settings of scenarios share with a setting of writers, which declares their bounds."""
AUTO = (
    "auto: the longest round trip between two hosts on shortest routes, with a full packet one way and its "
    "ACK back, rounded up to 100 ns."
)

HEAD = '''"""Congestion controllers and what they can be set to, as the engine declares them.

Made by tools/make_settings.py from crates/proto/src/congestion; not to be edited.
"""

# No `from __future__ import annotations`: each annotation would be compiled when the module is loaded.

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tailback.scenario.fields import Flag, Section, setting
from tailback.scenario.profiles import ControllerFacts, ControllerNames, Profile, Signal
from tailback.units import DURATION, RATE, SIZE

'''


DECLARED_HEAD = '''"""Settings as the engine declares them.

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

'''


def main() -> int:
    """Writes the modules, or compares them with what is there; only writing needs ruff."""
    stale = 0
    for name, text in (("controllers.py", controllers_module()), ("declared.py", declared_module())):
        target = FOLDER / name
        if "--check" not in sys.argv:
            target.write_text(formatted(text))
        elif ast.dump(ast.parse(target.read_text())) != ast.dump(ast.parse(text)):
            print(f"{target.relative_to(ROOT)} is not what the engine declares: run make settings")
            stale = 1
    return stale


def declared_module() -> str:
    """All sections but those of controllers."""
    sections = json.loads(settings())
    text = "".join(section({"profiles": [], **one}, one["name"], "Declared") for one in sections)
    [writes] = (one["parameters"] for one in sections if one["name"] == "Write")
    for name, (parameter, about) in SHARED.items():
        [declared] = (one for one in writes if one["name"] == parameter)
        kind, _, _ = field({**declared, "optional": False}, of_profile=False, by_rate=False).partition(" = ")
        text += f'{name} = {kind}\n"""{about}"""\n'
    return DECLARED_HEAD + text


def controllers_module() -> str:
    """The controllers."""
    own, beside = json.loads(controllers())
    settable = [control for control in own if control["parameters"]]
    text = HEAD
    text += f"BUILT_IN_CONTROLLERS = ({', '.join(repr(control['name']) for control in own)},)\n"
    text += '"""The built-in controllers."""\n'
    text += "ControllerName = Annotated[str, ControllerNames(BUILT_IN_CONTROLLERS)]\n"
    text += '"""A field that names a controller, built in or given in Python."""\n\n\n'
    text += "".join(section(control, class_name(control)) for control in settable)
    text += "".join(section(control, f"{class_name(control)}Sender") for control in beside)
    text += "class Controllers(Section):\n"
    text += '    """A section for each controller that can be set."""\n\n'
    for control in settable:
        name, title = control["name"], control["about"].split()[0].rstrip(":")
        about = f"{title}'s parameters, where congestion is {name}."
        text += (
            f"    {name}: {class_name(control)} = "
            f"Field(default_factory={class_name(control)}, description={about!r})\n"
        )
    text += "\n\nCONTROLLER_FACTS: dict[str, ControllerFacts] = {\n"
    for control in [*own, *beside]:
        uses = control["uses"]
        shows = "".join(
            f"Signal({signal['name']!r}, {signal['unit']!r}, {signal['help']!r}), "
            for signal in control["signals"]
        )
        text += (
            f"    {control['name']!r}: ControllerFacts({control['about']!r}, each_ack={uses['each_ack']}, "
            f"reads_switches={uses['telemetry']}, counts_hops={uses['hop_count']}, "
            f"marks={uses['cnps']}, signals=({shows})),\n"
        )
    text += '}\n"""Facts about each controller, and about host control beside them."""\n'
    return text


def class_name(control: dict[str, Any]) -> str:
    """The name of a section's class."""
    return str(control["name"].capitalize())


def section(control: dict[str, Any], name: str, base: str = "Section") -> str:
    """The class of a section."""
    profiles = control["profiles"]
    text = f"class {name}({base}):\n" + f'    """{control["about"]}"""\n\n'
    if control.get("kind"):
        text += f"    kind: Literal[{control['kind']!r}] = Field(description='The discipline.')\n"
    if profiles:
        text += f"    PROFILES: ClassVar[dict[str, Profile]] = {profiles_text(control)}\n\n"
        names = ", ".join(repr(profile["name"]) for profile in profiles)
        which = "; ".join(f"{profile['name']}: {profile['about']}" for profile in profiles)
        about = f"Which setting the parameters start from: {which}."
        text += (
            f"    profile: Literal[{names}] = "
            f"setting({profiles[0]['name']!r}, {about!r}, 'the NIC as it is shipped')\n"
        )
    for parameter in control["parameters"]:
        declaration = field(parameter, of_profile=bool(profiles), by_rate=control.get("by_rate", False))
        # Drivers take the flags of controllers as 0 and 1, too.
        declaration = declaration.replace("Flag =", "bool =", 1) if base == "Declared" else declaration
        text += f"    {parameter['name']}: {declaration}\n"
    return text + "\n\n"


def field(parameter: dict[str, Any], *, of_profile: bool, by_rate: bool) -> str:
    """The type and the declaration of a field; `by_rate`: one value for all rates, or one for each."""
    quantity, optional = parameter["quantity"], parameter["optional"] or of_profile
    least, most, help_text = parameter["least"], parameter["most"], parameter["help"]
    default, rules = repr(parameter["default"]), ""
    if by_rate:
        kind = BY_RATE[quantity, least, most]
        default = f"SIZE.parse({SIZE.format(parameter['default'])!r})" if quantity == "size" else default
    elif quantity in QUANTITIES and parameter["choices"]:
        name, unit = QUANTITIES[quantity]
        default = f"{name}.parse({unit.format(parameter['default'])!r})"
        choices = ", ".join(f"'{choice}{next(iter(unit.units))}'" for choice in parameter["choices"])
        kind = f"Annotated[int, {name}.one_of({choices})]"
    elif quantity in QUANTITIES:
        name, unit = QUANTITIES[quantity]
        bounds = [f"{unit.format(least)!r}"] if least else []
        bounds += [f"maximum={unit.format(most)!r}"] if most is not None else []
        rule = f"{name}.between({', '.join(bounds)})" if bounds else name
        base = "int"
        if quantity == "round-trip":
            rule, base = f"{rule}.or_word('auto')", "int | Literal['auto']"
            help_text = f"{help_text} {AUTO}"
        kind = f"Annotated[{base}, {rule}]"
        if isinstance(parameter["default"], int):
            default = f"{name}.parse({unit.format(parameter['default'])!r})"
        elif parameter["default"] == "auto" and quantity != "round-trip":
            kind = f"Annotated[int | Literal['auto'], {rule}.or_word('auto')]"
    elif quantity == "falling rates":
        each = f"RATE.between({RATE.format(least)!r}, maximum={RATE.format(most)!r})"
        kind = f"Annotated[list[Annotated[int, {each}]], falling({parameter['longest']})]"
        default = f"[{', '.join(f'RATE.parse({RATE.format(rate)!r})' for rate in parameter['default'])}]"
    elif parameter["choices"]:
        kind = f"Literal[{', '.join(map(repr, parameter['choices']))}]"
    elif quantity == "flag":
        kind = "Flag"
    else:
        kind = "int" if quantity == "count" else "float"
        if least is not None:
            rules += f", {'gt' if parameter['least_is_excluded'] else 'ge'}={least!r}"
        if most is not None:
            rules += f", {'lt' if parameter['most_is_excluded'] else 'le'}={most!r}"
        if quantity == "number":
            rules += ", allow_inf_nan=False"
        if parameter["default"] == "auto":
            kind, rules = f"Annotated[{kind}, Field({rules[2:]})] | Literal['auto']", ""
    if optional:
        kind += " | None"
    if parameter["required"]:
        return f"{kind} = Field(description={help_text!r}{rules})"
    source = parameter["source"]
    if of_profile:
        default, source = "None", "the profile"
    return f"{kind} = setting({default}, {help_text!r}, {source!r}{rules})"


def profiles_text(control: dict[str, Any]) -> str:
    """The profiles, each with all its values."""
    first = control["profiles"][0]
    text = "{\n"
    for profile in control["profiles"]:
        values = {parameter["name"]: parameter["default"] for parameter in control["parameters"]}
        values |= dict(profile["values"])
        sources = dict(profile["sources"])
        if profile is first:
            sources = {
                parameter["name"]: parameter["source"]
                for parameter in control["parameters"]
                if parameter["source"] != profile["source"]
            }
        text += (
            f"        {profile['name']!r}: Profile(about={profile['about']!r}, source={profile['source']!r}, "
            f"values={values!r}, sources={sources!r}, "
            f"per_25_gbps=frozenset({profile['per_25_gbps']!r})),\n"
        )
    return text + "    }"


def formatted(text: str) -> str:
    """As `ruff format` would leave it."""
    ruff = Path(sys.executable).parent / "ruff"
    command = [str(ruff), "format", "--stdin-filename", str(FOLDER / "declared.py"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
