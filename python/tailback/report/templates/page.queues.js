  // Depths of queues: unsigned 16-bit steps of a logarithmic scale, one queue after the other.
  let queues = null;
  function unpacked(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (char) => char.charCodeAt(0));
    return new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  }

  async function readQueues() {
    if (!document.getElementById("queues")) return;
    const about = JSON.parse(document.getElementById("queues").textContent);
    const raw = new DataView(await new Response(unpacked("queue-values")).arrayBuffer());
    const depths = Float64Array.from({ length: about.levels + 1 },
      (_, level) => Math.expm1(level / about.levels * Math.log1p(about.top)));
    let at = 0;
    const take = (points, value) => Array.from({ length: points }, () => {
      const level = raw.getUint16(at, true);
      at += 2;
      return value(level);
    });
    queues = about.queues.map((queue) => ({
      ...queue,
      mean: take(queue.points, (level) => depths[level]),
      peak: take(queue.points, (level) => depths[level]),
      paused: queue.paused ? take(queue.points, (level) => level / about.levels * 100) : null,
    }));
    offerQueues();
  }

  // A row of the tailback chart takes its colours from its queue; nothing is drawn where nothing waited.
  function withDepths(trace) {
    if (trace.queue === undefined) return trace;
    const { mean, peak } = queues[trace.queue];
    return {
      ...trace,
      z: [mean.map((bytes) => (bytes > 0 ? Math.log10(Math.max(bytes, 1000)) : null))],
      customdata: [mean.map((bytes, i) => [bytes, peak[i]])],
    };
  }

  // The plot of the fullest queue becomes that of any other.
  function offerQueues() {
    const select = document.getElementById("queue-choice");
    if (!select) return;
    const figure = figures.find((one) => one.id === "queue-plot");
    const original = { data: figure.data, layout: figure.layout };
    const about = document.getElementById("queue-about");
    const label = element(figure).getAttribute("aria-label");
    const first = select.dataset.first;
    const nodes = new Map();
    const numeric = new Intl.Collator("en", { numeric: true });
    [...queues.keys()].sort((a, b) => numeric.compare(queues[a].name, queues[b].name)).forEach((number) => {
      const queue = queues[number];
      if (!nodes.has(queue.node)) {
        const group = document.createElement("optgroup");
        group.label = queue.node;
        nodes.set(queue.node, group);
        select.append(group);
      }
      const option = new Option(queue.name, number, queue.name === first, queue.name === first);
      nodes.get(queue.node).append(option);
    });
    select.addEventListener("change", () => {
      const queue = queues[select.value];
      if (queue.name === first) {
        Object.assign(figure, original);
        about.textContent = "";
        element(figure).setAttribute("aria-label", label);
      } else {
        const [data, layout, words] = depthOf(queue, original);
        Object.assign(figure, { data, layout });
        about.textContent = words;
        element(figure).setAttribute("aria-label", words);
      }
      draw(figure);
    });
  }

  const bytes = (value) => {
    const [unit, size] = value >= 1e6 ? ["MB", 1e6] : value >= 1e3 ? ["KB", 1e3] : ["B", 1];
    return `${Number((value / size).toPrecision(3))} ${unit}`;
  };

  function depthOf(queue, original) {
    const most = Math.max(...queue.peak);
    const marks = ["k_min", "k_max"].filter((key) => queue[key]);
    const top = Math.max(most, ...marks.map((key) => queue[key])) * 1.1 || 1;
    const [unit, size] = top >= 2e6 ? ["MB", 1e6] : ["KB", 1e3];
    const axis = { x0: queue.x0, dx: queue.dx };
    const data = original.data.slice(0, 2).map((trace, i) => ({
      ...trace, ...axis,
      y: (i ? queue.mean : queue.peak).map((value) => value / size),
      hovertemplate: `%{y:.4~f} ${unit} at %{x:.4~f}<extra>${trace.name}</extra>`,
    }));
    const layout = { ...original.layout, annotations: [], shapes: marks.map((key) => ({
      ...MARK, y0: queue[key] / size, y1: queue[key] / size,
    })) };
    layout.yaxis = { ...layout.yaxis, range: [0, top / size] };
    layout.yaxis.title = { ...layout.yaxis.title, text: `Queue depth (${unit})` };
    const mean = queue.mean.reduce((sum, value) => sum + value, 0) / queue.points;
    let words = `${queue.name}: ${bytes(mean)} on average, ${bytes(most)} at most; time-weighted mean and largest depth in each ${queue.step}, to within 0.3 %.`;
    if (marks.length) words += ` Dotted: ${marks.map((key) => `${key} ${bytes(queue[key])}`).join(", ")}.`;
    if (queue.paused) {
      const share = queue.paused.reduce((sum, value) => sum + value, 0) / queue.points;
      words += ` Paused for ${Number(share.toPrecision(3))} % of the run.`;
    }
    return [data, layout, words];
  }
  const MARK = { type: "line", x0: 0, x1: 1, xref: "paper", layer: "between", line: { color: "#5b6570", width: 1, dash: "dot" } };
