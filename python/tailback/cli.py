"""The command line: `tailback run`, `hpcc`, `explain`, `show`, `counters`, `list`, `schema`, `reproduce`.

Exit status: 0 done, 1 a fault was found (with --strict: or a claim missed), 2 bad input (a line for each
problem on stderr), 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

import tailback
from tailback import scenario as scenarios
from tailback import text
from tailback.counters import STYLES, as_tool
from tailback.run import run_checked
from tailback.run_folder import read_run, reading
from tailback.scenario import Problem, ScenarioError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from tailback._engine import Progress
    from tailback.reproduce import Reproduction
    from tailback.reproduce_all import AllReproductions
    from tailback.results import Result

DONE, FAULT, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="tailback",
    help="A simulator of RDMA networks (RoCEv2).",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ScenarioName = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="A built-in scenario, or a YAML file.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set a value, such as traffic.0.qps=512; repeatable."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of all random numbers; replaces run.seed.")]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Folder for the result, new or empty.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress bar, no table: only the folder's name.")
]


@contextmanager
def _bad_input(runs: Path | None = None) -> Iterator[None]:
    """Turns bad input into lines on stderr and status 2, and an interrupt at which there is no result of the
    whole into 130. Below `runs` there may then be single runs.
    """
    try:
        yield
    except KeyboardInterrupt:
        written = sorted({str(file.parent.parent) for file in runs.rglob("summary.json")}) if runs else []
        what = f"; runs that are complete are in {', '.join(written)}" if written else "; nothing was written"
        typer.echo(f"tailback: interrupted before there was a result{what}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except ScenarioError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(BAD_INPUT) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tailback {tailback.__version__}")
        raise typer.Exit()


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A simulator of RDMA networks (RoCEv2)."""


@app.command()
def run(
    name: ScenarioName,
    sets: Sets = None,
    out: Out = None,
    seed: Seed = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="Several seeds, such as 1..4 or 1,5,9.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Runs at a time, with --seeds.", min=1, max=256)
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a scenario and write its result: report, tables, counters.

    Without --out the folder is runs/NAME-TIME. Ctrl-C ends the run early and keeps what was simulated. With
    --seeds there is a folder seed-N in it for each run, as many run at a time as there are CPUs, and Ctrl-C
    keeps the runs that are complete.
    """
    if seeds is not None:
        _run_seeds(name, sets or [], out, seed, seeds, jobs, quiet)
    if jobs is not None:
        raise typer.BadParameter("--jobs needs --seeds")
    with _bad_input():
        scenario = scenarios.load(name, sets=sets or (), seed=seed)
        folder = _default_folder(scenario.name) if out is None else out
        with _bar(quiet) as bar:
            steps = _steps(bar, scenario.name, 0, scenario.run.duration) if bar else None
            result = run_checked(scenario, folder, steps)
    raise typer.Exit(_conclude(result, folder, quiet))


@app.command()
def hpcc(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.txt", help="That simulator's config file.")],
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Run the files of the HPCC ns-3 simulator as they are.

    Config, topology and flows are read as there. The folder gets fct.txt and pfc.txt in that simulator's
    format, beside report, tables and counters. Without --out it is runs/NAME-TIME. Ctrl-C ends the run early
    and keeps what was simulated.
    """
    from tailback.hpcc.inputs import load_inputs
    from tailback.hpcc.plan import span_ps, warnings

    with _bad_input():
        inputs = load_inputs(config)
        folder = _default_folder(inputs.name) if out is None else out
        for warning in warnings(inputs):
            typer.echo(warning, err=True)
        with _bar(quiet) as bar:
            steps = _steps(bar, inputs.name, *span_ps(inputs)) if bar else None
            result = tailback.run_hpcc(inputs, out=folder, progress=steps)
    raise typer.Exit(_conclude(result, folder, quiet))


def _conclude(result: Result, folder: Path, quiet: bool) -> int:
    """Prints what a run came to. Gives the exit status."""
    for fault in result.faults:
        typer.echo(f"fault: {fault['kind']} at {fault['where']}: {fault['text']}", err=True)
    # A deadlock also ends a run before its time.
    interrupted = not result.complete and all(fault["kind"] != "deadlock" for fault in result.faults)
    try:
        if not quiet:
            _print(result.closing_table())
        typer.echo(str(folder) if quiet else f"\n{folder / 'report.html'}")
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # whoever read along has seen enough: the status still tells
        _silence_stdout()
    return INTERRUPTED if interrupted else FAULT if result.faults else DONE


