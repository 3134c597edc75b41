"use strict";
// The page of a file: lines as addresses, find, names, the tree, copying. It works without this.
(() => {
  const viewer = document.querySelector(".viewer");
  if (!viewer) return;
  const { project, path } = viewer.dataset;
  const whole = viewer.querySelector(".whole");
  const $ = (name) => viewer.querySelector(name);

  // -- lines ----------------------------------------------------------------------------------
  function chosen() {
    const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
    if (found) return [Number(found[1]), Math.max(Number(found[2] || found[1]), Number(found[1]))];
    const on = viewer.querySelectorAll(".whole .on");
    return on.length ? [Number(on[0].id.slice(1)), Number(on[on.length - 1].id.slice(1))] : null;
  }

  function showLines() {
    const lines = chosen();
    if (!lines || !location.hash) return;
    const [first, last] = lines;
    for (const row of viewer.querySelectorAll(".whole .on")) row.classList.remove("on");
    for (let at = first; at <= last; at++) document.getElementById(`L${at}`)?.classList.add("on");
    document.getElementById(`L${first}`)?.scrollIntoView({ block: "center" });
    follow();
  }

  // what a permanent link keeps of a line; the server computes the same
  function checksum(text) {
    let sum = -1;
    for (const byte of new TextEncoder().encode(text.trim())) {
      sum ^= byte;
      for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (0xedb88320 & -(sum & 1));
    }
    return ((sum ^ -1) >>> 0).toString(16).padStart(8, "0");
  }

  function lineText(at) {
    return document.getElementById(`L${at}`)?.lastElementChild?.textContent ?? "";
  }

  function permalink() {
    const way = new URL(location.pathname, location.href);
    way.search = new URLSearchParams({ project, path });
    const lines = whole && chosen();
    if (lines) {
      const [first, last] = lines;
      way.searchParams.set("lines", last > first ? `${first}-${last}` : first);
      way.searchParams.set("at", checksum(lineText(first)));
      way.hash = `L${first}`;
    }
    return way.href;
  }

  function follow() {
    const lines = chosen();
    const link = $("[data-permalink]");
    if (link) link.href = permalink();
    for (const each of viewer.querySelectorAll("[data-editor]")) {
      each.href = each.getAttribute("href").replace(/:\d+$/, `:${lines ? lines[0] : 1}`);
    }
  }

  if (whole) {
    let anchor = chosen()?.[0] ?? 0;
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
    if (!new URLSearchParams(location.search).has("lines") || location.hash.includes("-")) showLines();
    else whole.querySelector(".on")?.scrollIntoView({ block: "center" });
    addEventListener("hashchange", showLines);
  } else $(".prose .on")?.scrollIntoView({ block: "center" });
  follow();

  // -- copying --------------------------------------------------------------------------------
  const copyPath = $("[data-copy]");
  const permanent = $("[data-permalink]");
  permanent?.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    permanent.dataset.copy = permalink(); // page.js copies it
  });

  // -- editors: the one that was used last comes first ----------------------------------------
  const menu = $(".editors");
  const links = menu ? [...menu.querySelectorAll("[data-editor]")] : [];
  const liked = links.find((each) => each.dataset.editor === localStorage.getItem("editor"));
  if (liked) liked.parentElement.prepend(liked);
  menu?.addEventListener("click", (event) => {
    const link = event.target.closest("[data-editor]");
    if (!link) return;
    localStorage.setItem("editor", link.dataset.editor);
    menu.open = false;
  });
  document.addEventListener("click", (event) => {
    if (menu?.open && !menu.contains(event.target)) menu.open = false;
  });

  // -- find in this file ----------------------------------------------------------------------
  const form = $(".find");
  const field = form?.querySelector("[name=find]");
  const count = form?.querySelector("output");
  let hits = [];
  let at = -1;

  function find(text) {
    hits = [];
    at = -1;
    const area = whole?.querySelector("code") ?? $(".prose");
    const wanted = text.toLowerCase();
    if (wanted && area) {
      const lines = whole ? [...area.children].map((row) => row.lastElementChild) : [area];
      for (const line of lines) {
        const held = line.textContent.toLowerCase();
        if (!held.includes(wanted)) continue;
        const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
        const nodes = [];
        for (let node, start = 0; (node = walker.nextNode()); start += node.length) nodes.push([node, start]);
        const place = (offset) => {
          const [node, start] = nodes.findLast(([, begin]) => begin <= offset);
          return [node, Math.min(offset - start, node.length)];
        };
        for (let from = held.indexOf(wanted); from >= 0; from = held.indexOf(wanted, from + wanted.length)) {
          const range = new Range();
          range.setStart(...place(from));
          range.setEnd(...place(from + wanted.length - 1));
          range.setEnd(range.endContainer, range.endOffset + 1);
          hits.push(range);
        }
      }
    }
    if (globalThis.Highlight) CSS.highlights.set("found", new Highlight(...hits));
    count.textContent = text ? `${hits.length ? 1 : 0} of ${hits.length}` : "";
    if (!text) CSS.highlights?.delete("here");
  }

  function step(by) {
    if (!hits.length) return false;
    at = at < 0 ? nearest(by) : (at + by + hits.length) % hits.length;
    if (globalThis.Highlight) CSS.highlights.set("here", new Highlight(hits[at]));
    count.textContent = `${at + 1} of ${hits.length}`;
    const row = hits[at].startContainer.parentElement;
    row.scrollIntoView({ block: "center", inline: "nearest" });
    return true;
  }

  // the first hit that is on the screen or below it
  function nearest(by) {
    const below = hits.findIndex((range) => range.getBoundingClientRect().top >= 0);
    return by > 0 ? Math.max(below, 0) : (below < 1 ? hits.length : below) - 1;
  }

  if (form) {
    field.addEventListener("input", () => {
      find(field.value);
      step(1);
    });
    form.addEventListener("submit", (event) => {
      // what is not on this page of a long file, the server looks for
      if (!hits.length && field.value && !viewer.querySelector("mark")) return;
      event.preventDefault();
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && step(event.shiftKey ? -1 : 1)) event.preventDefault();
      if (event.key === "Escape") {
        field.value = "";
        find("");
      }
    });
    if (field.value) find(field.value);
  }

  // -- names ----------------------------------------------------------------------------------
  const names = document.getElementById("names");
  let opener = null;
  const WORD = /[\p{L}_$][\p{L}\p{N}_$]*/gu;

  function wordAt(x, y) {
    const caret = document.caretPositionFromPoint?.(x, y);
    const old = caret ? null : document.caretRangeFromPoint?.(x, y);
    const node = caret?.offsetNode ?? old?.startContainer;
    const offset = caret?.offset ?? old?.startOffset;
    if (node?.nodeType !== Node.TEXT_NODE) return null;
    for (const found of node.data.matchAll(WORD)) {
      if (found.index <= offset && offset <= found.index + found[0].length) return found[0];
    }
    return null;
  }

  async function showNames(name) {
    const way = `/names?${new URLSearchParams({ project, name, path })}`;
    const answer = await fetch(`${way}&part=names`, { headers: { accept: "text/html" } }).catch(() => null);
    if (!answer || answer.redirected || !(answer.headers.get("content-type") || "").startsWith("text/html")) return location.assign(way);
    const head = document.createElement("header");
    const title = document.createElement("a");
    title.href = way;
    title.append(Object.assign(document.createElement("code"), { textContent: name }));
    const close = Object.assign(document.createElement("button"), { type: "button", className: "tool", textContent: "Close" });
    close.addEventListener("click", hideNames);
    head.append(title, close);
    names.innerHTML = await answer.text();
    names.prepend(head);
    names.hidden = false;
    names.scrollTop = 0;
    (names.querySelector("a.open") ?? title).focus({ preventScroll: true });
    markSame(name);
  }

  function markSame(name) {
    if (!globalThis.Highlight || !whole) return;
    const ranges = [];
    const walker = document.createTreeWalker(whole, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
      for (const found of node.data.matchAll(WORD)) {
        if (found[0] !== name) continue;
        const range = new Range();
        range.setStart(node, found.index);
        range.setEnd(node, found.index + name.length);
        ranges.push(range);
      }
    }
    CSS.highlights.set("same", new Highlight(...ranges));
  }

  function hideNames() {
    names.hidden = true;
    CSS.highlights?.delete("same");
    (opener ?? whole)?.focus({ preventScroll: true });
  }

  whole?.addEventListener("click", (event) => {
    const part = event.target.closest("span");
    const plain = !event.target.closest("a") && getSelection().isCollapsed;
    if (!plain || !part || /c-(comment|string|number|keyword|constant)/.test(part.className)) return;
    const name = wordAt(event.clientX, event.clientY);
    opener = whole;
    if (name && name.length > 1) showNames(name);
  });

  // by keyboard: the names on the chosen line, to choose one of them
  function chooseName() {
    const selected = getSelection().toString().trim();
    if (/^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(selected)) return showNames(selected);
    const line = chosen()?.[0];
    const row = line && document.getElementById(`L${line}`);
    if (!row) return false;
    const words = new Set();
    for (const part of row.lastElementChild.childNodes) {
      if (/c-(comment|string|number|keyword|constant)/.test(part.className ?? "")) continue;
      for (const [word] of part.textContent.matchAll(WORD)) if (word.length > 1) words.add(word);
    }
    if (!words.size) return false;
    if (words.size === 1) return showNames([...words][0]);
    const list = document.createElement("ul");
    for (const word of words) {
      const link = Object.assign(document.createElement("a"), { className: "open", textContent: word });
      link.href = `/names?${new URLSearchParams({ project, name: word })}`;
      link.addEventListener("click", (event) => {
        event.preventDefault();
        showNames(word);
      });
      const item = document.createElement("li");
      item.append(link);
      list.append(item);
    }
    list.className = "places";
    names.replaceChildren(Object.assign(document.createElement("h2"), { textContent: `Names in line ${line}` }), list);
    names.hidden = false;
    list.querySelector("a").focus();
    return true;
  }

  // -- the tree opens in place ----------------------------------------------------------------
  $(".tree")?.addEventListener("click", async (event) => {
    const link = event.target.closest("[data-folder]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const item = link.parentElement;
    const inner = item.querySelector("ul");
    const use = link.querySelector("use");
    const open = (is) => {
      link.setAttribute("aria-expanded", String(is));
      use.setAttribute("href", `/static/icons.svg#chevron-${is ? "down" : "right"}`);
    };
    if (inner) {
      inner.hidden = !inner.hidden;
      return open(!inner.hidden);
    }
    const answer = await fetch(`${link.getAttribute("href")}&part=tree`, { headers: { accept: "text/html" } }).catch(() => null);
    if (!answer?.ok || answer.redirected) return location.assign(link.href);
    item.insertAdjacentHTML("beforeend", await answer.text());
    open(true);
  });
  const here = $(".tree [aria-current]");
  const tree = $(".tree");
  if (here && tree && tree.scrollHeight > tree.clientHeight) tree.scrollTop = here.offsetTop - tree.clientHeight / 2;

  // -- the outline follows the reader ---------------------------------------------------------
  const outline = [...viewer.querySelectorAll(".outline [data-line]")];
  let due = 0;
  function markOutline() {
    due = 0;
    const row = document.elementFromPoint(whole.getBoundingClientRect().left + 8, innerHeight * 0.35 + 8)?.closest("[id^=L]");
    if (!row) return;
    const now = Number(row.id.slice(1));
    const inside = outline.findLast((each) => Number(each.dataset.line) <= now);
    for (const each of outline) if (each !== inside) each.removeAttribute("aria-current");
    inside?.setAttribute("aria-current", "location");
  }
  if (whole && outline.length) addEventListener("scroll", () => (due ||= requestAnimationFrame(markOutline)), { passive: true });

  // -- the results that led here --------------------------------------------------------------
  let results = [];
  try {
    results = JSON.parse(sessionStorage.getItem("results") || "[]");
  } catch {
    results = [];
  }
  const same = (way) => new URL(way, location.href).search === location.search;
  const number = results.findIndex(same);
  function go(by) {
    const way = results[number + by];
    if (number < 0 || !way) return false;
    location.assign(way);
    return true;
  }
  if (number >= 0 && results.length > 1) {
    const place = $("[data-results]");
    place.hidden = false;
    place.textContent = `result ${number + 1} of ${results.length}`;
    place.title = "[ and ] go to the previous and the next";
  }

  // -- keys -----------------------------------------------------------------------------------
  const keys = {
    f: () => field && (field.focus(), field.select(), true),
    n: () => step(1),
    p: () => step(-1),
    N: () => step(-1),
    c: () => copyPath && (copyPath.click(), true),
    y: () => permanent && (permanent.click(), true),
    r: () => ($(".switch a:not([aria-current])")?.click(), Boolean($(".switch"))),
    w: () => ($("[data-raw]")?.click(), true),
    e: () => menu && ((menu.open = true), menu.querySelector("[data-editor]").focus(), true),
    d: chooseName,
    o: () => ($("#outline a")?.focus(), Boolean($("#outline"))),
    t: () => (($(".tree [aria-current]") ?? $(".tree a"))?.focus(), true),
    "[": () => go(-1),
    "]": () => go(1),
    Escape: () => (names.hidden ? menu?.open && ((menu.open = false), true) : (hideNames(), true)),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.matches("input, select, textarea") || document.querySelector("dialog[open]")) return;
    if (Object.hasOwn(keys, event.key) && keys[event.key]()) event.preventDefault();
  });
})();
