"use strict";
// The page of a file: lines, and ranges of them, as addresses.
(() => {
  // -- lines of a file ------------------------------------------------------------------------
  function showLines() {
    const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
    if (!found) return;
    const first = Number(found[1]);
    const last = Math.max(Number(found[2] || first), first);
    for (const row of document.querySelectorAll(".whole .on")) {
      const number = Number(row.id.slice(1));
      if (found[2] || number < first || number > last) row.classList.remove("on");
    }
    for (let at = first; at <= last; at++) {
      const row = document.getElementById(`L${at}`);
      if (!row) break;
      row.classList.add("on");
    }
    document.getElementById(`L${first}`)?.scrollIntoView({ block: "center" });
  }

  const whole = document.querySelector(".whole");
  if (whole) {
    let anchor = 0;
    whole.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#L']");
      if (!link) return;
      const at = Number(link.hash.slice(2));
      if (event.shiftKey && anchor) {
        event.preventDefault();
        location.hash = `#L${Math.min(anchor, at)}-L${Math.max(anchor, at)}`;
      } else anchor = at;
    });
    // the address of a result already names its range: it is kept until another line is chosen
    if (!new URLSearchParams(location.search).has("lines") || location.hash.includes("-")) {
      showLines();
    } else whole.querySelector(".on")?.scrollIntoView({ block: "center" });
    addEventListener("hashchange", showLines);
  }
})();
