"use strict";
// Opens and closes sites, links them with the timeline where there is one, copies, and prints.
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
    site.hidden = false;  // a filter may have hidden it
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
  // Also a second click on the same link opens: the address does not change then.
  document.querySelectorAll("a[href^='#site-']").forEach((link) => {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      openSite(link.getAttribute("href").slice(1));
    });
  });
  if (location.hash) openSite(location.hash.slice(1));
  window.addEventListener("hashchange", () => openSite(location.hash.slice(1)));

  function link(drawn) {
    document.querySelectorAll("button.show").forEach((button) => {
      if (!drawn.has(button.dataset.site)) return;
      button.hidden = false;
      button.addEventListener("click", () => {
        drawn.select(button.dataset.site);
        scrollTo(document.querySelector("section.timeline"));
      });
    });
    document.querySelectorAll("[data-step]").forEach((column) => {
      column.addEventListener("click", () => {
        drawn.showStep(Number(column.dataset.step));
        scrollTo(document.querySelector("section.timeline"));
      });
    });
  }
  if (timeline) {
    timeline.onEvent(openSite);
    timeline.ready.then(link);
  }

  // By selection: navigator.clipboard is refused to files in some browsers.
  function copy(button) {
    const text = button.parentElement.querySelector("pre");
    getSelection().selectAllChildren(text);
    const done = document.execCommand("copy");
    if (done) getSelection().removeAllRanges();
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
  document.querySelectorAll("button.copy").forEach((button) => {
    button.addEventListener("click", () => copy(button));
  });

  // On paper nothing can be opened: print everything.
  let closedBeforePrint = [];
  window.addEventListener("beforeprint", () => {
    closedBeforePrint = Array.from(document.querySelectorAll("details:not([open])"));
    closedBeforePrint.forEach((details) => { details.open = true; });
  });
  window.addEventListener("afterprint", () => {
    closedBeforePrint.forEach((details) => { details.open = false; });
  });
})();
