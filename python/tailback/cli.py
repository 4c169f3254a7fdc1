"""The command line: `tailback run`, `hpcc`, `explain`, `show`, `counters`, `list`, `schema`, `reproduce`.

Exit status: 0 done, 1 a fault was found (with --strict: or a claim missed), 2 bad input (a line for each
problem on stderr), 3 something could not be written, 4 out of memory, 5 an error of another kind; 129, 130
and 143 interrupted by SIGHUP, Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

import tailback
from tailback import scenario as scenarios
from tailback import signals, text
from tailback.controller import FORM, split
from tailback.counters import STYLES, as_tool
from tailback.files.out_folder import LAST, Occupied, OutFolder
from tailback.run import Interrupted, claimed, run_checked
from tailback.scenario import Problem, ScenarioError
from tailback.start_up import FAILED, OUT_OF_MEMORY, out_of_memory

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from tailback._engine import Progress
    from tailback.reproduce import AllReproductions, Reproduction
    from tailback.results import Result

DONE, FAULT, BAD_INPUT, NOT_WRITTEN = 0, 1, 2, 3

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
    str,
    typer.Argument(metavar="NAME|FILE", help="A built-in scenario, a YAML file, or - for standard input."),
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
def _bad_input() -> Iterator[None]:
    """Turns bad input, and an interrupt at which there is no result, into lines on stderr and a status."""
    try:
        yield
    except KeyboardInterrupt:
        _interrupted("nothing was written")
    except ScenarioError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(BAD_INPUT) from None


def _interrupted(what: str) -> NoReturn:
    typer.echo(f"tailback: interrupted before there was a result; {what}", err=True)
    raise typer.Exit(signals.status()) from None


@contextmanager
def _folder(out: Path | None, name: str) -> Iterator[OutFolder]:
    """The folder for a result, claimed: that of --out, or `runs/NAME-TIME`, with a number after it if that is
    taken.

    At an interrupt it says what has been written.
    """
    with _claimed(out, name) as folder:
        try:
            yield folder
        except KeyboardInterrupt:
            if (folder.given / LAST).is_file():
                _interrupted(f"the result is in {folder.given}")
            runs = [file.parent for file in folder.given.rglob(LAST) if not file.parent.name.startswith(".")]
            places = ", ".join(sorted({str(run.parent) for run in runs}))
            _interrupted(f"runs that are complete are in {places}" if places else "nothing was written")


def _claimed(out: Path | None, name: str) -> AbstractContextManager[OutFolder]:
    if out is not None:
        return claimed(out)
    first = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = first, 1
    while True:
        # Another run may begin in the same second.
        with suppress(Occupied):
            if not folder.exists():
                return claimed(folder, new=True)
        number += 1
        folder = first.with_name(f"{first.name}-{number}")


def _by_class(texts: list[str]) -> dict[str, str]:
    """Controllers in Python, by the names of their classes."""
    found: dict[str, str] = {}
    for given in texts:
        try:
            name = split(given)[1]
        except ValueError as error:
            raise ScenarioError([Problem("--controller", (), str(error))]) from None
        if name in found:
            raise ScenarioError(
                [Problem("--controller", (), f"found {name} again, expected each class once")]
            )
        found[name] = given
    return found


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
    controllers: Annotated[
        list[str] | None,
        typer.Option(
            "--controller",
            metavar=FORM,
            help="A congestion controller in Python. The scenario knows it by the name of the class; where "
            "nothing names it, all hosts run it. Again for more.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a scenario and write its result: report, tables, counters.

    Without --out the folder is runs/NAME-TIME. Ctrl-C ends the run early and keeps what was simulated. With
    --seeds there is a folder seed-N in it for each run, as many run at a time as there are CPUs, and Ctrl-C
    keeps the runs that are complete.
    """
    with _bad_input():
        own = _by_class(controllers or [])
    if seeds is not None:
        _run_seeds(name, sets or [], out, seed, seeds, jobs, quiet, own)
    if jobs is not None:
        raise typer.BadParameter("--jobs needs --seeds")
    with _bad_input():
        scenario = scenarios.load(name, sets=sets or (), seed=seed, controllers=own)
        with _folder(out, scenario.name) as folder, _bar(quiet) as bar:
            steps = _steps(bar, scenario.name, 0, scenario.run.duration) if bar else None
            result = _even_in_part(lambda: run_checked(scenario, folder, steps))
    raise typer.Exit(_conclude(result, folder.given, quiet))


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
        for warning in warnings(inputs):
            typer.echo(warning, err=True)
        with _folder(out, inputs.name) as folder, _bar(quiet) as bar:
            steps = _steps(bar, inputs.name, *span_ps(inputs)) if bar else None
            result = _even_in_part(lambda: tailback.run_hpcc(inputs, out=folder, progress=steps))
    raise typer.Exit(_conclude(result, folder.given, quiet))


def _even_in_part(run: Callable[[], Result]) -> Result:
    """The result of a run, also of one that was interrupted."""
    try:
        return run()
    except Interrupted as interrupted:
        return interrupted.result


def _conclude(result: Result, folder: Path, quiet: bool) -> int:
    """Prints what a run came to. Gives the exit status."""
    for fault in result.faults:
        typer.echo(f"fault: {fault['kind']} at {fault['where']}: {fault['text']}", err=True)
    # A deadlock also ends a run before its time.
    interrupted = not result.complete and all(fault["kind"] != "deadlock" for fault in result.faults)
    where = str(folder) if quiet else f"\n{folder / 'report.html'}"
    _say([] if quiet else [result.closing_table()], where)
    return signals.status() if interrupted else FAULT if result.faults else DONE


