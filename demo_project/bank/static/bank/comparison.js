/* Draws the charts from the page's JSON and follows a run that is under way. */
import { poll } from "./polling.js";

const COLORS = 10;
const MARKERS = ["crossRot", "circle", "triangle", "rect", "rectRot", "star", "cross", "rectRounded", "dash", "line"];
const WHISKER = 3;
const LINE_HEIGHT = 14;
const LINE_SHARE = 0.1;
const SHADE = 0.08;
const drawn = [];

const color = (variable) =>
  getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

/* From the lowest to the highest round, at each point; and a band where somebody stops winning. */
const marks = {
  id: "marks",
  afterDatasetsDraw(chart, _args, { crossings, text }) {
    const { ctx, chartArea, scales } = chart;
    ctx.save();
    chart.data.datasets.forEach((series, index) => {
      if (!chart.isDatasetVisible(index)) {
        return;
      }
      ctx.strokeStyle = series.borderColor;
      ctx.beginPath();
      series.ranges.forEach((range, position) => {
        if (!range) {
          return;
        }
        const x = scales.x.getPixelForValue(position);
        const [low, high] = range.map((value) => scales.y.getPixelForValue(value));
        ctx.moveTo(x, low);
        ctx.lineTo(x, high);
        for (const y of [low, high]) {
          ctx.moveTo(x - WHISKER, y);
          ctx.lineTo(x + WHISKER, y);
        }
      });
      ctx.stroke();
    });
    crossings.forEach((mark, index) => {
      const [start, end] = mark.between.map((workers) =>
        scales.x.getPixelForValue(chart.data.labels.indexOf(workers)),
      );
      ctx.fillStyle = text;
      ctx.globalAlpha = SHADE;
      ctx.fillRect(start, chartArea.top, end - start, chartArea.bottom - chartArea.top);
      ctx.globalAlpha = 1;
      // On the side where there is room.
      const left = start + end > chartArea.left + chartArea.right;
      ctx.textAlign = left ? "right" : "left";
      ctx.fillText(mark.text, left ? end - 4 : start + 4, chartArea.top + 12 + index * LINE_HEIGHT);
    });
    ctx.restore();
  },
};

function axis(title, text, line) {
  return {
    title: { display: true, text: title, color: text },
    ticks: { color: text },
    grid: { color: line },
    border: { color: line },
  };
}

/* For the whiskers of the lines that are shown, and for words above them. */
function makeRoom(scale, lines) {
  const { data } = scale.chart;
  const shown = data.datasets.filter((_series, index) => scale.chart.isDatasetVisible(index));
  const values = shown.flatMap(({ ranges }) => ranges.flat()).filter((value) => value > 0);
  const highest = Math.max(scale.max, ...values);
  if (scale.type === "logarithmic") {
    scale.min = Math.min(scale.min, ...values);
    scale.max = highest * (highest / scale.min) ** (lines * LINE_SHARE);
  } else {
    scale.max = highest * (1 + lines * LINE_SHARE);
  }
}

function styled(series) {
  const shade = color(`--bank-series-${(series.color % COLORS) + 1}`);
  return {
    ...series,
    borderColor: shade,
    backgroundColor: shade,
    pointStyle: MARKERS[series.color % MARKERS.length],
    borderDash: series.limit ? [6, 4] : [],
    pointRadius: 5,
    borderWidth: 2,
    spanGaps: true,
    // Ours in front: a lower order is drawn later.
    order: series.color,
  };
}

function draw() {
  const data = document.getElementById("chart-data");
  if (!data || !window.Chart) {
    return;
  }
  drawn.splice(0).forEach((chart) => chart.destroy());
  const [text, line] = [color("--body-fg"), color("--hairline-color")];
  for (const chart of JSON.parse(data.textContent)) {
    drawn.push(
      new window.Chart(document.getElementById(chart.id), {
        type: "line",
        data: { labels: chart.workers, datasets: chart.series.map(styled) },
        plugins: [marks],
        options: {
          // Chart.js forgets a change of size that comes in the last frame of an animation.
          animation: false,
          maintainAspectRatio: false,
          plugins: {
            legend: { labels: { color: text, usePointStyle: true } },
            marks: { crossings: chart.marks, text },
          },
          scales: {
            x: { ...axis("Worker processes", text, line), offset: true },
            y: {
              ...axis(chart.unit, text, line),
              ...(chart.logarithmic ? { type: "logarithmic" } : { beginAtZero: true }),
              afterDataLimits: (scale) => makeRoom(scale, chart.marks.length),
            },
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

  async function show(response) {
    const run = await response.json();
    bar.max = run.planned;
    bar.value = run.measured;
    words.textContent = run.text;
    if (run.status === "running") {
      return true;
    }
    // By GET, so that a page that came from a form is not sent again.
    location.assign(section.dataset.list);
    return false;
  }

  poll(section.dataset.url, show, (why, ended) => {
    words.textContent = ended ? `No more news: ${why}` : `No news from the site (${why}); asking again.`;
  });
}

draw();
new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
const running = document.getElementById("running");
if (running) {
  follow(running);
}
