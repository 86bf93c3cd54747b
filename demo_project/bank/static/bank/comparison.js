/* Draws the charts from the page's JSON and follows a run that is under way. */
import { poll } from "./polling.js";

const COLORS = 10;
const MARKERS = ["crossRot", "circle", "triangle", "rect", "rectRot", "star", "cross", "rectRounded", "dash", "line"];
const WHISKER = 3;
const COLUMN = 0.6;
const LINE_HEIGHT = 14;
const LINE_SHARE = 0.1;
const SHADE = 0.08;
const drawn = [];

const color = (variable) =>
  getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

/* Side by side, so that no mark hides another one: how far from the middle of its column a method's mark stands. */
const aside = (index, count) => (count > 1 ? (index / (count - 1) - 0.5) * COLUMN : 0);

/* From the lowest to the highest round, at each mark; and a band where a method stops being better. */
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
        const x = scales.x.getPixelForValue(series.data[position].x);
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

/* A column for each number of workers, with a line between two of them. */
function columns(axis, workers) {
  return {
    ...axis,
    type: "linear",
    min: -0.5,
    max: workers.length - 0.5,
    grid: { ...axis.grid, drawOnChartArea: false },
    afterBuildTicks: (scale) => {
      scale.ticks = workers.map((_count, value) => ({ value }));
    },
    ticks: { ...axis.ticks, callback: (value) => workers[value] },
  };
}

/* For the whiskers of the marks that are shown, and for words above them. */
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

/* Numbers of workers are categories: what lies between two of them was not measured, so no line joins them. */
function styled(series, index, { length }) {
  const shade = color(`--bank-series-${(series.color % COLORS) + 1}`);
  return {
    ...series,
    data: series.data.map((y, column) => ({ x: column + aside(index, length), y })),
    hidden: false,
    borderColor: shade,
    // What only limits the others is hollow.
    backgroundColor: series.limit ? "transparent" : shade,
    pointStyle: MARKERS[series.color % MARKERS.length],
    showLine: false,
    pointRadius: 5,
    borderWidth: 2,
    // Ours in front: a lower order is drawn later.
    order: series.color,
  };
}

/* 1, 2 and 5 of each power of ten, as far as there is room. */
function roundTicks(scale) {
  const decades = Math.log10(scale.max / scale.min);
  const steps = decades > 3 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(scale.min)); power <= Math.ceil(Math.log10(scale.max)); power += 1) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= scale.min && value <= scale.max) {
        ticks.push({ value });
      }
    }
  }
  scale.ticks = ticks;
}

const counted = (workers) => `${workers} ${workers === 1 ? "worker" : "workers"}`;

const brief = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

function draw() {
  const data = document.getElementById("chart-data");
  if (!data || !window.Chart) {
    return;
  }
  drawn.splice(0).forEach((chart) => chart.destroy());
  const [text, line] = [color("--body-fg"), color("--hairline-color")];
  for (const chart of JSON.parse(data.textContent)) {
    const canvas = document.getElementById(chart.id);
    if (canvas.offsetParent === null) {
      continue; // in a tab that is not shown
    }
    const all = canvas.closest(".bank-panel").querySelector(".bank-all input").checked;
    const series = chart.series.filter(({ hidden }) => all || !hidden);
    drawn.push(
      new window.Chart(canvas, {
        type: "line",
        data: { labels: chart.workers, datasets: series.map(styled) },
        plugins: [marks],
        options: {
          // Chart.js forgets a change of size that comes in the last frame of an animation.
          animation: false,
          maintainAspectRatio: false,
          plugins: {
            legend: { labels: { color: text, usePointStyle: true } },
            marks: { crossings: chart.marks, text },
            tooltip: { callbacks: { title: ([{ parsed }]) => counted(chart.workers[Math.round(parsed.x)]) } },
          },
          scales: {
            x: columns(axis("Worker processes", text, line), chart.workers),
            y: {
              ...axis(chart.unit, text, line),
              ticks: { color: text, callback: (value) => brief.format(value), maxTicksLimit: 7 },
              ...(chart.logarithmic ? { type: "logarithmic", afterBuildTicks: roundTicks } : { beginAtZero: true }),
              afterDataLimits: (scale) => makeRoom(scale, chart.marks.length),
            },
          },
        },
      }),
    );
  }
  document.documentElement.dataset.chartsDrawn = String(drawn.length);
}

/* One panel at a time; without this script, all of them stand below each other. */
function useTabs(list) {
  const tabs = [...list.children];

  function select(chosen) {
    for (const tab of tabs) {
      const isChosen = tab === chosen;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !isChosen;
    }
    draw();
  }

  for (const tab of tabs) {
    const panel = document.getElementById(tab.getAttribute("aria-controls"));
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => {
      history.replaceState(null, "", `#${panel.id}`);
      select(tab);
    });
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    }
  });
  list.hidden = false;
  const asked = location.hash.slice(1);
  select(tabs.find((tab) => tab.getAttribute("aria-controls") === asked) ?? tabs[0]);
}

for (const label of document.querySelectorAll(".bank-all")) {
  label.hidden = false;
  label.querySelector("input").addEventListener("change", draw);
}

/* The reader loads the page anew, as a form below may be half filled in. */
function finish(section) {
  const form = section.querySelector("form");
  const link = document.getElementById("running-result");
  const stood = form.contains(document.activeElement);
  document.getElementById("running-title").textContent = section.dataset.ended;
  form.hidden = true;
  link.hidden = false;
  document.getElementById("running-said").textContent = section.dataset.ended;
  if (stood) {
    link.focus();
  }
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
    finish(section);
    return false;
  }

  poll(section.dataset.url, show, (why, ended) => {
    words.textContent = ended ? `No more news: ${why}` : `No news from the site (${why}); asking again.`;
  });
}

useTabs(document.querySelector(".bank-tabs"));
new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
const running = document.getElementById("running");
if (running) {
  follow(running);
}
