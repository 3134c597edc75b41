"use strict";
// Pages with jobs: their progress as it comes.
(() => {
  function isWriting() {
    const fields = [...document.querySelectorAll("input:not([type=hidden])")];
    return fields.some((field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked);
  }

  let leaving = false; // a link or a form leads on already, and a reload would call it off
  addEventListener("beforeunload", () => (leaving = true));
  addEventListener("pageshow", () => (leaving = false));

  // -- jobs -----------------------------------------------------------------------------------
  const MOST_STREAMS = 4; // a browser opens six connections to one server
  let followed = [];
  function follow(row) {
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
      const left = job.eta ? `, ${job.eta < 90 ? `${job.eta} s` : `${Math.round(job.eta / 60)} min`} left` : "";
      note.textContent = `${done.stage || ""} ${counts.map((n) => n.toLocaleString("en")).join(" of ")}${left}`;
      if (event.type !== "end") return;
      stream.close();
      if (live) return update();
      // what somebody is writing is worth more than the newest figures, as is where they are going
      if (row.hasAttribute("data-reload") && !leaving && !isWriting()) return location.reload();
      status.className = `badge ${job.status === "done" ? "good" : "warn"}`;
      bar?.remove();
      row.querySelector("button")?.remove();
      note.textContent = job.error?.userMessage || "";
    };
    stream.addEventListener("progress", show);
    stream.addEventListener("end", show);
    return stream;
  }

  function followAll() {
    for (const stream of followed) stream.close();
    followed = [...document.querySelectorAll("[data-job]")].slice(0, MOST_STREAMS).map(follow);
  }

  // -- the page of jobs: those that others start come by themselves ------------------------------
  const live = document.querySelector("[data-live]");
  const AGAIN_MS = 2000; // soon enough for somebody who waits, cheap for the server
  // which jobs there are, and which of them run
  const list = (holder) => [...holder.querySelectorAll("[data-row]")].map((row) => row.dataset.row + (row.dataset.job ? " runs" : "")).join();

  async function update() {
    const fresh = document.createElement("div");
    try {
      const answer = await fetch("/jobs?part=jobs", { headers: { accept: "text/html" } });
      if (!answer.ok || answer.redirected) return;
      fresh.innerHTML = await answer.text();
    } catch {
      return; // it is asked again soon
    }
    // the streams update the rows; a new list is only needed when other jobs are in it
    if (list(fresh) === list(live) || live.contains(document.activeElement)) return;
    live.replaceChildren(...fresh.childNodes);
    followAll();
  }
  if (live) setInterval(() => document.hidden || update(), AGAIN_MS);
  followAll();
})();
