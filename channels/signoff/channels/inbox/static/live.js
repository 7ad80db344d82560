// Keeps a visible page up to date. Without this file, people have to reload it.
//
// <body data-live="/inbox/live?about=…" data-live-part="#list">: after a change, the part gets the
// event `signoff:changed`, and htmx fetches it again. A part with a form that somebody is filling
// in stays unchanged: its element with data-live-beside is fetched instead, or, without one, #news
// says that something changed.
"use strict";

(() => {
  const body = document.body;
  const url = body.dataset.live;
  const news = document.getElementById("news");
  if (!url || !news || !window.EventSource || !window.htmx) return;

  const patience = 1000; // milliseconds: changes within this time cause one fetch
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
      // The browser reconnects, unless the server refuses permanently.
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

  // A browser allows few connections to one host, so hidden tabs close theirs.
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

  // The header tells the server that this is not a person's activity, and that the response must
  // not be the sign-in page.
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
    } else say("Signoff cannot load the changes at the moment.", "Try again");
  });
  body.addEventListener("htmx:sendError", () => say("Signoff cannot be reached just now.", "Try again"));

  listen();
})();
