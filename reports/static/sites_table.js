"use strict";
// Sorts the table of sites by a click on a column's head, and narrows it down by fields.
(() => {
  const form = document.querySelector(".filters");
  const tables = Array.from(document.querySelectorAll(".entries"));
  const rows = tables.map((table) => Array.from(table.querySelectorAll(":scope > details.site")));
  const heads = Array.from(document.querySelectorAll("button.sort"));
  let sorted = { key: "", falling: true };

  // Texts rise, numbers fall: what is large is what one looks for.
  const TEXTS = { place: ".place", what: ".what" };
  function before(a, b) {
    if (TEXTS[sorted.key]) {
      const [left, right] = [a, b].map((row) => row.querySelector(TEXTS[sorted.key]).textContent);
      return left.localeCompare(right, "en", { numeric: true });
    }
    return b.getAttribute("data-by-" + sorted.key) - a.getAttribute("data-by-" + sorted.key);
  }

  function sortBy(key) {
    sorted = { key, falling: sorted.key === key ? !sorted.falling : true };
    tables.forEach((table, n) => {
      const order = [...rows[n]].sort((a, b) => (sorted.falling ? before(a, b) : before(b, a)));
      table.append(...order);
    });
    heads.forEach((head) => {
      const own = head.dataset.sort === key;
      head.setAttribute("aria-pressed", own);
      head.dataset.order = own ? (sorted.falling === !TEXTS[key] ? "falling" : "rising") : "";
      head.title = own ? "sorted " + head.dataset.order : "";
    });
  }

  function matches(row, wanted) {
    return wanted.every(([name, value]) => (name === "text"
      ? row.textContent.toLowerCase().includes(value.toLowerCase())
      : row.getAttribute("data-" + name) === value));
  }

  function narrow() {
    const fields = Array.from(form.querySelectorAll("input, select"));
    const wanted = fields.map((field) => [field.name, field.value]).filter(([, value]) => value);
    const counts = rows.map((own) => {
      own.forEach((row) => { row.hidden = !matches(row, wanted); });
      return own.filter((row) => !row.hidden).length;
    });
    const all = rows.flat().length;
    const shown = counts.reduce((a, b) => a + b, 0);
    const found = shown ? shown + " of " + all + " lines" : "No line matches.";
    form.querySelector("output").textContent = wanted.length ? found : "";
    // What is found only among those that are not flagged must be seen.
    const more = document.getElementById("unflagged");
    if (more && wanted.length && counts[counts.length - 1]) more.open = true;
  }

  heads.forEach((head) => head.addEventListener("click", () => sortBy(head.dataset.sort)));
  if (form) {
    form.addEventListener("input", narrow);
    narrow();  // a browser may have kept what was typed before a reload
  }
})();
