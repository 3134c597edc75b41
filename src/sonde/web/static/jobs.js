"use strict";
// Pages with jobs: their progress as it comes.
(() => {
  function isWriting() {
    const fields = [...document.querySelectorAll("input:not([type=hidden])")];
    return fields.some((field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked);
  }

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
