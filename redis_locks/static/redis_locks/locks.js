/* Keeps a page of locks up to date. The server renders each part; this asks for news every
   two seconds, puts in what changed, and counts times on in between. */
"use strict";
(() => {
  const POLL_MS = 2000;
  const PATIENCE_MS = 10000;

  const page = document.querySelector("[data-live]");
  if (!page) {
    return;
  }
  const stateText = page.querySelector("[data-state-text]");
  const banner = page.querySelector("[data-banner]");
  const pause = page.querySelector("[data-pause]");
  const url = page.dataset.live + location.search;
  let etag = page.dataset.etag || "";
  // The server's clock, as of a moment of ours: the two clocks need not agree.
  let clock = { now: Number(page.dataset.now) || Date.now() / 1000, at: performance.now() };
  let timer = null;
  let asking = null;
  let paused = false;
  let ended = false;

  const serverNow = () => clock.now + (performance.now() - clock.at) / 1000;

  // As `duration` in redis_locks/values/text.py writes them.
  function duration(seconds) {
    if (seconds < 59.95) {
      return `${Math.max(0, seconds).toFixed(1)}s`;
    }
    const whole = Math.round(seconds);
    const two = (number) => String(Math.floor(number)).padStart(2, "0");
    if (whole >= 86400) {
      return `${Math.floor(whole / 86400)}d${two((whole % 86400) / 3600)}h`;
    }
    if (whole >= 3600) {
      return `${Math.floor(whole / 3600)}h${two((whole % 3600) / 60)}m`;
    }
    return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  }

  function countOn() {
    const now = serverNow();
    for (const element of page.querySelectorAll("[data-since]")) {
      element.textContent = duration(now - Number(element.dataset.since));
    }
    for (const element of page.querySelectorAll("[data-ends]")) {
      const left = Math.max(0, Number(element.dataset.ends) - now);
      if (element instanceof HTMLMeterElement) {
        element.value = left;
      } else {
        element.textContent = duration(left);
      }
    }
  }

  // Only rows that changed are replaced, so that focus, selection and scroll position stay.
  function mergeRows(old, fresh) {
    const known = new Map([...old.children].map((row) => [row.dataset.key, row]));
    let place = old.firstElementChild;
    for (const row of [...fresh.children]) {
      const same = known.get(row.dataset.key);
      if (same && same.dataset.state === row.dataset.state) {
        known.delete(row.dataset.key);
        const ends = row.querySelectorAll("[data-ends]");
        same.querySelectorAll("[data-ends]").forEach((element, index) => {
          element.dataset.ends = ends[index].dataset.ends;
          if (element instanceof HTMLMeterElement) {
            element.max = ends[index].max;
            element.low = ends[index].low;
          }
        });
        if (same === place) {
          place = place.nextElementSibling;
        } else {
          old.insertBefore(same, place);
        }
      } else {
        old.insertBefore(row, place);
      }
    }
    for (const gone of known.values()) {
      gone.remove();
    }
  }

  function show(parts) {
    for (const [name, html] of Object.entries(parts)) {
      const part = page.querySelector(`[data-part="${name}"]`);
      const focused = part.contains(document.activeElement) ? document.activeElement : null;
      const fresh = document.createElement("template");
      fresh.innerHTML = html;
      const rows = part.querySelector("[data-rows]");
      const freshRows = fresh.content.querySelector("[data-rows]");
      if (rows && freshRows) {
        mergeRows(rows, freshRows);
      } else {
        part.replaceChildren(fresh.content);
      }
      if (focused && !focused.isConnected) {
        const href = focused.getAttribute("href");
        const twin = [...part.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === href);
        (twin || pause).focus({ preventScroll: true });
      }
    }
  }

  function tell(state, trouble) {
    // Only when it changes: a screen reader says it aloud.
    if (stateText.textContent !== state) {
      stateText.textContent = state;
    }
    page.dataset.state = trouble ? "trouble" : paused ? "paused" : "live";
    if (banner.textContent !== trouble) {
      banner.textContent = trouble;
    }
    banner.hidden = !trouble;
  }

  function stop(trouble) {
    ended = true;
    pause.hidden = true;
    tell("Not updating", trouble);
  }

  async function take(response) {
    if (response.status === 304) {
      return tell("Live", "");
    }
    if (response.status === 403) {
      return stop("You may no longer see this page.");
    }
    if (response.redirected) {
      return stop("You are logged out. Reload this page to log in again.");
    }
    const news = await response.json();
    if (news.unreachable) {
      return tell("Not updating", `Redis cannot be reached: ${news.unreachable} What you see is from before; this page goes on asking.`);
    }
    etag = response.headers.get("ETag") || "";
    clock = { now: news.now, at: performance.now() };
    show(news.parts);
    return tell("Live", "");
  }

  async function ask() {
    timer = null;
    asking = new AbortController();
    const impatience = setTimeout(() => asking.abort(), PATIENCE_MS);
    try {
      // By hand, as the browser would hide a 304 from us.
      const headers = { Accept: "application/json", ...(etag && { "If-None-Match": etag }) };
      await take(await fetch(url, { headers, cache: "no-store", signal: asking.signal }));
      countOn();
    } catch {
      // Whoever paused gave the request up, and sees that it is paused.
      if (paused) {
        return;
      }
      tell("Not updating", "This site does not answer. What you see is from before; this page goes on asking.");
    } finally {
      clearTimeout(impatience);
      asking = null;
      plan(POLL_MS);
    }
  }

  function plan(delay) {
    if (timer === null && !asking && !ended && !paused && !document.hidden) {
      timer = setTimeout(ask, delay);
    }
  }

  function rest() {
    clearTimeout(timer);
    timer = null;
  }

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume updates" : "Pause updates";
    rest();
    if (paused) {
      asking?.abort();
      tell("Paused", "");
    } else {
      plan(0);
    }
  });
  document.addEventListener("visibilitychange", () => {
    rest();
    plan(0);
  });

  pause.hidden = false;
  tell(banner.hidden ? "Live" : "Not updating", banner.hidden ? "" : banner.textContent);
  setInterval(() => paused || ended || document.hidden || countOn(), 1000);
  plan(etag ? POLL_MS : 0);
})();
