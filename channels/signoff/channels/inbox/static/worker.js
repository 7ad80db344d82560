// The service worker shows notifications about waiting requests, and an offline page while the
// gateway cannot be reached. It does not store form submissions, and never submits a form itself.
"use strict";

const ROOT = new URL("./", self.location).pathname;
const CACHE = "signoff-offline";
const OFFLINE = `${ROOT}offline`;
const KEPT = [OFFLINE, `${ROOT}style.css`];

self.addEventListener("install", (event) => {
  const fresh = KEPT.map((path) => new Request(path, { cache: "reload" }));
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(fresh)));
  self.skipWaiting();
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const page = request.mode === "navigate";
  const path = new URL(request.url).pathname;
  if (!page && !KEPT.includes(path)) return;
  event.respondWith(
    fetch(request).catch(async () => {
      const kept = await caches.match(page ? OFFLINE : path);
      return kept || Response.error();
    }),
  );
});

self.addEventListener("push", (event) => {
  let told = {};
  try {
    told = event.data.json();
  } catch {
    // Every push must show a notification.
  }
  event.waitUntil(
    self.registration.showNotification(told.title || "A request waits for you", {
      body: told.text || "",
      tag: told.tag || "signoff",
      renotify: Boolean(told.again),
      data: { path: told.path },
    }),
  );
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const wanted = new URL((event.notification.data || {}).path || ROOT, self.location);
  const ours = wanted.origin === self.location.origin && wanted.pathname.startsWith(ROOT);
  event.waitUntil(self.clients.openWindow(ours ? wanted.href : ROOT));
});
