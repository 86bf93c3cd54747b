"use strict";

/* Keeps the balances fresh, and says that a form is on its way. The page works without it. */
(() => {
  const POLL_MS = 2000;
  const accounts = document.getElementById("accounts");
  const news = document.getElementById("news");
  let timer = null;
  let shown = null;

  async function ask() {
    timer = null;
    try {
      const response = await fetch(accounts.dataset.url);
      if (!response.ok) {
        throw new Error(`the site answered ${response.status}`);
      }
      const table = await response.text();
      // Untouched while nothing has changed, so that a selection stays.
      if (table !== shown) {
        accounts.innerHTML = table;
        shown = table;
      }
      news.textContent = "";
    } catch (error) {
      news.textContent = `No news of the balances (${error.message}); asking again.`;
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

  for (const form of document.querySelectorAll("form[method=post]")) {
    const button = form.querySelector("button");
    form.addEventListener("submit", (event) => {
      if (button.getAttribute("aria-disabled")) {
        event.preventDefault();
        return;
      }
      button.setAttribute("aria-disabled", "true");
    });
    // The browser may show this page again as it was left.
    window.addEventListener("pageshow", () => button.removeAttribute("aria-disabled"));
  }
  plan();
})();
