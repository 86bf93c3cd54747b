"use strict";

/* Draws the charts from the page's JSON and follows a run that is under way. */
(() => {
  const POLL_MS = 2000;
  const MARKERS = ["crossRot", "circle", "triangle", "rect", "star"];
  const drawn = [];

  const color = (variable) =>
    getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

  function draw() {
    const data = document.getElementById("chart-data");
    if (!data || !window.Chart) {
      return;
    }
    drawn.splice(0).forEach((chart) => chart.destroy());
    const [text, line] = [color("--body-fg"), color("--hairline-color")];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (const chart of JSON.parse(data.textContent)) {
      const axis = (title) => ({
        title: { display: true, text: title, color: text },
        ticks: { color: text },
        grid: { color: line },
        border: { color: line },
      });
      const datasets = chart.series.map((series, index) => {
        const shade = color(`--bank-series-${(index % 5) + 1}`);
        return {
          ...series,
          borderColor: shade,
          backgroundColor: shade,
          pointStyle: MARKERS[index % MARKERS.length],
          pointRadius: 5,
          borderWidth: 2,
          spanGaps: true,
        };
      });
      drawn.push(
        new window.Chart(document.getElementById(chart.id), {
          type: "line",
          data: { labels: chart.workers, datasets },
          options: {
            animation: still ? false : { duration: 300 },
            maintainAspectRatio: false,
            plugins: { legend: { labels: { color: text, usePointStyle: true } } },
            scales: {
              x: axis("Worker processes"),
              y: { ...axis("Transfers per second"), beginAtZero: true },
            },
          },
        }),
      );
    }
    document.documentElement.dataset.chartsDrawn = String(drawn.length);
  }

  function follow(section) {
    const bar = section.querySelector("progress");
    const words = document.getElementById("running-text");
    let timer = null;

    async function ask() {
      timer = null;
      try {
        const response = await fetch(section.dataset.url, { headers: { Accept: "application/json" } });
        if (response.redirected || !response.ok) {
          throw new Error(`The site answered ${response.status}.`);
        }
        const run = await response.json();
        bar.max = run.planned;
        bar.value = run.measured;
        words.textContent = `${run.measured} of ${run.planned} measurements`;
        if (run.status !== "running") {
          // By GET, so that a page that came from a form is not sent again.
          location.assign(section.dataset.list || location.pathname);
          return;
        }
      } catch (error) {
        words.textContent = `No news from the site; asking again. ${error.message}`;
      }
      plan();
    }

    function plan() {
      if (timer === null && !document.hidden) {
        timer = setTimeout(ask, POLL_MS);
      }
    }

    document.addEventListener("visibilitychange", () => {
      clearTimeout(timer);
      timer = null;
      plan();
    });
    plan();
  }

  draw();
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const running = document.getElementById("running");
  if (running) {
    follow(running);
  }
})();
