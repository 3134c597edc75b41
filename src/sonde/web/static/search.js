"use strict";
// The search page: results follow the keys, the address follows the results, and words complete.
(() => {
  const form = document.getElementById("search");
  const box = document.getElementById("q");
  const results = document.getElementById("results");
  const said = document.getElementById("said");
  const list = document.getElementById("completions");
  if (!form || !results) return;

  // -- the address ----------------------------------------------------------------------------
  function address(part) {
    const given = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) given.append(name, value);
    if (part) given.set("part", part);
    const text = given.toString();
    return text ? `/?${text}` : "/";
  }

  function fill(way) {
    const given = way.searchParams;
    box.value = given.get("q") || "";
    for (const name of ["project", "mode"]) {
      const field = form.elements[name];
      if (!field) continue;
      const own = [...field.options].find((each) => each.defaultSelected) || field.options[0];
      field.value = given.get(name) || own?.value;
    }
  }

  // A step of the history for each search that was finished or chosen, not for every key.
  let committed = true;
  function note(way, settled) {
    if (way !== location.pathname + location.search) {
      if (committed) history.pushState(null, "", way);
      else history.replaceState(null, "", way);
    }
    committed = settled;
    document.title = box.value ? `${box.value} · sonde` : "sonde";
  }

  // A tab takes along what is in the form, whether its results have come or not.
  function linkTabs() {
    for (const tab of form.querySelectorAll("[data-tab]")) {
      const link = new URL(tab.href);
      for (const [name, value] of new FormData(form)) {
        if (name === "tab") continue;
        if (value) link.searchParams.set(name, value);
        else link.searchParams.delete(name);
      }
      tab.href = link;
    }
  }

  // -- live results ---------------------------------------------------------------------------
  let running = null;
  let timer = 0;
  let spent = 0; // how long answers take, lately
  const SOON_MS = 100; // answers that come within this are asked for at every key
  const MOST_MS = 250; // a slow server at work is asked when the keys rest, but not much later

  function searchSoon(options) {
    clearTimeout(timer);
    linkTabs();
    const pause = running ? Math.min(Math.max(spent - SOON_MS, 0), MOST_MS) : 0;
    if (!pause) return search(options);
    running.abort(); // what is overtaken must not slow down what comes
    timer = setTimeout(() => search(options), pause);
  }

  async function ask(way, signal) {
    // a login that has ended leads to the login page
    const answer = await fetch(way, { signal, headers: { accept: "text/html" } });
    if (answer.redirected) {
      location.assign(address());
      throw new DOMException("gone", "AbortError");
    }
    if (!(answer.headers.get("content-type") || "").startsWith("text/html")) throw new Error();
    return answer.text();
  }

  function fail() {
    const shown = document.createElement("section");
    shown.className = "note error";
    shown.setAttribute("role", "alert");
    const title = document.createElement("h2");
    title.textContent = "The server does not answer";
    const advice = document.createElement("p");
    advice.textContent = "Is it still running? Press Enter to try again.";
    shown.append(title, advice);
    results.replaceChildren(shown);
  }

  async function search({ settled = false, keep = false } = {}) {
    clearTimeout(timer);
    linkTabs();
    running?.abort();
    const mine = (running = new AbortController());
    const way = address();
    const began = performance.now();
    results.setAttribute("aria-busy", "true");
    try {
      const text = await ask(address("results"), mine.signal);
      results.innerHTML = text;
      if (!keep) note(way, settled);
      said.textContent = results.querySelector(".summary, .note h2")?.textContent || "";
    } catch (error) {
      if (error.name === "AbortError") {
        spent = Math.max(spent, performance.now() - began);
        return;
      }
      fail();
    }
    spent = (spent + performance.now() - began) / 2;
    if (running === mine) {
      running = null;
      results.removeAttribute("aria-busy");
    }
  }

  form.addEventListener("input", (event) => {
    if (event.target === box) {
      complete();
      searchSoon();
    } else search({ settled: true });
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    close();
    search({ settled: true });
  });
  box.addEventListener("blur", () => (committed = true));
  addEventListener("popstate", () => {
    const way = new URL(location.href);
    const tab = form.querySelector("[data-tab][aria-current]")?.dataset.tab;
    if (way.pathname !== "/" || (way.searchParams.get("tab") || "all") !== tab) return location.reload();
    fill(way);
    committed = true;
    search({ settled: true, keep: true });
  });

  // -- facets and more ------------------------------------------------------------------------
  results.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (link.closest(".facet, .note ul.ways")) {
      event.preventDefault();
      fill(new URL(link.href));
      search({ settled: true });
    } else if (link.matches("a.next")) {
      event.preventDefault();
      append(link);
    }
  });

  async function append(link) {
    const way = new URL(link.href);
    way.searchParams.set("part", "results");
    link.setAttribute("aria-busy", "true");
    try {
      const page = document.createElement("template");
      page.innerHTML = await ask(way);
      const own = results.querySelector(".hits");
      const more = page.content.querySelectorAll(".hits > li");
      if (!more.length) throw new Error();
      const pages = link.closest("nav");
      own.append(...more);
      const next = page.content.querySelector("a.next");
      if (next) link.replaceWith(next);
      else pages.remove();
      more[0].querySelector("a.open")?.focus({ preventScroll: true });
    } catch (error) {
      if (error.name !== "AbortError") location.assign(link.href);
    }
  }

  // -- completion -----------------------------------------------------------------------------
  let asking = null;
  let chosen = -1;
  const FIELDS = ["lang", "language", "file", "path", "repo", "project", "kind", "sym", "symbol"];

  // Only words that begin a condition are worth a question to the server.
  function begins(text) {
    const [name, value] = (/(?:^|\s)-?([^\s"]*)$/.exec(text)?.[1] || "").split(":", 2);
    if (value !== undefined) return FIELDS.includes(name);
    return name.length > 1 && FIELDS.some((each) => each.startsWith(name));
  }

  function close() {
    asking?.abort();
    list.hidden = true;
    chosen = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  }

  async function complete() {
    asking?.abort();
    const before = box.value.slice(0, box.selectionStart);
    if (!begins(before) || box.selectionStart !== box.value.length) return close();
    const mine = (asking = new AbortController());
    const way = new URL(address("completions"), location.href);
    way.searchParams.set("q", before);
    try {
      const page = document.createElement("template");
      page.innerHTML = await ask(way, mine.signal);
      const items = [...page.content.querySelectorAll("li")];
      if (!items.length || document.activeElement !== box) return close();
      const kept = list.hidden ? undefined : list.children[chosen]?.textContent;
      list.replaceChildren(...items);
      list.hidden = false;
      chosen = -1;
      box.setAttribute("aria-expanded", "true");
      box.removeAttribute("aria-activedescendant");
      const same = items.findIndex((each) => each.textContent === kept);
      if (same >= 0) choose(same + 1);
    } catch {
      if (!mine.signal.aborted) close();
    }
  }

  function choose(step) {
    const items = [...list.children];
    items[chosen]?.removeAttribute("aria-selected");
    chosen = (chosen + step + items.length + (chosen < 0 && step < 0 ? 1 : 0)) % items.length;
    items[chosen].setAttribute("aria-selected", "true");
    box.setAttribute("aria-activedescendant", items[chosen].id);
  }

  function take(item) {
    const text = item.dataset.query;
    box.value = text.endsWith(":") || text.endsWith("/") ? text : `${text} `;
    box.focus();
    close();
    if (text.endsWith(":") || text.endsWith("/")) complete();
    search();
  }

  box.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) choose(step);
    else if (event.key === "Escape") close();
    else if (event.key === "Tab" && !event.shiftKey) take(list.children[Math.max(chosen, 0)]);
    else if (event.key === "Enter" && chosen >= 0) take(list.children[chosen]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("mousedown", (event) => {
    event.preventDefault();
    const item = event.target.closest("li");
    if (item) take(item);
  });
  box.addEventListener("blur", close);
})();
