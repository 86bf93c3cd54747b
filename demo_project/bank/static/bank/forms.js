/* Says that a form is on its way, and sends it once. The page works without it. */
document.addEventListener("submit", (event) => {
  const button = event.target.querySelector("button");
  if (event.target.method !== "post" || !button) {
    return;
  }
  if (button.getAttribute("aria-disabled")) {
    event.preventDefault();
    return;
  }
  button.setAttribute("aria-disabled", "true");
});
// The browser may show this page again as it was left.
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button[aria-disabled]")) {
    button.removeAttribute("aria-disabled");
  }
});
