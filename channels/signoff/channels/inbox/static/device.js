// Registers the service worker. Without it, everything works except notifications.
// On a phone, also scrolls the navigation to the current page.
"use strict";

{
  const here = document.querySelector("nav [aria-current]");
  if (here) here.closest("ul").scrollLeft = here.offsetLeft - here.offsetWidth;
}

if (navigator.serviceWorker) {
  const root = new URL(document.currentScript.src).pathname.replace(/[^/]*$/, "");
  // If the browser refuses it, the pages work without it.
  navigator.serviceWorker.register(`${root}worker.js`, { scope: root }).catch(() => {});
}
