/* Asks the site again and again while the page is seen. */
const POLL_MS = 2000;

/* Calls take(response) with each answer, until that returns false, and lose(why) where there is none. */
export function poll(url, take, lose) {
  let timer = null;

  async function ask() {
    timer = null;
    try {
      const response = await fetch(url);
      if (response.redirected || !response.ok) {
        throw new Error(`the site answered ${response.status}`);
      }
      if ((await take(response)) === false) {
        return;
      }
    } catch (error) {
      lose(error.message);
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
