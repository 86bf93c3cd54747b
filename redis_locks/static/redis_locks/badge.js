/* Says on the admin's index how many locks have waiters. It asks after the page is there, so that
   Redis never delays the index, and says nothing if there is nothing to say. */
"use strict";
(async () => {
  const { badge } = document.currentScript.dataset;
  const link = document.querySelector("#content-main .app-redis_locks .model-lock th a");
  if (!link) {
    return;
  }
  try {
    const response = await fetch(badge, { headers: { Accept: "application/json" }, cache: "no-store" });
    if (response.status !== 200 || response.redirected) {
      return;
    }
    const { locks, text } = await response.json();
    if (locks) {
      const mark = document.createElement("span");
      mark.className = "locks-badge";
      mark.textContent = text;
      link.append(" ", mark);
    }
  } catch {
    // The list of locks says what is wrong.
  }
})();
