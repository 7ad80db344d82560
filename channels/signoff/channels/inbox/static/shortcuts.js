// Keyboard shortcuts, which move the focus and never decide. The dialog lists them, and can turn
// them off for people whose keyboard or voice control types single letters (WCAG 2.2, 2.1.4).
"use strict";

(() => {
  const STORED = "signoff-shortcuts";
  const dialog = document.getElementById("shortcuts");
  if (!dialog) return;
  const [show, turn, close] = ["show", "switch", "close"].map((name) =>
    document.getElementById(`shortcuts-${name}`),
  );

  const on = () => localStorage.getItem(STORED) !== "off";
  const open = () => {
    turn.textContent = on() ? "Turn shortcuts off" : "Turn shortcuts on";
    dialog.showModal();
  };
  show.hidden = false;
  show.addEventListener("click", open);
  close.addEventListener("click", () => dialog.close());
  turn.addEventListener("click", () => {
    localStorage.setItem(STORED, on() ? "off" : "on");
    dialog.close();
  });

  const step = (by) => {
    const links = [...document.querySelectorAll(".list a")];
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    links[Math.min(Math.max(at + by, 0), links.length - 1)].focus();
  };

  const go = (selector) => {
    const found = document.querySelector(selector);
    if (!found) return;
    found.focus();
    found.scrollIntoView({ block: "center" });
  };

  const does = {
    j: () => step(1),
    k: () => step(-1),
    a: () => go("form[aria-label='Your answer'] button.yes"),
    r: () => go("#reason"),
    "?": open,
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open || !on()) return;
    if (event.target.closest("input, textarea, select") || !does[event.key]) return;
    event.preventDefault();
    does[event.key]();
  });
})();
