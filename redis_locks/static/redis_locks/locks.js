/* Keeps a page up to date. The server renders each piece; this asks for news every
   two seconds, puts in the pieces that changed, and counts times on in between. */
"use strict";
(() => {
  const POLL_MS = 2000;
  const SLOWEST_POLL_MS = 30000;
  const PATIENCE_MS = 10000;
  // Redis has a second to answer the site. What takes longer than this is the site, or the way to it.
  const SILENT_MS = 2500;
  const TYPING_MS = 250;
  const SAY_MS = 5000;

  const page = document.querySelector("[data-live]");
  if (!page) {
    return;
  }
  // In the user's language: see `script_texts` in redis_locks/admin/script_texts.py.
  const texts = JSON.parse(page.dataset.texts);
  const one = (selector) => page.querySelector(selector);
  const all = (selector) => [...page.querySelectorAll(selector)];
  const stateText = one("[data-state-text]");
  const said = one("[data-said]");
  const banner = one("[data-banner]");
  const bannerText = one("[data-banner-text]");
  const bannerNext = one("[data-banner-next]");
  const bannerDetail = one("[data-banner-detail]");
  const retry = one("[data-retry]");
  const pause = one("[data-pause]");
  const search = one("[data-search]");
  let etag = page.dataset.etag || "";
  // The server's clock, as of a moment of ours: the two clocks need not agree.
  let clock = { now: Number(page.dataset.now) || Date.now() / 1000, at: performance.now() };
  let heard = Date.now();
  let anything = Boolean(etag);
  let timer = null;
  let asking = null;
  let paused = false;
  let ended = false;
  let trouble = false;
  let failures = 0;
  let took = 0;
  let nextAt = 0;
  let lastSaid = 0;

  const serverNow = () => clock.now + (performance.now() - clock.at) / 1000;

  // As `duration` in redis_locks/inspection/localized_times.py writes them.
  function duration(seconds) {
    if (seconds < 59.95) {
      return `${Math.max(0, seconds).toFixed(1)}s`.replace(".", texts.decimal);
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
    if (page.dataset.state === "over") {
      return;
    }
    if (trouble) {
      // What is shown is from before, so its times must not go on as if it were true.
      const left = Math.max(0, Math.ceil((nextAt - Date.now()) / 1000));
      const next = anything ? (left ? texts.stale : texts.trying) : left ? texts.next : texts.trying_first;
      const text = ended ? (anything ? texts.known : "") : next;
      bannerNext.textContent = text
        .replace("%(ago)s", duration((Date.now() - heard) / 1000))
        .replace("%(left)s", left);
      return;
    }
    const now = serverNow();
    for (const element of all("[data-since]")) {
      element.textContent = duration(now - Number(element.dataset.since));
    }
    for (const picture of all("svg[data-began]")) {
      const { y, width, height } = picture.viewBox.baseVal;
      const x = now - Number(picture.dataset.began) - width;
      picture.setAttribute("viewBox", `${x.toFixed(1)} ${y} ${width} ${height}`);
    }
    for (const element of all("[data-ends]")) {
      element.textContent = duration(Math.max(0, Number(element.dataset.ends) - now));
    }
  }

  const made = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  };

  function showCopies() {
    for (const button of all("[data-copy][hidden]")) {
      button.hidden = false;
    }
  }

  // Only pieces that changed are replaced, so that focus, selection and scroll position stay.
  function show(news) {
    const focused = page.contains(document.activeElement) ? document.activeElement : null;
    const around = focused?.closest("[data-part]");
    const unfolded = new Map(all("details[id]").map((details) => [details.id, details.open]));
    const key = focused?.closest("[data-key]")?.dataset.key;
    const href = focused?.getAttribute("href");
    const rows = new Map(all("[data-rows] > *").map((row) => [row.dataset.state, row]));
    for (const [name, state] of Object.entries(news.parts)) {
      const part = one(`[data-part="${name}"]`);
      if (part.dataset.state !== state) {
        part.replaceChildren(made(news.html[state]));
        part.dataset.state = state;
      }
    }
    const table = one("[data-rows]");
    let place = table?.firstElementChild || null;
    for (const state of news.rows) {
      const row = rows.get(state) || made(news.html[state]).firstElementChild;
      if (row === place) {
        place = place.nextElementSibling;
      } else {
        table.insertBefore(row, place);
      }
    }
    while (place) {
      const gone = place;
      place = place.nextElementSibling;
      gone.remove();
    }
    showCopies();
    for (const details of all("details[id]")) {
      details.open = unfolded.get(details.id) ?? details.open;
    }
    if (focused && !focused.isConnected) {
      const links = all("a[href]");
      const twin =
        (focused.id && document.getElementById(focused.id)) ||
        links.find((a) => key && a.closest("[data-key]")?.dataset.key === key && a.getAttribute("href") === href) ||
        links.find((a) => href && a.getAttribute("href") === href);
      if (!twin && pause.hidden) {
        around.tabIndex = -1;
      }
      (twin || (pause.hidden ? around : pause)).focus({ preventScroll: true });
    }
    say(false);
  }

  // To a screen reader, now and then, and only what matters; the last word at once.
  function say(atOnce) {
    const text = one("[data-say]")?.dataset.say || "";
    if (said.textContent !== text && (atOnce || Date.now() - lastSaid > SAY_MS)) {
      said.textContent = text;
      lastSaid = Date.now();
    }
  }

  function tell(state, problem, detail) {
    trouble = Boolean(problem);
    if (stateText.textContent !== state) {
      stateText.textContent = state;
    }
    page.dataset.state = trouble ? "trouble" : ended ? "over" : paused ? "paused" : "live";
    if (bannerText.textContent !== problem) {
      bannerText.textContent = problem;
    }
    bannerDetail.textContent = detail || "";
    bannerNext.textContent = "";
    banner.hidden = !trouble;
    retry.hidden = !trouble || ended;
    // What would be ended is not what is shown.
    for (const element of all("[data-act]")) {
      element.inert = trouble;
    }
  }

  function stop(problem) {
    ended = true;
    pause.hidden = true;
    tell(texts.stopped, problem);
  }

  // Nothing will change any more.
  function finish() {
    ended = true;
    anything = true;
    pause.hidden = true;
    tell(texts.over, "");
    say(true);
  }

  function fail(problem, detail) {
    failures += 1;
    tell(texts.stopped, problem, detail);
  }

  function well() {
    failures = 0;
    anything = true;
    heard = Date.now();
    tell(texts.live, "");
  }

  // Which of the two is away that stand between this page and Redis.
  const away = () => (navigator.onLine ? texts.silent : texts.offline);

  async function take(response) {
    if (response.status === 304) {
      return well();
    }
    if (response.status === 403) {
      return stop(texts.forbidden);
    }
    if (response.redirected) {
      return stop(texts.logged_out);
    }
    const news = await response.json();
    if (news.gone) {
      return stop(news.gone);
    }
    if (news.unreachable) {
      return fail(texts.unreachable, news.unreachable);
    }
    if ("reload" in page.dataset) {
      // Not all of this page is news.
      ended = true;
      return location.reload();
    }
    etag = response.headers.get("ETag") || "";
    clock = { now: news.now, at: performance.now() };
    show(news);
    return news.over ? finish() : well();
  }

  async function ask() {
    timer = null;
    asking = new AbortController();
    const mine = asking;
    const started = performance.now();
    const impatience = setTimeout(() => mine.abort(), PATIENCE_MS);
    const silence = setTimeout(() => tell(texts.stopped, away()), SILENT_MS);
    try {
      // By hand, as the browser would hide a 304 from us.
      const headers = {
        Accept: "application/json",
        "X-Locks-Known": all("[data-state]").map((element) => element.dataset.state).join(","),
        ...(etag && { "If-None-Match": etag }),
      };
      const url = page.dataset.live + location.search;
      await take(await fetch(url, { headers, cache: "no-store", signal: mine.signal }));
    } catch {
      // Whoever paused or typed on gave the request up.
      if (asking === mine && !paused) {
        fail(away());
      }
    } finally {
      clearTimeout(impatience);
      clearTimeout(silence);
      if (asking === mine) {
        asking = null;
        took = performance.now() - started;
        // A site that takes long is asked less often; one that fails, ever less.
        plan(Math.min(SLOWEST_POLL_MS, Math.max(POLL_MS * 2 ** Math.min(failures, 8), 10 * took)));
        countOn();
      }
    }
  }

  function plan(delay) {
    if (timer === null && !asking && !ended && !paused && !document.hidden) {
      nextAt = Date.now() + delay;
      timer = setTimeout(ask, delay);
    }
  }

  function rest() {
    clearTimeout(timer);
    timer = null;
  }

  function askNow() {
    rest();
    asking?.abort();
    asking = null;
    plan(0);
  }

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? texts.resume : texts.pause;
    rest();
    if (paused) {
      asking?.abort();
      tell(texts.paused, "");
    } else {
      askNow();
    }
  });
  retry.addEventListener("click", askNow);
  window.addEventListener("offline", () => ended || paused || fail(texts.offline));
  window.addEventListener("online", () => ended || paused || askNow());
  document.addEventListener("visibilitychange", () => {
    rest();
    plan(0);
  });

  if (search) {
    const field = search.elements.namedItem("q");
    let typing = null;
    field.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        const query = new URLSearchParams(location.search);
        query.delete("p");
        if (field.value) {
          query.set("q", field.value);
        } else {
          query.delete("q");
        }
        const text = query.toString();
        history.replaceState(null, "", text ? `?${text}` : location.pathname);
        etag = "";
        askNow();
      }, TYPING_MS);
    });
  }

  page.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) {
      return;
    }
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(String(JSON.parse(button.dataset.copy)));
      button.textContent = texts.copied;
    } catch {
      button.textContent = texts.cannot_copy;
    }
    setTimeout(() => (button.textContent = label), 1500);
  });

  function step(by) {
    const links = all("[data-rows] th a");
    const at = links.findIndex((a) => a === document.activeElement);
    const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))];
    next?.focus();
    next?.closest("tr").scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "Escape") {
      if (typing) {
        typing.blur();
      } else if (page.dataset.up) {
        location.assign(page.dataset.up);
      } else {
        document.activeElement?.blur();
      }
    } else if (!typing && event.key === "/" && search) {
      event.preventDefault();
      search.elements.namedItem("q").select();
    } else if (!typing && (event.key === "j" || event.key === "k")) {
      step(event.key === "j" ? 1 : -1);
    }
  });

  pause.hidden = false;
  showCopies();
  if (banner.hidden) {
    tell(texts.live, "");
  } else {
    failures = 1;
    tell(texts.stopped, bannerText.textContent, bannerDetail.textContent);
  }
  setInterval(() => paused || document.hidden || countOn(), 1000);
  plan(etag ? POLL_MS : 0);
  countOn();
})();
