"use strict";
// Every page: keys and forms. Everything works without it.
(() => {
  const box = document.getElementById("q");

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

  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // -- copying --------------------------------------------------------------------------------
  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const label = button.querySelector("span");
    const before = label.textContent;
    if (button.classList.contains("done")) return;
    label.textContent = "Copied";
    button.classList.add("done");
    setTimeout(() => {
      label.textContent = before;
      button.classList.remove("done");
    }, 1200);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button && !event.ctrlKey && !event.metaKey && !event.shiftKey) copy(button.dataset.copy, button);
  });

  // -- forms ----------------------------------------------------------------------------------
  for (const each of document.querySelectorAll("form[method=post]")) {
    each.addEventListener("submit", () => document.body.setAttribute("aria-busy", "true"));
  }
  addEventListener("pageshow", () => document.body.removeAttribute("aria-busy"));

})();
