// The page's only script: it says how old the page is, and that it is out of date once
// it is. It fetches nothing and knows no number.
"use strict";

(() => {
  const limit = Number(document.body.dataset.stale); // ms
  const alarm = document.getElementById("stale");
  const age = document.getElementById("age");
  if (!age) return; // a page that shows no numbers

  // tell counts from the page's own load: the reader's clock may differ from central's.
  // The monotonic clock stands still while a machine sleeps, the other one may be set
  // back; the larger age is shown.
  function tell() {
    const old = Math.max(performance.now(), Date.now() - performance.timeOrigin);
    age.textContent = age.dataset.ago.replace("{}", Math.floor(old / 1000));
    if (old >= limit) {
      alarm.hidden = false;
      document.body.classList.add("stale");
    }
  }

  tell();
  setInterval(tell, 1000);
  addEventListener("pageshow", tell);
})();
