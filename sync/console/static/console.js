// The pages' only script: it says how old a page is, and that it is out of date once it is;
// the overview asks for itself again and again, and shows what comes. It knows no number.
"use strict";

(() => {
  const limit = Number(document.body.dataset.stale); // ms
  const every = Number(document.body.dataset.refresh || 0); // ms
  const alarm = document.getElementById("stale");
  if (!document.getElementById("age")) return; // a page that shows no numbers

  // The age is counted from the page's own load: the reader's clock may differ from
  // central's. The monotonic clock stands still while a machine sleeps, the other one may be
  // set back; the larger age is shown.
  let loaded = [0, performance.timeOrigin];

  function tell() {
    const age = document.getElementById("age");
    const old = Math.max(performance.now() - loaded[0], Date.now() - loaded[1]);
    age.textContent = age.dataset.ago.replace("{}", Math.floor(old / 1000));
    alarm.hidden = old < limit;
    document.body.classList.toggle("stale", old >= limit);
  }

  // renew puts a newer page in the place of this one; who goes over it by keyboard stays
  // where he is. With no answer the old numbers stay, and grow old before everybody's eyes.
  async function renew() {
    const asked = [performance.now(), Date.now()];
    try {
      const answer = await fetch(location.href, {headers: {"Grattoir-Refresh": "1", "Accept": "text/html"}, cache: "no-store", signal: AbortSignal.timeout(limit)});
      if (!answer.ok || answer.redirected) return; // central is in trouble, or the session is over
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = page.querySelector("main"), made = page.querySelector(".made");
      if (!main || !made) return;
      const at = document.activeElement.getAttribute("href");
      document.querySelector("main").replaceWith(main);
      document.querySelector(".made").replaceWith(made);
      if (at) [...main.querySelectorAll("a")].find(a => a.getAttribute("href") === at)?.focus();
      loaded = asked;
      tell();
    } catch { // no network: the age says it
    }
  }

  tell();
  setInterval(tell, 1000);
  if (every > 0) setInterval(renew, every);
  addEventListener("pageshow", tell);
})();
