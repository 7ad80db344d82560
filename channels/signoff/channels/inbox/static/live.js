// Keeps a page up to date while it is looked at. Without this file it is brought up to date by
// loading it again.
//
// <body data-live="/inbox/live?about=…" data-live-part="#list">: when something has changed, the
// part gets the event `signoff:changed`, on which htmx fetches it anew. A part in which somebody
// is filling in a form stays as it is; what has data-live-beside in it is fetched in its place, and
// where there is none #news says that there is something new.
"use strict";

(() => {
  const body = document.body;

  // A double click sends a form once. Where this file is not, what is sent twice counts once.
  body.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.elements.once) return;
    const now = Date.now();
    if (now - (form.dataset.sent || 0) < 2000) event.preventDefault();
    else form.dataset.sent = now;
  });

  const url = body.dataset.live;
  const news = document.getElementById("news");
  if (!url || !news || !window.EventSource || !window.htmx) return;

  const patience = 1000; // milliseconds: what comes together is fetched once
  let source = null;
  let timer = 0;
  let missed = false;

  const part = () => document.querySelector(body.dataset.livePart);

  const beside = (element) => element.querySelector("[data-live-beside]");

  const say = (text, more) => {
    if (news.dataset.said === text) return;
    news.dataset.said = text;
    news.textContent = text;
    if (!more) return;
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = more;
    news.append(" ", link);
  };

  const filled = (element) => {
    const focus = document.activeElement;
    const typing = focus.matches("textarea, select, input:not([type=checkbox], [type=radio])");
    if (typing && element.contains(focus)) return true;
    return [...element.querySelectorAll("input, textarea, select")].some((one) =>
      one.type === "checkbox" || one.type === "radio"
        ? one.checked !== one.defaultChecked
        : one.type !== "hidden" && one.defaultValue !== undefined && one.value !== one.defaultValue,
    );
  };

  const fetchPart = () => {
    timer = 0;
    const element = part();
    if (!element) return;
    const rest = beside(element);
    if (!filled(element)) htmx.trigger(element, "signoff:changed");
    else if (rest) htmx.trigger(rest, "signoff:changed");
    else say("Something has changed here since you began.", "Show it");
  };

  const changed = () => {
    if (!timer) timer = setTimeout(fetchPart, patience);
  };

  const listen = () => {
    if (source) return;
    source = new EventSource(url);
    source.addEventListener("changed", changed);
    source.addEventListener("error", () => {
      // It connects again by itself, unless it is told that this is no use.
      if (!source || source.readyState !== EventSource.CLOSED) return;
      stop();
      say("This page is not kept up to date any more.", "Load it again");
    });
    if (missed) changed();
    missed = false;
  };

  const stop = () => {
    if (source) source.close();
    source = null;
  };

  // A browser has few connections to one place: tabs that nobody looks at give theirs back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      missed = source !== null || missed;
      stop();
    } else listen();
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => {
    if (event.persisted) listen();
  });

  // So that it counts as no use by a person, and is not answered with the page to sign in.
  body.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.triggeringEvent?.type === "signoff:changed") {
      event.detail.headers["Signoff-Live"] = "1";
    }
  });
  body.addEventListener("htmx:afterSwap", () => {
    const element = part();
    const told = (element && beside(element)) || element;
    if (told && told.dataset.summary) say(told.dataset.summary);
  });
  body.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) {
      stop();
      say("You are signed out.", "Sign in");
    } else say("Signoff cannot say just now what is new.", "Try again");
  });
  body.addEventListener("htmx:sendError", () => say("Signoff cannot be reached just now.", "Try again"));

  listen();
})();
