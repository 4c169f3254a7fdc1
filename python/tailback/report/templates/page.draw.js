  const phone = window.matchMedia("(max-width: 760px)");
  const still = window.matchMedia("(hover: none)");
  const ranges = {}; // of each time axis that somebody has zoomed

  // On a phone a finger on a plot scrolls the page; with a mouse it zooms in time.
  function layoutOf(figure) {
    const layout = themed(figure.layout);
    layout.dragmode = phone.matches || !figure.axis ? false : "zoom";
    if (figure.axis && ranges[figure.axis]) layout.xaxis.range = ranges[figure.axis];
    if (!figure.axis) layout.xaxis.fixedrange = true;
    if (phone.matches) {
      layout.xaxis.nticks = 5;
      layout.margin.l -= 6;
      if (layout.margin.r > 60) layout.margin.r -= 8;
      else layout.margin.r = 8;
    }
    return layout;
  }

  async function draw(figure) {
    const config = {
      responsive: true,
      displaylogo: false,
      // Where nothing hovers, as on a tablet or in a printed page, the bar would always lie over labels.
      displayModeBar: phone.matches || still.matches || !figure.axis ? false : "hover",
      // What zooms is above, for all plots.
      modeBarButtons: [["toImage"]],
    };
    const fresh = !element(figure).data;
    await Plotly.react(figure.id, themed(figure.data).map(withDepths), layoutOf(figure), config);
    if (fresh && figure.axis) element(figure).on("plotly_relayout", (change) => follow(figure, change));
  }

  const redraw = () => figures.filter((figure) => element(figure)?.data).forEach(draw);
  phone.addEventListener("change", redraw);
