"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const one = (selector) => document.querySelector(selector);

  // Sorting: the first number of a cell counts; cells without one stay at the end, whatever the direction.
  const key = (cell) => {
    const text = cell.textContent.trim();
    return { text, number: cell.classList.contains("number") ? parseFloat(text) : NaN };
  };
  const compare = (a, b, numeric, sign) => {
    if (!numeric) return sign * a.text.localeCompare(b.text, "en", { numeric: true });
    if (isNaN(a.number) || isNaN(b.number)) return isNaN(a.number) - isNaN(b.number);
    return sign * (a.number - b.number);
  };
  const sort = (table, header, index) => {
    const numeric = header.classList.contains("number");
    const first = numeric ? "descending" : "ascending";
    const other = numeric ? "ascending" : "descending";
    const direction = header.getAttribute("aria-sort") === first ? other : first;
    all(".sortable th", table).forEach((each) => each.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", direction);
    const body = table.tBodies[0];
    const rows = Array.from(body.rows).map((row) => ({ row, key: key(row.cells[index]) }));
    rows.sort((a, b) => compare(a.key, b.key, numeric, direction === "ascending" ? 1 : -1));
    body.append(...rows.map((each) => each.row));
  };
  all("table.figures").filter((table) => table.querySelector(".sortable")).forEach((table) => {
    all(".sortable th", table).forEach((header, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      button.addEventListener("click", () => sort(table, header, index));
      header.replaceChildren(button);
    });
  });

  // Filtering: one set of methods for the plane, the table and the trials one by one.
  const filter = one("#filter");
  if (filter) {
    const boxes = all("input", filter);
    const show = () => {
      const wanted = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
      all("#table tbody tr, #plane .point, details.trial").forEach((each) => {
        each.classList.toggle("hidden", !wanted.has(each.dataset.method) && boxes.some((box) => box.value === each.dataset.method));
      });
      const rows = all("#table tbody tr");
      one("#shown").textContent = `(${rows.filter((row) => !row.classList.contains("hidden")).length} of ${rows.length} models)`;
    };
    boxes.forEach((box) => box.addEventListener("change", show));
    filter.hidden = false;
    show();
  }

  // A point shows its trial beside the plane, and names what lies under it.
  const panel = one("#panel");
  const points = all("#plane .point");
  const place = (point) => ["x", "y", "cx", "cy"].map((name) => point.querySelector(".hit").getAttribute(name)).join();
  const choose = (point) => {
    const detail = document.getElementById(point.getAttribute("href").slice(1));
    if (!detail) return;
    points.forEach((each) => each.removeAttribute("aria-current"));
    point.setAttribute("aria-current", "true");
    const title = document.createElement("h3");
    title.append(...detail.querySelector("summary").cloneNode(true).childNodes);
    panel.replaceChildren(title);
    const others = points.filter((each) => each !== point && place(each) === place(point));
    if (others.length) {
      const line = document.createElement("p");
      line.append("At the same place:");
      others.forEach((other) => {
        const link = document.createElement("a");
        link.href = other.getAttribute("href");
        link.textContent = other.dataset.name;
        link.addEventListener("click", (event) => { event.preventDefault(); choose(other); });
        line.append(" ", link);
      });
      panel.append(line);
    }
    panel.append(...detail.querySelector(".body").cloneNode(true).childNodes);
    panel.scrollTop = 0;
  };
  points.forEach((point) => point.addEventListener("click", (event) => {
    event.preventDefault();
    choose(point);
    panel.scrollIntoView({ block: "nearest" });
  }));
  const chosen = points.find((point) => point.classList.contains("selected"));
  if (chosen) choose(chosen);

  // A link to a trial opens it; on paper everything is open.
  const open = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", open);
  open();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));
})();
