/* Keeps the balances fresh, and says that a form is on its way. The page works without it. */
import { poll } from "./polling.js";

const accounts = document.getElementById("accounts");
const news = document.getElementById("news");
let shown = null;

async function show(response) {
  const table = await response.text();
  // Untouched while nothing has changed, so that a selection stays.
  if (table !== shown) {
    accounts.innerHTML = table;
    shown = table;
  }
  news.textContent = "";
}

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

poll(accounts.dataset.url, show, (why, ended) => {
  news.textContent = ended ? `No more news of the balances: ${why}` : `No news of the balances (${why}); asking again.`;
});
