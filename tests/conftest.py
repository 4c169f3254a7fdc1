"""What holds for all tests."""

import signal
from collections import Counter

import hypothesis
import pytest

LEFT_OUT = "tailback/left-out"
"""Where pytest's cache keeps which tests the last run left out."""

# A slow machine is no failure.
hypothesis.settings.register_profile("tailback", deadline=None)
hypothesis.settings.load_profile("tailback")

# A shell without job control starts its background with these ignored, and what is tried here would
# inherit it.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--left-out", action="store_true", help="only the tests that the last run left out")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--left-out"):
        # A module that is left out as a whole is known by its file.
        wanted = set(config.cache.get(LEFT_OUT, []))
        items[:] = [item for item in items if wanted & {item.nodeid, item.nodeid.split("::")[0]}]


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says once for each reason how many tests were left out: reasons say how to have them."""
    skipped = terminalreporter.stats.get("skipped", [])
    if hasattr(config, "cache"):  # not with -p no:cacheprovider
        config.cache.set(LEFT_OUT, sorted({report.nodeid for report in skipped}))
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(
            f"{count} {'test was' if count == 1 else 'tests were'} left out: {reason}"
        )
