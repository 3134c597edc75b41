"use strict";
// The search page: results follow the keys.
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
})();
