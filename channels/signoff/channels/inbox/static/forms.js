// Sends a form once after a double click. Without this file, the server refuses the second one, and
// the browser shows that refusal: "This link does not work any more".
"use strict";

document.body.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  const now = Date.now();
  if (now - (form.dataset.sent || 0) < 2000) event.preventDefault();
  else form.dataset.sent = now;
});
