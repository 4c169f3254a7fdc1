"use strict";
(async function () {
  // plotly.js travels compressed: it is most of the page.
  async function unpacked(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (char) => char.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
  }

  const library = document.createElement("script");
  library.text = await (await unpacked("plotly")).text();
  document.head.append(library);

  const figures = JSON.parse(document.getElementById("figures").textContent);
  const phone = window.matchMedia("(max-width: 760px)");

  // On a phone a finger on a plot scrolls the page; with a mouse it zooms in time.
  function layoutOf(figure) {
    const layout = JSON.parse(JSON.stringify(figure.layout));
    layout.dragmode = phone.matches ? false : "zoom";
    if (phone.matches) {
      layout.xaxis.nticks = 5;
      layout.margin.l -= 6;
      if (layout.margin.r > 60) layout.margin.r -= 8;
      else layout.margin.r = 8;
    }
    return layout;
  }

  const config = {
    responsive: true,
    displaylogo: false,
    // Where nothing hovers, as on a tablet or in a printed page, the bar would always lie over labels.
    displayModeBar: phone.matches || window.matchMedia("(hover: none)").matches ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "pan2d", "zoom2d"],
  };

  const drawn = figures.map((figure) => Plotly.newPlot(figure.id, figure.data, layoutOf(figure), config));
  phone.addEventListener("change", () => {
    for (const figure of figures) Plotly.react(figure.id, figure.data, layoutOf(figure), config);
  });
  Promise.all(drawn).then(() => { document.documentElement.dataset.plots = "drawn"; });
})();
