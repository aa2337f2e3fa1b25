// The page's only script. The server writes the whole view; this swaps the parts that
// changed, passes presses on, and says so when nobody answers. It knows no ticket, no
// amount and no rule.
"use strict";

(() => {
  const body = document.body;
  const alarm = document.getElementById("silence");
  const silenceAfter = Number(body.dataset.silence); // ms without a sign of life
  const guard = Number(body.dataset.guard); // ms after a new view in which presses were meant for the old one
  const parts = ["bar", "say", "act", "line"];
  const written = {}; // each part as the server wrote it: what is typed stands in the page besides
  for (const id of parts) written[id] = document.getElementById(id)?.innerHTML;

  let source; // the one EventSource
  let timer; // runs out when the terminal is silent
  let silent = false;
  let busy = false; // a press is on its way
  let shownAt = performance.now();

  // alive notes a sign of life.
  function alive() {
    silent = false;
    alarm.hidden = true;
    alarm.textContent = "";
    body.classList.remove("silent");
    clearTimeout(timer);
    timer = setTimeout(mute, silenceAfter);
  }

  // mute warns that what the page shows may be old, and opens the stream anew: a
  // connection that died without a word never reports an error.
  function mute() {
    if (!silent) {
      silent = true;
      alarm.hidden = false;
      alarm.textContent = alarm.dataset.text;
      body.classList.add("silent");
    }
    clearTimeout(timer);
    timer = setTimeout(mute, silenceAfter);
    connect();
  }

  function connect() {
    if (source) source.close();
    const mine = new EventSource(body.dataset.events);
    source = mine;
    mine.onmessage = (event) => {
      // Another run of the program has other secrets and perhaps another script.
      if (event.lastEventId.split("-")[0] !== body.dataset.boot) {
        location.reload();
        return;
      }
      alive();
      show(event.data);
    };
    mine.addEventListener("beat", alive);
    mine.onerror = () => {
      // The browser tries again by itself, except after an answer that is no stream.
      if (mine.readyState === EventSource.CLOSED) {
        setTimeout(() => { if (source === mine) connect(); }, 1000);
      }
    };
  }

  // show swaps in a view, part by part, so that a part that says the same is not read
  // out again and keeps its focus. A view older than the shown one comes from an answer
  // that was overtaken.
  function show(html) {
    const next = new DOMParser().parseFromString(html, "text/html").getElementById("screen");
    const now = document.getElementById("screen");
    if (!next || Number(next.dataset.seq) < Number(now.dataset.seq)) return;
    if (next.dataset.key !== now.dataset.key) shownAt = performance.now();
    const same = next.dataset.key === now.dataset.key;
    const focused = same && document.activeElement ? document.activeElement.id : "";
    now.className = next.className;
    now.dataset.seq = next.dataset.seq;
    now.dataset.key = next.dataset.key;
    for (const id of parts) {
      const from = next.querySelector("#" + id);
      const to = now.querySelector("#" + id);
      if (!from || !to) continue;
      to.className = from.className;
      if (written[id] === from.innerHTML) continue;
      written[id] = from.innerHTML;
      to.innerHTML = from.innerHTML;
    }
    const again = focused && document.getElementById(focused);
    if (again && again !== document.activeElement) again.focus();
  }

  async function press(form) {
    busy = true;
    const screen = document.getElementById("screen");
    screen.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(form.action, {
        method: "POST",
        headers: { "X-Grattoir-Part": "view" },
        body: new URLSearchParams(new FormData(form)),
        signal: AbortSignal.timeout(silenceAfter),
      });
      if (answer.status === 403) {
        location.reload(); // the page is older than the program
      } else if (answer.ok || answer.status === 409) {
        show(await answer.text());
      } else {
        mute();
      }
    } catch {
      mute(); // whether it was paid, the next view tells
    } finally {
      busy = false;
      screen.removeAttribute("aria-busy");
    }
  }

  // type takes a key of the keypad. The digits stand in the form until they are entered,
  // and what is shown of them are dots where they are secret.
  function type(key) {
    const pad = document.getElementById("keypad");
    if (!pad) return;
    if (key === "page") {
      pad.classList.toggle("second");
      return;
    }
    const field = pad.elements.digits;
    if (key === "back") field.value = field.value.slice(0, -1);
    else if (field.value.length < Number(pad.dataset.max)) field.value += key;
    let text = field.value;
    if (pad.dataset.secret === "true") {
      text = "●".repeat(text.length);
    } else if (pad.dataset.date === "true") {
      text = text.replace(/^(\d\d)(?=\d)/, "$1/").replace(/^(\d\d\/\d\d)(?=\d)/, "$1/");
    } else if (pad.dataset.point) {
      const all = text.padStart(3, "0");
      text = text && all.slice(0, -2) + pad.dataset.point + all.slice(-2);
    } else if (Number(pad.dataset.groups)) {
      text = text.replace(new RegExp("(\\d{" + pad.dataset.groups + "})(?=\\d)", "g"), "$1 ");
    }
    document.getElementById("typed").textContent = text;
  }

  document.addEventListener("click", (event) => {
    const key = event.target.closest("[data-digit]");
    if (key) type(key.dataset.digit);
  });

  document.addEventListener("submit", (event) => {
    const early = performance.now() - shownAt < guard;
    if (busy || silent || early) {
      event.preventDefault();
      return;
    }
    if (event.target.dataset.plain) return;
    event.preventDefault();
    press(event.target);
  });

  // A key held down is one press.
  document.addEventListener("keydown", (event) => {
    if (event.repeat && (event.key === "Enter" || event.key === " ")) event.preventDefault();
    const pad = document.getElementById("keypad");
    if (!pad || event.ctrlKey || event.altKey || event.metaKey) return;
    const key = event.key.length === 1 ? event.key.toUpperCase() : "";
    if (key && pad.querySelector('[data-digit="' + CSS.escape(key) + '"]')) {
      event.preventDefault(); // a space would press the key that was tapped last, too
      type(key);
    } else if (event.key === "Backspace") type("back");
    else if (event.key === "Enter" && !event.repeat && !document.activeElement.matches("button:not([data-digit])")) {
      event.preventDefault(); // a digit that was just tapped has the focus, and is not meant again
      pad.requestSubmit();
    }
  });

  alive();
  connect();
})();