def _run_seeds(
    name: str, sets: list[str], out: Path | None, seed: int | None, given: str, jobs: int | None, quiet: bool
) -> NoReturn:
    """`run` with several seeds."""
    from tailback.seeds import parse, run_seeds

    if seed is not None:
        raise typer.BadParameter("--seed and --seeds exclude each other")
    with _bad_input():
        seeds = parse(given)
        folder = _default_folder(scenarios.load(name, sets=sets).name) if out is None else out
    with _bad_input(folder):
        try:
            with _bar(quiet) as bar:
                shares = _shares(bar) if bar else None
                tell = (lambda one, share: shares(f"seed {one}", share)) if shares else None
                done = run_seeds(name, seeds, folder, sets=sets, jobs=jobs or _cores(), progress=tell)
        except RuntimeError as error:
            typer.echo(f"tailback: {error}", err=True)
            raise typer.Exit(FAULT) from None
    for one, fault in done.faults:
        typer.echo(f"fault: seed {one}: {fault['kind']} at {fault['where']}: {fault['text']}", err=True)
    if done.interrupted:
        typer.echo(
            f"tailback: interrupted; {len(done.summaries)} of {len(seeds)} runs are complete", err=True
        )
    if done.summaries and not quiet:
        _print(done.table())
    if done.summaries:
        typer.echo(str(folder) if quiet else f"\n{folder}/seed-{min(done.summaries)}/report.html and others")
    raise typer.Exit(INTERRUPTED if done.interrupted else FAULT if done.faults else DONE)


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
) -> None:
    """Say where a run is stuck, and what shows it.

    From its counters and queue series alone: the name and the settings of the scenario are not looked at,
    only what is printed on the hardware, such as the rate of a link.
    """
    from tailback import explain as explaining

    with _bad_input():
        result = read_run(folder)
        with reading(folder):
            words = explaining.as_text(explaining.page_of(result))
    typer.echo(words, nl=False)


@app.command()
def show(
    name: ScenarioName,
    sets: Sets = None,
    seed: Seed = None,
    comments: Annotated[
        bool, typer.Option(help="Draw the network, and say beside each value where it comes from.")
    ] = True,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write a picture of the network to a file.")
    ] = None,
) -> None:
    """Print a scenario in full, and where each value comes from.

    The output loads again.
    """
    from tailback import drawing

    with _bad_input():
        scenario = scenarios.load(name, sets=sets or (), seed=seed)
        text = scenarios.show(scenario, comments=comments)
    title = drawing.title_of(scenario.name, scenario.topology.kind, scenario.network)
    if comments:
        for line in drawing.as_text(scenario.network, title).splitlines():
            typer.echo(f"# {line}".rstrip())
        typer.echo()
    typer.echo(text, nl=False)
    if svg is not None:
        svg.write_text(drawing.as_svg(scenario.network, title), encoding="utf-8")


@app.command()
def counters(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN|NAME|FILE", help="Folder of a run; or a scenario, which is then run."),
    ],
    tool: Annotated[str, typer.Option("--as", metavar="TOOL", help=f"One of {', '.join(STYLES)}.")],
    host: Annotated[str | None, typer.Option("--host", metavar="HOST", help="This host only.")] = None,
    sets: Sets = None,
    seed: Seed = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Print the counters of a run as a tool on its hosts would.

    Without --host every host has its part, after a heading. Of a scenario nothing is written.
    """
    folder = Path(run)
    if folder.is_dir() and (sets or seed is not None):
        raise typer.BadParameter("--set and --seed are for a scenario; this is the folder of a run")
    with _bad_input():
        if folder.is_dir():
            result = read_run(folder)
            with reading(folder):
                words = as_tool(result, tool, host)
        else:
            scenario = scenarios.load(run, sets=sets or (), seed=seed)
            with _bar(quiet) as bar:
                steps = _steps(bar, scenario.name, 0, scenario.run.duration) if bar else None
                result = run_checked(scenario, None, steps)
            words = as_tool(result, tool, host)
        typer.echo(words, nl=False)


@app.command(name="list")
def list_() -> None:
    """List the built-in scenarios and the published experiments."""
    from tailback.experiments import list_published  # needs Arrow, which takes a while to load

    built_in = {name: scenarios.load(name).about for name in scenarios.builtin_names()}
    rows = [("Scenarios (tailback run NAME)", built_in)]
    rows.append(("Published experiments (tailback reproduce NAME)", list_published()))
    width = max(len(name) for _, entries in rows for name in entries)
    for number, (title, entries) in enumerate(rows):
        typer.echo(f"{chr(10) if number else ''}{title}")
        for name, about in entries.items():
            typer.echo(f"  {name:<{width}}  {about}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files.

    A file whose first line is "# yaml-language-server: $schema=PATH", with this output at PATH, is completed
    and checked in an editor.
    """
    typer.echo(json.dumps(scenarios.json_schema(), indent=2))


