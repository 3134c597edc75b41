"use strict";
// A click into the map zooms: the box that was clicked grows into the next map.
(() => {
  const map = document.querySelector(".map");
  map?.addEventListener("click", (event) => {
    const tile = event.target.closest(".tile");
    if (!tile) return;
    map.style.viewTransitionName = "none";
    tile.style.viewTransitionName = "map";
  });
  addEventListener("pageshow", () => {
    if (map) map.style.viewTransitionName = "";
    for (const tile of document.querySelectorAll(".tile")) tile.style.viewTransitionName = "";
  });
})();
