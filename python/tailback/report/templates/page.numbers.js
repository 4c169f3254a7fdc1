  // The values of a plot as a table, for the time that is shown.
  const NUMBERS = 20;
  function fillNumbers(details) {
    const plot = document.getElementById(details.dataset.of);
    if (!plot.data) return;
    const lines = plot._fullData.filter((trace) => trace.type === "scatter" && trace.dx && trace.hoverinfo !== "skip");
    const [from, to] = plot.layout.xaxis.range;
    const value = (trace, x) => {
      const found = trace.y[Math.round((x - trace.x0) / trace.dx)];
      return Number.isFinite(found) ? Number(found.toPrecision(4)).toLocaleString("en") : "–";
    };
    const table = document.createElement("table");
    table.className = "compact";
    const cell = (row, kind, text) => {
      const made = document.createElement(kind);
      made.textContent = text;
      made.className = "number";
      if (kind === "th") made.scope = "col";
      row.append(made);
    };
    const head = table.createTHead().insertRow();
    [plot.layout.xaxis.title.text, ...lines.map((trace) => trace.name)].forEach((name) => cell(head, "th", name));
    const body = table.createTBody();
    for (let i = 0; i < NUMBERS; i += 1) {
      const x = from + (to - from) * (i + 0.5) / NUMBERS;
      const row = body.insertRow();
      [Number(x.toPrecision(4)), ...lines.map((trace) => value(trace, x))].forEach((text) => cell(row, "td", text));
    }
    details.querySelector(".scroll").replaceChildren(table);
  }
  for (const details of document.querySelectorAll("details.numbers"))
    details.addEventListener("toggle", () => { if (details.open) fillNumbers(details); });
