// Turns notifications on in this browser. Turning them off is a form.
"use strict";

(() => {
  const form = document.getElementById("notify");
  if (!navigator.serviceWorker || !window.PushManager || !window.Notification) return;
  form.hidden = false;
  document.getElementById("notify-not").hidden = true;

  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  const subscription = async () => {
    if ((await Notification.requestPermission()) !== "granted") {
      throw new Error("The browser does not allow notifications of this page. Allow them in its settings.");
    }
    const worker = await navigator.serviceWorker.ready;
    const had = await worker.pushManager.getSubscription();
    // It may be for an earlier key, or another person's who uses this browser.
    if (had) await had.unsubscribe();
    // Behind some firewalls, a browser waits for its push service forever.
    const late = new Promise((_, refuse) => {
      setTimeout(() => refuse(new DOMException("", "AbortError")), 20000);
    });
    const wanted = { userVisibleOnly: true, applicationServerKey: form.dataset.key };
    return Promise.race([worker.pushManager.subscribe(wanted), late]);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [says, button] = [document.getElementById("notify-says"), form.querySelector("button")];
    says.textContent = "";
    button.disabled = true;
    try {
      const made = await subscription();
      form.elements.endpoint.value = made.endpoint;
      form.elements.key.value = text(made.getKey("p256dh"));
      form.elements.auth.value = text(made.getKey("auth"));
      form.submit();
    } catch (error) {
      const none = error.name === "AbortError" || error.name === "NotSupportedError";
      says.textContent = none ? "The push service of this browser cannot be reached." : error.message;
      button.disabled = false;
    }
  });
})();
