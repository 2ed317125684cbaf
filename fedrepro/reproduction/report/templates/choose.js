// Filter, search and order; without this script the table shows everything, by paper.
(() => {
  const form = document.getElementById("choose");
  const table = document.querySelector("table.claims");
  const bodies = [...table.tBodies];
  const rows = [...table.querySelectorAll("tbody tr[id]")];
  const home = new Map(rows.map((row) => [row, row.parentNode]));
  const rank = [...form.elements.verdict.options].map((option) => option.value);
  const orders = {
    verdict: (row) => rank.indexOf(row.dataset.verdict),
    outside: (row) => -Number(row.dataset.outside),
  };
  function show() {
    const { verdict, paper, order, text } = form.elements;
    const wanted = text.value.trim().toLowerCase().split(/\s+/);
    const key = orders[order.value];
    const ordered = key ? rows.toSorted((a, b) => key(a) - key(b)) : rows;
    for (const row of ordered) {
      (key ? bodies[0] : home.get(row)).append(row);
      const content = row.textContent.toLowerCase();
      row.hidden =
        (verdict.value && row.dataset.verdict !== verdict.value) ||
        (paper.value && row.dataset.paper !== paper.value) ||
        !wanted.every((word) => content.includes(word));
    }
    for (const body of bodies) {
      const waits = body.classList.contains("waiting");
      const seen = rows.some(
        (row) => !row.hidden && (waits ? home.get(row) === body : row.dataset.paper === body.dataset.paper),
      );
      for (const row of body.querySelectorAll("tr.group")) row.hidden = !seen || Boolean(key);
    }
    form.querySelector("output").value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims`;
  }
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  show();
})();
