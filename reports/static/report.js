"use strict";
// Opens and closes sites, and links them with the timeline where there is one.
(() => {
  const timeline = typeof syncscopeTimeline === "undefined" ? null : syncscopeTimeline;
  const sites = Array.from(document.querySelectorAll("details.site"));
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

  function scrollTo(element) {
    element.scrollIntoView({ behavior: calm.matches ? "auto" : "smooth", block: "start" });
  }

  function openSite(anchor) {
    const site = document.getElementById(anchor);
    if (!site || !site.classList.contains("site")) return;
    for (let e = site; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    document.querySelectorAll(".site.found").forEach((e) => e.classList.remove("found"));
    site.classList.add("found");
    site.querySelector("summary").focus({ preventScroll: true });
    scrollTo(site);
  }

  function setAll(open) {
    sites.forEach((site) => {
      if (!open || !site.closest("details.more:not([open])")) site.open = open;
    });
  }

  document.querySelectorAll("[data-action]").forEach((button) => {
    button.addEventListener("click", () => setAll(button.dataset.action === "open-all"));
  });
  if (timeline) {
    timeline.onEvent(openSite);
    document.querySelectorAll("button.show").forEach((button) => {
      if (!timeline.has(button.dataset.site)) return;
      button.hidden = false;
      button.addEventListener("click", () => {
        timeline.select(button.dataset.site);
        scrollTo(document.querySelector("section.timeline"));
      });
    });
  }
  if (location.hash) openSite(location.hash.slice(1));
  window.addEventListener("hashchange", () => openSite(location.hash.slice(1)));

  // On paper nothing can be opened: print flagged sites with their advice.
  let closedBeforePrint = [];
  window.addEventListener("beforeprint", () => {
    closedBeforePrint = sites.filter((site) => !site.open && !site.closest("details.more"));
    closedBeforePrint.forEach((site) => { site.open = true; });
  });
  window.addEventListener("afterprint", () => {
    closedBeforePrint.forEach((site) => { site.open = false; });
  });
})();