def _run_seeds(
    name: str,
    sets: list[str],
    out: Path | None,
    seed: int | None,
    given: str,
    jobs: int | None,
    quiet: bool,
    controllers: dict[str, str],
) -> NoReturn:
    """`run` with several seeds."""
    from tailback.seeds import RunFailed, parse, run_seeds

    if seed is not None:
        raise typer.BadParameter("--seed and --seeds exclude each other")
    with _bad_input():
        seeds = parse(given)
        title = scenarios.load(name, sets=sets, controllers=controllers).name
        with _folder(out, title) as folder, _bar(quiet) as bar:
            shares = _shares(bar) if bar else None
            tell = (lambda one, share: shares(f"seed {one}", share)) if shares else None
            try:
                done = run_seeds(
                    name,
                    seeds,
                    folder,
                    sets=sets,
                    jobs=jobs or _cores(),
                    progress=tell,
                    controllers=controllers,
                )
            except RunFailed as error:
                typer.echo(f"tailback: {error}", err=True)
                raise typer.Exit(FAILED) from None
    for one, fault in done.faults:
        typer.echo(f"fault: seed {one}: {fault['kind']} at {fault['where']}: {fault['text']}", err=True)
    if done.interrupted:
        typer.echo(
            f"tailback: interrupted; {len(done.summaries)} of {len(seeds)} runs are complete", err=True
        )
    if done.summaries:
        first = folder.given / f"seed-{min(done.summaries)}"
        where = str(folder.given) if quiet else f"\n{first / 'report.html'} and others"
        _say([] if quiet else [done.table()], where)
    raise typer.Exit(signals.status() if done.interrupted else FAULT if done.faults else DONE)


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Say where a run is stuck, and what shows it.

    From its counters and queue series alone: the name and the settings of the scenario are not looked at,
    only what is printed on the hardware, such as the rate of a link.
    """
    from tailback import explain as explaining
    from tailback.run_folder import read_run, reading

    with _bad_input():
        result = read_run(folder)
        with reading(folder):
            page = explaining.page_of(result)
            if as_json:
                key = explaining.explain(result).key
                words = json.dumps(explaining.as_data(page, key), indent=2, ensure_ascii=False) + "\n"
            else:
                words = explaining.as_text(page)
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
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", help="This host, switch, or port of a switch (sw0:h3) only."),
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Print the counters of a run as a tool on its hosts and switches would.

    Without --host every one of them has its part, after a heading. Of a scenario nothing is written.
    """
    from tailback.run_folder import read_run, reading  # needs Arrow, which takes a while to load

    folder = Path(run)
    if folder.is_dir() and (sets or seed is not None):
        raise typer.BadParameter("--set and --seed are for a scenario; this is the folder of a run")
    with _bad_input():
        if folder.is_dir():
            with reading(folder):
                words = as_tool(read_run(folder), tool, host)
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
    from tailback.reproduce.experiments import list_published  # needs Arrow, which takes a while to load

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
    from tailback.reproduce import ALL, names, planned_runs, reproduce_all
    from tailback.reproduce import reproduce as repeat

    ids = [one.strip() for entry in only or () for one in entry.split(",")]
    jobs = jobs or _cores()
    with _bad_input():
        if name == ALL and ids:
            raise ScenarioError([Problem("--only", (), "found with all, expected with one experiment")])
        runs = sum(planned_runs(one, quick, ids) for one in names(name))
        with _folder(out, name) as folder, _bar(quiet) as bar:
            progress = _shares_of_all(bar, name, runs) if bar else None
            done: Reproduction | AllReproductions
            if name == ALL:
                done = reproduce_all(folder, strict, quick, jobs, progress)
            else:
                done = repeat(name, folder, strict, quick, ids, jobs, progress)
    _say(
        [] if quiet else done.tables(), str(folder.given) if quiet else f"\n{folder.given / 'reproduce.html'}"
    )
    raise typer.Exit(signals.status() if done.interrupted else done.exit_status)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _say(tables: Sequence[RenderableType], where: str) -> None:
    """Prints what a run came to, and where it is. Whoever does not read it to its end has seen enough."""
    from rich.console import Console

    try:
        console = Console()
        for table in tables:
            console.print(table)
        typer.echo(where)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the library exits with 1: the status still tells
        _silence_stdout()


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
    with signals.interrupting():
        return _status(arguments)


def _status(arguments: Sequence[str] | None) -> int:
    try:
        status = app(args=arguments, prog_name="tailback", standalone_mode=False)
        sys.stdout.flush()
        return int(status or DONE)
    except typer.TyperException as error:  # a wrong option or argument
        typer.echo(f"tailback: {' '.join(error.format_message().split())}", err=True)
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        return signals.status()
    # The reader of the output, such as head, has seen enough. typer exits with 1 then: here that is a fault.
    except (BrokenPipeError, SystemExit):
        _silence_stdout()
        return DONE
    except Exception as error:
        if out_of_memory(error):
            words = " ".join(str(error).split())
            typer.echo(f"tailback: out of memory{': ' if words else ''}{words}", err=True)
            return OUT_OF_MEMORY
        if isinstance(error, OSError):  # such as a disk that is full
            where = f"{error.filename}: " if error.filename else ""
            typer.echo(f"tailback: {where}{error.strerror or error}", err=True)
            try:
                sys.stdout.flush()
            except OSError:
                _silence_stdout()  # or the interpreter tries once more, and says so
            return NOT_WRITTEN
        raise


if __name__ == "__main__":
    sys.exit(main())
