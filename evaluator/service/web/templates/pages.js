"use strict";
// The pages are whole without this. It keeps them up to date, lets ages grow, and copies commands.
(() => {
  const skewMs = Date.now() - 1000 * Number(document.body.dataset.now);
  const words = s => s < 1.5 ? "just now" : s < 90 ? `${Math.round(s)} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago`
    : s < 129600 ? `${Math.round(s / 3600)} h ago` : `${Math.round(s / 86400)} days ago`;
  const grow = () => {
    for (const time of document.querySelectorAll("time[data-at]")) {
      const text = words(Math.max(0, (Date.now() - skewMs) / 1000 - Number(time.dataset.at)));
      const shown = time.dataset.form === "span" ? text.replace(" ago", "").replace("just now", "1 s") : text;
      if (time.textContent !== shown) time.textContent = shown;
    }
  };
  setInterval(grow, 1000);

  if (navigator.clipboard) {
    document.documentElement.classList.add("scripted");
    document.addEventListener("click", async event => {
      const button = event.target.closest("button.copy");
      if (!button) return;
      await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent.trim());
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  const address = document.body.dataset.stream;
  if (!address) return;
  const state = document.getElementById("state"), pause = document.getElementById("pause");
  let stream = null, paused = false;
  const say = (text, kind) => { state.textContent = text; state.className = `pulse ${kind}`; };
  const close = () => { if (stream) stream.close(); stream = null; };
  const show = html => {
    const fresh = document.createElement("template"), focused = document.activeElement.id;
    fresh.innerHTML = html;
    for (const part of [...fresh.content.children]) document.getElementById(part.id)?.replaceChildren(...part.childNodes);
    grow();
    // What the keyboard was on may have been replaced by its like.
    if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus({ preventScroll: true });
  };
  const open = () => {
    close();
    if (paused || document.hidden) return;
    stream = new EventSource(address);
    stream.onopen = () => say("Live", "on");
    stream.onmessage = event => {
      say("Live", "on");
      show(event.data);
    };
    stream.addEventListener("done", () => { close(); location.reload(); });
    stream.addEventListener("fault", event => say(event.data, "off"));
    stream.onerror = () => {
      say("Reconnecting …", "off");
      // A browser gives up for good on an answer that is no stream, for example while the server starts again.
      if (stream && stream.readyState === EventSource.CLOSED) { close(); setTimeout(open, 5000); }
    };
  };
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume" : "Pause";
    if (paused) { close(); say("Paused", "off"); } else open();
  });
  // A hidden tab holds no connection: browsers allow only six to a server.
  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  addEventListener("pagehide", close);
  open();
})();
