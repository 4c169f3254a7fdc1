"""The command line: `tailback run`, `explain`, `compare` and so on, each in a module of this package.

Exit status: 0 done, 1 a fault was found (with --strict: or a claim missed), 2 bad input (a line for each
problem on stderr), 3 a file could not be written, 4 out of memory, 5 any other error, 124 stopped by
--time-limit, 129, 130 and 143 interrupted by SIGHUP, Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from tailback.cli.basics import BAD_INPUT, DONE, NOT_WRITTEN, echo, silence_stdout, told
from tailback.interrupts import interrupting
from tailback.interrupts import status as interrupt_status
from tailback.start_up import FAILED_STATUS, OUT_OF_MEMORY_STATUS, loaded, out_of_memory

COMMANDS = {
    "run": "Run a scenario and write its result: report, tables, counters.",
    "check": "Say whether a scenario is good, and what its run will cost.",
    "hpcc": "Run the files of the HPCC ns-3 simulator as they are.",
    "astra": "Run ASTRA-sim's inputs as they are.",
    "simai": "Run SimAI's inputs as they are.",
    "report": "Write the report of a run.",
    "trace": "Write what the ranks of a run did, for Perfetto.",
    "sweep": "Run a scenario at many points and seeds, and say what is noise.",
    "fit": "Infer settings from what a lab measured, and predict the rest.",
    "tune": "Look for the settings that serve several workloads best.",
    "explain": "Say where a run is stuck, and which change helps.",
    "analyze": "Say what a capture of RoCEv2 traffic shows.",
    "point": "Run a congestion point between two interfaces.",
    "endpoint": "Run hosts of a scenario on interfaces, with real packets.",
    "live": "Run a scenario with real packets, on veth pairs that it makes.",
    "lab": "Set up, verify, drive and read a real lab.",
    "compare": "Say what differs between runs.",
    "show": "Print a scenario in full, and where each value comes from.",
    "signals": "Print the congestion signals between nodes.",
    "counters": "Print the counters of hosts and switches as their tools do.",
    "import": "Print a scenario made from configurations of switches.",
    "list": "List scenarios, published experiments and measured labs.",
    "schema": "Print the JSON Schema of scenario files.",
    "reproduce": "Repeat published experiments, or predict a measured lab.",
}
"""Commands, each the `app` of the module of its name, with the first line of their help."""


class _Commands(TyperGroup):
    """Imports the module of a command only when the command is called: imports take a while."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            module = f"{name}_" if iskeyword(name or "") else name
            command = get_command(import_module(f"tailback.cli.{module}").app)
            loaded()
            ctx.with_resource(interrupting())  # before this, a signal ends the process at once
        return name, command, rest


app = typer.Typer(
    cls=_Commands,
    name="tailback",
    help="A simulator of RDMA networks (RoCEv2).",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _about in COMMANDS.items():
    app.command(_name, help=_about)(lambda: None)


def _version(wanted: bool) -> None:
    if wanted:
        from tailback import __version__

        echo(f"tailback {__version__}")
        raise typer.Exit()


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A simulator of RDMA networks (RoCEv2)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the `tailback` command, and returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if arguments is None and len(sys.argv) == 1:
        arguments = ["--help"]
    try:
        status = app(args=arguments, prog_name="tailback", standalone_mode=False)
        sys.stdout.flush()
        return int(status or DONE)
    except typer.TyperException as error:  # a wrong option or argument
        echo(f"tailback: {told(error)}", err=True)
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        return interrupt_status()
    # The reader of the output, such as head, stopped. typer would exit with 1, which here means a fault.
    except (BrokenPipeError, SystemExit):
        silence_stdout()
        return DONE
    except Exception as error:
        if out_of_memory(error):
            words = " ".join(str(error).split())
            echo(f"tailback: out of memory{': ' if words else ''}{words}", err=True)
            return OUT_OF_MEMORY_STATUS
        if isinstance(error, OSError):  # such as a disk that is full
            where = f"{error.filename}: " if error.filename else ""
            echo(f"tailback: {where}{error.strerror or error}", err=True)
            try:
                sys.stdout.flush()
            except OSError:
                silence_stdout()  # else the interpreter flushes again at exit, and prints an error
            return NOT_WRITTEN
        from tailback.running import RunFailed  # already loaded by now

        if isinstance(error, RunFailed):
            echo(f"tailback: {error}", err=True)
            return FAILED_STATUS
        raise
