"use strict";
// A click into the map zooms: the box that was clicked grows until it is the map.
(() => {
  const map = document.querySelector(".map");
  const ZOOM_MS = 180; // long enough to be followed by the eye, too short to wait for
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  map?.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || calm.matches || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const tile = link.closest(".tile");
    const [from, to] = [tile.getBoundingClientRect(), map.getBoundingClientRect()];
    const box = document.createElement("div");
    box.className = `${tile.className} zoom`;
    map.append(box);
    const place = (left, top, width, height) => ({ left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    const grow = [place(from.left - to.left, from.top - to.top, from.width, from.height), place(0, 0, to.width, to.height)];
    box.animate(grow, { duration: ZOOM_MS, easing: "ease-in-out", fill: "forwards" }).finished.then(() => location.assign(link.href));
  });
  addEventListener("pageshow", () => document.querySelectorAll(".zoom").forEach((box) => box.remove()));
})();
