"use strict";
// Ctrl-K opens the palette, ? the keys; both are pages as well.
(() => {
  let dialog = null;
  let field = null;
  let list = null;
  let running = null;
  let filled = Promise.resolve(); // the list for what is in the field
  let at = -1;

  const project = document.querySelector("[data-project]")?.dataset.project
    ?? new URLSearchParams(location.search).get("project") ?? "";

  async function get(address, signal) {
    const answer = await fetch(address, { signal, headers: { accept: "text/html" } });
    if (answer.redirected) location.assign(location.href);
    return answer.ok ? answer.text() : null;
  }

  function choose(to) {
    const links = [...list.querySelectorAll("a")];
    if (!links.length) return;
    at = (to + links.length) % links.length;
    links.forEach((link, number) => {
      link.setAttribute("aria-selected", String(number === at));
      if (number === at) field.setAttribute("aria-activedescendant", link.id);
    });
    links[at].scrollIntoView({ block: "nearest" });
  }

  async function fill() {
    running?.abort();
    const mine = (running = new AbortController());
    const given = new URLSearchParams({ q: field.value, part: "items" });
    if (project && project !== "all") given.set("project", project);
    try {
      const text = await get(`/go?${given}`, mine.signal);
      if (text === null) return;
      list.innerHTML = text;
      // a list of links becomes groups of options
      for (const each of list.querySelectorAll("ul, li")) each.setAttribute("role", "presentation");
      for (const title of list.querySelectorAll("h2")) {
        title.parentElement.setAttribute("role", "group");
        title.setAttribute("aria-hidden", "true");
      }
      list.querySelectorAll("a").forEach((link, number) => {
        link.id = `go-${number}`;
        link.tabIndex = -1;
        link.setAttribute("role", "option");
      });
      choose(0);
    } catch (error) {
      if (error.name !== "AbortError") list.textContent = "The server does not answer. Is it still running?";
    }
  }

  function make() {
    dialog = document.createElement("dialog");
    dialog.className = "palette";
    dialog.setAttribute("aria-label", "Go to");
    dialog.innerHTML = `<div class="palette-box"><svg class="icon" aria-hidden="true"><use href="/static/icons.svg#search"/></svg>
      <input type="text" role="combobox" aria-expanded="true" aria-controls="go-list" aria-autocomplete="list" aria-label="Go to"
        placeholder="A project, a file, a symbol, an action" autocomplete="off" spellcheck="false"><kbd>Esc</kbd></div>
      <div class="palette-list" id="go-list" role="listbox" aria-label="Found" tabindex="-1"></div>`;
    document.body.append(dialog);
    field = dialog.querySelector("input");
    list = dialog.querySelector("#go-list");
    field.addEventListener("input", () => (filled = fill()));
    dialog.addEventListener("keydown", (event) => {
      const steps = { ArrowDown: 1, ArrowUp: -1, Tab: event.shiftKey ? -1 : 1 };
      if (event.key in steps) {
        event.preventDefault();
        choose(at + steps[event.key]);
      }
      if (event.key === "Enter") {
        event.preventDefault();
        // never an entry for what was typed before
        filled.then(() => list.querySelector("[aria-selected=true]")?.click());
      }
    });
    list.addEventListener("click", (event) => event.target.closest("a") && dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }

  function open() {
    if (!dialog) make();
    if (dialog.open) return dialog.close();
    dialog.showModal();
    field.select();
    filled = fill();
  }

  async function showKeys() {
    const text = await get("/keys?part=keys");
    if (text === null) return;
    const keys = document.createElement("dialog");
    keys.className = "keys";
    keys.setAttribute("aria-label", "Keys");
    keys.innerHTML = text;
    keys.tabIndex = -1;
    document.body.append(keys);
    keys.addEventListener("close", () => keys.remove());
    keys.addEventListener("click", (event) => event.target === keys && keys.close());
    keys.showModal();
  }

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.key !== "?") return;
    if (event.target.matches("input, select, textarea") || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    showKeys();
  });
  const button = document.querySelector(".go");
  button?.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
})();