@app.command()
def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME|all", help="A published experiment, or all of them in one report.")
    ],
    out: Out = None,
    strict: Annotated[bool, typer.Option("--strict", help="End with status 1 if a claim is missed.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Simulate less: a look, not a verdict.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="IDS", help="Only these claims, such as C9,C10; repeatable."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, max=256, metavar="N", help="Runs at a time; default: a core each."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Repeat a published experiment, or all, and check its claims.

    Each claim is set against what was measured: met, or missed.
    """
    from tailback.reproduce import planned_runs
    from tailback.reproduce import reproduce as repeat
    from tailback.reproduce_all import ALL, names, reproduce_all

    folder = _default_folder(name) if out is None else out
    ids = [one.strip() for entry in only or () for one in entry.split(",")]
    jobs = jobs or _cores()
    with _bad_input(folder), _bar(quiet) as bar:
        if name == ALL and ids:
            raise ScenarioError([Problem("--only", (), "found with all, expected with one experiment")])
        runs = sum(planned_runs(one, quick, ids) for one in names(name))
        progress = _shares_of_all(bar, name, runs) if bar else None
        done: Reproduction | AllReproductions
        if name == ALL:
            done = reproduce_all(folder, strict, quick, jobs, progress)
        else:
            done = repeat(name, folder, strict, quick, ids, jobs, progress)
    if not quiet:
        _print(*done.tables())
    typer.echo(str(folder) if quiet else f"\n{folder / 'reproduce.html'}")
    raise typer.Exit(done.exit_status)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _default_folder(name: str) -> Path:
    """`runs/NAME-TIME`, with a number after it if that is taken."""
    first = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = first, 2
    while folder.exists():
        folder, number = first.with_name(f"{first.name}-{number}"), number + 1
    return folder


def _print(*tables: RenderableType) -> None:
    from rich.console import Console

    console = Console()
    for table in tables:
        console.print(table)


@contextmanager
def _bar(quiet: bool) -> Iterator[Bar | None]:
    """A progress bar on stderr, or none where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[state]}", markup=False),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar


def _steps(bar: Bar, name: str, begin_ps: int, end_ps: int) -> Callable[[Progress], None]:
    """Moves the bar as a run goes on: simulated time, packet-hops and their speed.

    The speed counts from the first call: what sets up a run before that simulates nothing.
    """
    task = bar.add_task(name, total=end_ps - begin_ps, state="setting up")
    first: dict[str, tuple[float, int]] = {}

    def step(state: Progress) -> None:
        now, time_ps = time.perf_counter(), max(state.time_ps - begin_ps, 0)
        begin, hops = first.setdefault("at", (now, state.packet_hops))
        words = f"{text.duration(time_ps / 1e12)}  {state.packet_hops / 1e6:.1f} M packet-hops"
        if now > begin:
            words += f"  {(state.packet_hops - hops) / (now - begin) / 1e6:.1f} M/s"
        if state.done:  # with everything sent, maybe before the time that was planned
            bar.update(task, completed=end_ps - begin_ps, state="writing results")
        else:
            bar.update(task, completed=time_ps, state=words)

    return step


def _shares(bar: Bar) -> Callable[[str, float], None]:
    """Moves a bar for each run."""
    tasks: dict[str, TaskID] = {}

    def share(what: str, done: float) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=1.0, state="")
        bar.update(tasks[what], completed=done)

    return share


def _shares_of_all(bar: Bar, name: str, runs: int) -> Callable[[str, float], None]:
    """Moves a bar for all runs together, and one for each run that is under way."""
    whole = bar.add_task(name, total=runs, state=f"0 of {runs} runs")
    tasks: dict[str, TaskID] = {}
    shares: dict[str, float] = {}

    def share(what: str, done: float) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=1.0, state="")
        shares[what] = done
        bar.update(tasks[what], completed=done, visible=done < 1.0)
        over = sum(one >= 1.0 for one in list(shares.values()))
        bar.update(whole, completed=sum(list(shares.values())), state=f"{over} of {runs} runs")

    return share


def _silence_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """The `tailback` command. Gives the exit status."""
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
        typer.echo(f"tailback: {' '.join(error.format_message().split())}", err=True)
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    # The reader of the output, such as head, has seen enough. typer exits with 1 then: here that is a fault.
    except (BrokenPipeError, SystemExit):
        _silence_stdout()
        return DONE
    except OSError as error:  # such as a disk that is full
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"tailback: {where}{error.strerror or error}", err=True)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
