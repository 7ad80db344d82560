// Asks the browser for a passkey if a page offers it. Without this file, people use codes.
"use strict";
(() => {
  if (!window.PublicKeyCredential) return;
  document.documentElement.classList.add("passkeys");
  const root = new URL(document.currentScript.src).pathname.replace(/\/[^/]*$/, "");
  const bytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const named = (all) => (all || []).map((one) => ({ ...one, id: bytes(one.id) }));

  async function send(path, fields) {
    const answer = await fetch(path, { method: "POST", body: new URLSearchParams(fields) });
    const type = answer.headers.get("content-type") || "";
    if (answer.redirected || !type.startsWith("application/json")) {
      throw new Error("That did not work. Load the page again.");
    }
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.problem);
    return content;
  }

  function written(made) {
    const response = { clientDataJSON: text(made.response.clientDataJSON) };
    for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (made.response[name]) response[name] = text(made.response[name]);
    }
    if (made.response.getTransports) response.transports = made.response.getTransports();
    return JSON.stringify({
      id: made.id, rawId: text(made.rawId), type: made.type, response,
      clientExtensionResults: made.getClientExtensionResults(),
    });
  }

  async function signed(offer) {
    const asked = { ...offer, challenge: bytes(offer.challenge),
                    allowCredentials: named(offer.allowCredentials) };
    return written(await navigator.credentials.get({ publicKey: asked }));
  }

  async function made(offer) {
    const asked = { ...offer, challenge: bytes(offer.challenge),
                    user: { ...offer.user, id: bytes(offer.user.id) },
                    excludeCredentials: named(offer.excludeCredentials) };
    return written(await navigator.credentials.create({ publicKey: asked }));
  }

  const words = (error) => {
    if (error.name === "NotAllowedError") return "No passkey was given.";
    if (error.name === "InvalidStateError") return "This device has a passkey for you already.";
    return error.message;
  };

  // Shows an error beside the button, and enables the button again.
  async function attempt(form, button, work) {
    const place = form.querySelector(".passkey-says");
    place.textContent = "";
    button.disabled = true;
    try {
      await work();
    } catch (error) {
      place.textContent = words(error);
    } finally {
      button.disabled = false;
    }
  }

  async function prove(form) {
    const csrf = form.elements.csrf.value;
    const credential = await signed(await send(`${root}/passkey/offer`, { csrf }));
    await send(`${root}/passkey/prove`, { csrf, credential });
    // The session is now confirmed, so the forms of this page no longer ask.
    if (form.hasAttribute("data-passkey-reload")) return location.reload();
    for (const field of document.querySelectorAll("[data-proof]")) {
      const told = document.createElement("p");
      told.className = "note";
      told.textContent = "Confirmed with your passkey.";
      field.replaceWith(told);
    }
    form.querySelector("button.yes, button")?.focus();
  }

  async function signIn(form) {
    form.elements.credential.value = await signed(await send(`${root}/sign-in/passkey/offer`, {}));
    form.submit();
  }

  async function add(form) {
    const { csrf, code, invitation } = form.elements;
    const fields = { csrf: csrf.value, code: code?.value || "", invitation: invitation?.value || "" };
    const offer = await send(form.dataset.passkeyAdd, fields);
    form.elements.credential.value = await made(offer);
    form.submit();
  }

  // The listeners are on the document, because parts of an open page are fetched again.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-passkey]");
    if (button) attempt(button.form, button, () => prove(button.form));
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const work = form.hasAttribute("data-passkey-add") ? add
      : form.hasAttribute("data-passkey-sign-in") ? signIn : null;
    if (!work) return;
    event.preventDefault();
    attempt(form, event.submitter, () => work(form));
  });
})();
