  // One time axis: whoever zooms into one plot zooms into all of its run.
  const whole = (axis) => figures.find((figure) => figure.axis === axis)?.layout.xaxis.range;

  function follow(figure, change) {
    let range = change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (change["xaxis.autorange"]) range = whole(figure.axis);
    if (range[0] === undefined || range[1] === undefined) return;
    zoom(figure.axis, range.map(Number));
  }

  const near = (a, b, width) => Math.abs(a - b) < 1e-6 * width;
  function zoom(axis, wanted) {
    const [begin, end] = whole(axis);
    const range = [Math.max(begin, wanted[0]), Math.min(end, wanted[1])];
    if (!(range[1] > range[0])) return;
    const same = ranges[axis] && range.every((one, i) => near(one, ranges[axis][i], end - begin));
    ranges[axis] = range;
    for (const figure of figures) {
      const plot = element(figure);
      if (figure.axis !== axis || !plot?.data) continue;
      const shown = plot.layout.xaxis.range;
      if (range.some((one, i) => !near(one, shown[i], end - begin))) Plotly.relayout(plot, { "xaxis.range": [...range] });
    }
    if (!same && axis === "run") showTime(range);
  }

  const bar = document.getElementById("times");
  function showTime(range) {
    if (!bar) return;
    const [begin, end] = whole("run");
    const unit = bar.dataset.unit;
    for (const button of bar.querySelectorAll("button[data-range]")) {
      const mine = button.dataset.range ? JSON.parse(button.dataset.range) : [begin, end];
      button.setAttribute("aria-pressed", String(mine.every((one, i) => near(one, range[i], end - begin))));
    }
    const digits = (value) => Number(value.toPrecision(4));
    document.getElementById("time-shown").textContent = `${digits(range[0])} to ${digits(range[1])} ${unit}`;
    for (const table of document.querySelectorAll("details.numbers[open]")) fillNumbers(table);
  }

  bar?.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const [begin, end] = whole("run");
    if (button.dataset.range !== undefined) {
      zoom("run", button.dataset.range ? JSON.parse(button.dataset.range) : [begin, end]);
      return;
    }
    const [from, to] = ranges.run ?? [begin, end];
    const width = to - from;
    const step = { in: [width / 4, -width / 4], out: [-width / 2, width / 2] }[button.dataset.step];
    if (step) {
      zoom("run", [from + step[0], to + step[1]]);
      return;
    }
    // Earlier and later keep the width.
    const wish = (button.dataset.step === "later" ? 1 : -1) * width / 2;
    const move = Math.max(begin - from, Math.min(end - to, wish));
    zoom("run", [from + move, to + move]);
  });
