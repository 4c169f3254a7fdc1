"use strict";
(async function () {
  const page = JSON.parse(document.getElementById("figures").textContent);
  const figures = page.figures;
  const element = (figure) => document.getElementById(figure.id);

{% include "page.theme.js" %}

{% include "page.queues.js" %}

{% include "page.draw.js" %}

{% include "page.time.js" %}

{% include "page.numbers.js" %}

  // plotly.js travels compressed: it is most of the page.
  const library = document.createElement("script");
  library.text = await new Response(unpacked("plotly")).text();
  document.head.append(library);
  await readQueues();
  const drawn = figures.filter(element);
  // What is in sight comes first. The page can be read, scrolled and used while the rest is drawn.
  const height = window.innerHeight;
  const seen = (figure) => element(figure).getBoundingClientRect().top < height;
  for (const figure of [...drawn.filter(seen), ...drawn.filter((figure) => !seen(figure))]) {
    await draw(figure);
    await new Promise((resolve) => setTimeout(resolve));
  }
  document.documentElement.dataset.plots = "drawn";
})();
