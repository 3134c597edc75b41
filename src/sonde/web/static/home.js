"use strict";
// Recent searches, kept in this browser only; and the results that a file is opened from.
(() => {
  const MOST = 8; // as many as fit beside the projects
  const results = document.getElementById("results");

  function load() {
    try {
      return JSON.parse(localStorage.getItem("recent") || "[]").filter((each) => each.q && each.href?.startsWith("/"));
    } catch {
      return [];
    }
  }

  function save() {
    const query = new URLSearchParams(location.search).get("q")?.trim();
    if (!query) return;
    const href = location.pathname + location.search;
    const kept = [{ q: query, href }, ...load().filter((each) => each.q !== query)].slice(0, MOST);
    localStorage.setItem("recent", JSON.stringify(kept));
  }

  function show() {
    const section = document.getElementById("recent");
    const kept = load();
    if (!section || !kept.length || !section.hidden) return;
    section.querySelector("ol").append(...kept.map(({ q, href }) => {
      const item = document.createElement("li");
      const link = item.appendChild(document.createElement("a"));
      link.href = href;
      link.innerHTML = '<svg class="icon" aria-hidden="true"><use href="/static/icons.svg#history"/></svg><span></span>';
      link.querySelector("span").textContent = q;
      return item;
    }));
    const clear = section.querySelector("h2").appendChild(document.createElement("button"));
    clear.type = "button";
    clear.textContent = "Clear";
    clear.addEventListener("click", () => {
      localStorage.removeItem("recent");
      section.remove();
    });
    section.hidden = false;
  }

  if (!results) return;
  show();
  new MutationObserver(show).observe(results, { childList: true });
  document.getElementById("search")?.addEventListener("submit", () => setTimeout(save, 500));
  if (results.querySelector(".hits, .summary")) save();
  results.addEventListener("click", (event) => {
    if (!event.target.closest("a[href*='/view'], a.open")) return;
    save();
    const ways = [...results.querySelectorAll("a.open[href^='/view'], a.symbol[href^='/view']")].map((link) => link.getAttribute("href"));
    sessionStorage.setItem("results", JSON.stringify([...new Set(ways)]));
  });
})();
