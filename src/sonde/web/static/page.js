"use strict";
// Everything works without this file; it only makes results come by themselves.
(() => {
  const form = document.getElementById("search");
  const box = document.getElementById("q");
  const results = document.getElementById("results");

  // -- live results ---------------------------------------------------------------------------
  let timer = 0;
  let running = null;

  function address(part) {
    const given = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) given.append(name, value);
    if (part) given.set("part", "results");
    const text = given.toString();
    return text ? `/?${text}` : "/";
  }

  async function search() {
    if (running) running.abort();
    const mine = (running = new AbortController());
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address(true), {
        signal: mine.signal,
        headers: { accept: "text/html" }, // so that a login that has ended leads to the login page
      });
      if (answer.redirected) return location.assign(address(false));
      const text = await answer.text();
      if (!(answer.headers.get("content-type") || "").startsWith("text/html")) throw new Error();
      results.innerHTML = text;
      history.replaceState(null, "", address(false));
      for (const tab of form.querySelectorAll("[data-tab]")) {
        const way = new URL(tab.href);
        if (box.value) way.searchParams.set("q", box.value);
        else way.searchParams.delete("q");
        tab.href = way;
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      const note = document.createElement("section");
      note.className = "note error";
      note.setAttribute("role", "alert");
      const title = document.createElement("h2");
      title.textContent = "The server does not answer";
      const advice = document.createElement("p");
      advice.textContent = "Is it still running? Press Enter to try again.";
      note.append(title, advice);
      results.replaceChildren(note);
    }
    if (running === mine) results.removeAttribute("aria-busy");
  }

  if (form && results) {
    form.addEventListener("input", (event) => {
      clearTimeout(timer);
      timer = setTimeout(search, event.target === box ? 220 : 0);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(timer);
      search();
    });
  }

  // -- keys -----------------------------------------------------------------------------------
  function move(step) {
    const links = [...document.querySelectorAll("a.open")];
    if (!links.length) return false;
    const at = links.indexOf(document.activeElement);
    if (at < 0 && step < 0) return false;
    if (at === 0 && step < 0 && box) {
      box.focus();
      return true;
    }
    const next = links[Math.min(at + step, links.length - 1)];
    next.focus();
    next.closest("li, tr")?.scrollIntoView({ block: "nearest" });
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const writing = event.target.matches("input, select, textarea");
    if (writing) {
      if (event.key === "Escape") event.target.blur();
      else if (event.target === box && event.key === "ArrowDown" && move(1)) event.preventDefault();
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      if (box) {
        box.focus();
        box.select();
      } else location.assign("/");
      return;
    }
    const arrows = document.activeElement.matches("a.open");
    const steps = { j: 1, k: -1, ...(arrows ? { ArrowDown: 1, ArrowUp: -1 } : {}) };
    if (event.key in steps && move(steps[event.key])) event.preventDefault();
  });

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

  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // -- forms ----------------------------------------------------------------------------------
  function isWriting() {
    const fields = [...document.querySelectorAll("input:not([type=hidden])")];
    return fields.some((field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked);
  }

  for (const each of document.querySelectorAll("form[method=post]")) {
    each.addEventListener("submit", () => document.body.setAttribute("aria-busy", "true"));
  }
  addEventListener("pageshow", () => document.body.removeAttribute("aria-busy"));

  // -- jobs -----------------------------------------------------------------------------------
  const MOST_STREAMS = 4; // a browser opens six connections to one server
  for (const row of [...document.querySelectorAll("[data-job]")].slice(0, MOST_STREAMS)) {
    const stream = new EventSource(`/api/jobs/${encodeURIComponent(row.dataset.job)}/events`);
    const show = (event) => {
      const job = JSON.parse(event.data);
      const status = row.querySelector("[data-status]");
      const bar = row.querySelector("progress");
      const note = row.querySelector("[data-note]");
      status.textContent = job.status;
      const done = job.progress || {};
      if (job.progressPct !== undefined && bar) bar.value = job.progressPct;
      const counts = [done.done, done.total].filter((each) => each !== undefined && (each || done.total));
      const left = job.eta ? `, ${job.eta} s left` : "";
      note.textContent = `${done.stage || ""} ${counts.map((n) => n.toLocaleString("en")).join(" of ")}${left}`;
      if (event.type !== "end") return;
      stream.close();
      // what somebody is writing is worth more than the newest figures
      if (row.hasAttribute("data-reload") && !isWriting()) return location.reload();
      status.className = `badge ${job.status === "done" ? "good" : "warn"}`;
      bar?.remove();
      row.querySelector("button")?.remove();
      note.textContent = job.error?.userMessage || "";
    };
    stream.addEventListener("progress", show);
    stream.addEventListener("end", show);
  }
})();
