"""The reports in a real browser, at the widths of a laptop and of a phone."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PATIENCE_MS = 120_000
"""A busy machine may take so long to draw a page. What is there is seen at once all the same."""

sync_api = pytest.importorskip("playwright.sync_api")
sys.path.insert(0, str(Path(__file__).parents[1]))

from synthetic import incast, plan, result_of  # noqa: E402
from synthetic_tcp import tcp_run  # noqa: E402
from tailback.results import Result  # noqa: E402
from tailback.study.claims import reproduce  # noqa: E402

WIDTHS = (1366, 390)
DRAWN = "html[data-plots='drawn']"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")

# Boxes of the text that has a place of its own: headings, captions, the key, and what stands inside a plot.
TEXT_BOXES = """() => {
  const boxes = [];
  const add = (element, group) => {
    const box = element.getBoundingClientRect();
    if (box.width && box.height && element.textContent.trim())
      boxes.push({group, text: element.textContent.trim().slice(0, 60), left: box.left, right: box.right,
                  top: box.top + window.scrollY, bottom: box.bottom + window.scrollY});
  };
  const page = "h1, h2, h3, .caption, figcaption, dt, dd, .key li, .scale > span:not(.ramp-labels), "
    + ".ramp-labels span";
  document.querySelectorAll(page).forEach((element) => add(element, "page"));
  document.querySelectorAll(".plot").forEach((plot) =>
    plot.querySelectorAll(".xtitle, .ytitle, .xtick text, .ytick text, .annotation-text")
      .forEach((element) => add(element, plot.id)));
  return boxes;
}"""

PLOTS = """() => [...document.querySelectorAll(".plot")].map((plot) => {
  const frame = plot.getBoundingClientRect();
  const marks = ".hm image, .trace path.js-line, .trace .js-fill, .bars .point path";
  const drawn = [...plot.querySelectorAll(marks)];
  const inside = [...plot.querySelectorAll("svg text")].every((text) => {
    const box = text.getBoundingClientRect();
    return !box.width || (box.left >= frame.left - 1 && box.right <= frame.right + 1 &&
                          box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1);
  });
  const area = plot.querySelector(".xy")?.getBoundingClientRect();
  return {id: plot.id, traces: plot.data?.length ?? 0, drawn: drawn.length, inside,
          x: plot.querySelector(".xtitle")?.textContent ?? "",
          y: plot.querySelector(".ytitle")?.textContent ?? "",
          width: area?.width ?? 0, height: area?.height ?? 0};
})"""


@dataclass
class Opened:
    """A page that has drawn all its plots, with what went wrong on the way."""

    page: Any
    width: int
    problems: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        try:
            # Without one of the system's own, the Chromium that playwright itself installs.
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        except sync_api.Error:
            if CHROMIUM is not None:
                raise
            pytest.skip("Chromium is not installed: apt-get install chromium")
        yield started
        started.close()


def made_up(lossless: bool, **more: Any) -> Result:
    recording = incast(lossless=lossless, **more)
    return result_of(plan(16, lossless), recording)


def runner(scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
    return made_up("lossless" in scenario, always_dropping=scenario.endswith("512"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    fault = {
        "kind": "lossless_drop",
        "where": "sw0:h3/pg3",
        "node": "sw0",
        "peer": "h3",
        "text": "3 packets did not fit; 61 KB would have done",
    }
    partial = made_up(False, always_dropping=True, complete=False, bins=1400, faults=[fault])
    reproduce("roce-rocks", folder / "reproduced", runner=runner)
    return {
        "lossless": made_up(True).write(folder / "lossless") / "report.html",
        "partial": partial.write(folder / "partial") / "report.html",
        "short": made_up(True, bins=60).write(folder / "short") / "report.html",
        "tcp": tcp_run(mixed=True).write(folder / "tcp") / "report.html",
        "reproduce": folder / "reproduced" / "reproduce.html",
    }


@pytest.fixture(scope="module", params=["lossless", "partial", "short", "tcp", "reproduce"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=WIDTHS)
def opened(
    request: pytest.FixtureRequest, browser: Any, pages: dict[str, Path], name: str
) -> Iterator[Opened]:
    page = browser.new_page(viewport={"width": request.param, "height": 800})
    page.set_default_timeout(PATIENCE_MS)
    seen = Opened(page, request.param)
    page.on("console", lambda message: seen.problems.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.problems.append(f"error: {error}"))
    page.on("requestfailed", lambda request: seen.problems.append(f"failed: {request.url[:100]}"))
    local = ("file:", "data:", "blob:")
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(local) else seen.problems.append(f"external: {request.url}")
        ),
    )
    page.goto(pages[name].as_uri())
    page.wait_for_selector(DRAWN, state="attached")
    page.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
    page.wait_for_timeout(300)
    yield seen
    page.close()


def test_no_errors_and_nothing_from_elsewhere(opened: Opened) -> None:
    assert opened.problems == []


def test_nothing_is_wider_than_the_page(opened: Opened) -> None:
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= opened.width


def test_every_plot_is_drawn_and_labelled(opened: Opened) -> None:
    plots = opened.page.evaluate(PLOTS)
    assert len(plots) >= 6
    for plot in plots:
        assert plot["traces"] > 0, plot
        assert plot["drawn"] > 0, plot
        assert plot["width"] > 150, plot
        assert plot["height"] > 60, plot
        assert plot["inside"], plot
        assert re.fullmatch(r"Time \((s|ms|µs)\)|.+ \((?:number|rank)\)", plot["x"]), plot
        # The rows of the tailback chart are queues, which have no unit.
        if "tailback" not in plot["id"]:
            assert re.search(r"\(.+\)$", plot["y"]), plot


def test_no_text_covers_another(opened: Opened) -> None:
    boxes = opened.page.evaluate(TEXT_BOXES)
    assert len(boxes) > 50
    covering = []
    for group in {box["group"] for box in boxes}:
        mine = sorted((box for box in boxes if box["group"] == group), key=lambda box: box["top"])
        for i, upper in enumerate(mine):
            for lower in mine[i + 1 :]:
                if lower["top"] >= upper["bottom"] - 2:
                    break
                # A line box is taller than its letters: two pixels of it may be shared.
                if lower["left"] < upper["right"] - 1 and upper["left"] < lower["right"] - 1:
                    covering.append((group, upper["text"], lower["text"]))
    assert covering == []


def test_hovering_names_the_queue_and_its_bytes(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page(viewport={"width": 1366, "height": 800})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(pages["lossless"].as_uri())
    page.wait_for_selector(DRAWN, state="attached")
    image = page.locator("#tailback-plot .hm image").first
    image.scroll_into_view_if_needed()
    box = image.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#tailback-plot .hovertext")
    words = page.locator("#tailback-plot .hoverlayer").text_content()
    assert "sw0:h16/tc3" in words
    assert re.search(r"mean \d+kB, most \d+kB", words), words
    page.close()


@pytest.fixture
def lossless(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1366, "height": 800}, color_scheme="light")
    page.goto(pages["lossless"].as_uri())
    page.wait_for_selector(DRAWN, state="attached")
    yield page
    page.close()


def shown(page: Any, plot: str) -> list[float]:
    return [float(one) for one in page.evaluate(f"document.getElementById('{plot}').layout.xaxis.range")]


def test_a_zoom_into_one_plot_is_one_into_all(lossless: Any) -> None:
    lossless.evaluate("Plotly.relayout('pauses-plot', {'xaxis.range': [0.5, 0.75]})")
    for plot in ("tailback-plot", "throughput-plot", "queue-plot", "rates-plot", "pauses-plot"):
        assert shown(lossless, plot) == [0.5, 0.75], plot
    assert lossless.locator("#time-shown").text_content() == "0.5 to 0.75 s"
    lossless.get_by_role("button", name="Whole run").click()
    assert shown(lossless, "throughput-plot") == [0, 2]
    assert lossless.get_by_role("button", name="Whole run").get_attribute("aria-pressed") == "true"
    # What has no time on its axis stays as it is.
    assert shown(lossless, "fairness-plot") == [0.4, 16.6]


def test_close_ups_and_steps_with_the_keyboard(lossless: Any) -> None:
    closer = lossless.locator("#times .moments button").nth(1)
    closer.focus()
    lossless.keyboard.press("Enter")
    begin, end = json.loads(closer.get_attribute("data-range"))
    assert shown(lossless, "tailback-plot") == pytest.approx([begin, end])
    assert closer.get_attribute("aria-pressed") == "true"
    lossless.get_by_role("button", name="Later").press("Enter")
    width = end - begin
    assert shown(lossless, "queue-plot") == pytest.approx([begin + width / 2, end + width / 2])
    lossless.get_by_role("button", name="Zoom into all plots").press("Enter")
    assert shown(lossless, "queue-plot") == pytest.approx([begin + width * 0.75, end + width * 0.25])
    lossless.get_by_role("button", name="Whole run").click()
    lossless.get_by_role("button", name="Zoom out of all plots").press("Enter")
    assert shown(lossless, "queue-plot") == [0, 2]


def test_any_queue_can_be_drawn(lossless: Any) -> None:
    choice = lossless.get_by_label("Queue", exact=True)
    names = choice.locator("option").all_text_contents()
    assert "sw0:h16/tc3" in names
    assert "sw0:h3/pg3" in names
    before = lossless.evaluate("document.getElementById('queue-plot').calcdata[1].length")
    choice.select_option(label="sw0:h3/pg3")
    lossless.wait_for_selector("#queue-about:has-text('sw0:h3/pg3')")
    assert "on average" in lossless.locator("#queue-plot").get_attribute("aria-label")
    choice.select_option(label="sw0:h16/tc3")
    assert lossless.locator("#queue-about").text_content() == ""
    assert lossless.evaluate("document.getElementById('queue-plot').calcdata[1].length") == before


def test_the_dark_theme_and_back(lossless: Any) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = lossless.evaluate(paper)
    lossless.get_by_role("button", name="Use the dark theme").click()
    assert lossless.evaluate(paper) == "rgb(21, 25, 30)"
    lossless.wait_for_selector(
        ".js-plotly-plot[id=throughput-plot] .bg[style*='rgb(21, 25, 30)']", state="attached"
    )
    lossless.get_by_role("button", name="Use the light theme").click()
    assert lossless.evaluate(paper) == light


def test_the_theme_of_the_system_is_followed(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.goto(pages["short"].as_uri())
    page.wait_for_selector(DRAWN, state="attached")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 30)"
    assert page.evaluate("document.getElementById('throughput-plot').layout.plot_bgcolor") == "#15191e"
    page.close()


def test_a_plot_as_a_table(lossless: Any) -> None:
    details = lossless.locator("details[data-of=throughput-plot]")
    details.locator("summary").press("Enter")
    rows = details.locator("tbody tr")
    rows.first.wait_for()
    assert rows.count() == 20
    assert details.locator("thead th").all_text_contents() == ["Time (s)", "total"]
    values = [float(text) for text in details.locator("tbody td:nth-child(2)").all_text_contents()]
    assert max(values) == pytest.approx(91, rel=0.05)
