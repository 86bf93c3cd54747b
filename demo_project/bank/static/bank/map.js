/* Shows what the sliders say, and fills the picture while a run is under way. */
import { poll } from "./polling.js";

for (const slider of document.querySelectorAll("#survey input[type=range]")) {
  const shown = document.querySelector(`output[for="${slider.id}"]`);
  const show = () => {
    shown.textContent = Number(slider.value).toLocaleString("en") + slider.dataset.unit;
  };
  slider.addEventListener("input", show);
  show();
}

const picture = document.getElementById("picture");
const news = document.getElementById("news");

async function take(response) {
  if (response.status === 204) {
    location.reload();
    return false;
  }
  picture.innerHTML = await response.text();
  news.textContent = "";
  return true;
}

if (picture?.dataset.url) {
  poll(picture.dataset.url, take, (why, ended) => {
    news.textContent = ended ? `No more news: ${why}` : `No news of the run (${why}); asking again.`;
  });
}
