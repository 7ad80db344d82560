// Registers the service worker. Without it the pages do the same, except for notifications.
"use strict";

if (navigator.serviceWorker) {
  const root = new URL(document.currentScript.src).pathname.replace(/[^/]*$/, "");
  // Where it is refused, the pages do without.
  navigator.serviceWorker.register(`${root}worker.js`, { scope: root }).catch(() => {});
}
