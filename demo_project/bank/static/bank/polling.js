/* Asks the site again and again while the page is seen. */
const POLL_MS = 2000;

/* Why an answer will be the same however often we ask; undefined if it may change. */
function end(response) {
  if (response.redirected) {
    return "you are logged out. Reload this page to log in again.";
  }
  return { 403: "you may no longer see this.", 404: "it was deleted. Reload this page." }[response.status];
}

/* Calls take(response) with each answer, until that returns false, and lose(why, ended) where there is none:
   `ended` says that nothing is asked any more. */
export function poll(url, take, lose) {
  let timer = null;
  let asking = false;
  let ended = false;

  async function ask() {
    timer = null;
    asking = true;
    try {
      const response = await fetch(url);
      const why = end(response);
      if (why) {
        ended = true;
        lose(why, true);
      } else if (response.ok) {
        ended = (await take(response)) === false;
      } else {
        throw new Error(`the site answered ${response.status}`);
      }
    } catch (error) {
      lose(error.message, false);
    }
    asking = false;
    plan();
  }

  function plan() {
    if (timer === null && !asking && !ended && !document.hidden) {
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
