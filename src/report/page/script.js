
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("findings-data").textContent);
  const list = document.getElementById("list");
  if (!list) return;
  const ROW_PX = 28, SPARE_ROWS = 20;
  const WORDS = { possible: "correctable", done: "corrected", failed: "correction failed", impossible: "uncorrectable", undecidable: "undecidable" };
  const word = n => data.words[n];
  const prospects = n => WORDS[word(n)] || word(n);
  const files = row => row[8].map(n => data.files[n]).join(", ") + (row[9] > 0 ? " and " + row[9] + " more" : "");
  const COLUMNS = [
    ["kind", row => word(row[0])], ["problem", row => word(row[1])], ["prospects", row => prospects(row[2])],
    ["logical", row => row[3]], ["mirror", row => row[5]], ["devid", row => row[6]], ["physical", row => row[7]],
    ["length", row => row[4]], ["file", files], ["seen", row => row[10] || ""],
  ];
  const group = document.getElementById("group"), kind = document.getElementById("kind");
  const repair = document.getElementById("repair"), search = document.getElementById("search");
  const body = document.getElementById("rows"), shown = document.getElementById("shown"), head = document.getElementById("columns");
  let sort = { column: -1, down: false }, lines = [];

  const fill = (select, place, name) => {
    for (const n of new Set(data.rows.map(row => row[place]))) select.add(new Option(name(n), n));
  };
  fill(kind, 0, word);
  fill(repair, 2, prospects);
  COLUMNS.forEach(([name], column) => {
    const cell = document.createElement("th");
    cell.textContent = name;
    cell.onclick = () => { sort = { column, down: sort.column === column && !sort.down }; update(); };
    head.append(cell);
  });

  const compare = (a, b) => {
    if (typeof a === "string" && typeof b === "string" && !/^\d+$/.test(a + b)) return a < b ? -1 : a > b ? 1 : 0;
    const [x, y] = [BigInt(a), BigInt(b)];
    return x < y ? -1 : x > y ? 1 : 0;
  };
  const matches = text => {
    if (!text) return () => true;
    const inFile = data.files.map(name => name.toLowerCase().includes(text));
    return row => row[8].some(n => inFile[n])
      || COLUMNS.some(([, of], column) => column !== 8 && String(of(row)).toLowerCase().includes(text));
  };
  const keys = row => {
    if (group.value === "device") return ["devid " + row[6]];
    return row[8].length ? row[8].map(n => data.files[n]) : ["no file"];
  };

  function update() {
    const fits = matches(search.value.trim().toLowerCase());
    let rows = data.rows.filter(row => (kind.value === "" || row[0] === Number(kind.value))
      && (repair.value === "" || row[2] === Number(repair.value)) && fits(row));
    if (sort.column >= 0) {
      const of = COLUMNS[sort.column][1], sign = sort.down ? -1 : 1;
      rows = rows.map(row => [of(row), row]).sort((a, b) => sign * compare(a[0], b[0])).map(pair => pair[1]);
    }
    shown.textContent = rows.length === data.rows.length ? rows.length : rows.length + " of " + data.rows.length;
    lines = rows;
    if (group.value !== "place") {
      const groups = new Map();
      for (const row of rows) for (const key of keys(row)) {
        if (!groups.has(key)) groups.set(key, []);
        groups.get(key).push(row);
      }
      lines = [];
      for (const [key, rows] of groups) {
        lines.push({ key, count: rows.length });
        for (const row of rows) lines.push(row);
      }
    }
    [...head.children].forEach((cell, column) => {
      if (column === sort.column) cell.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    list.scrollTop = 0;
    draw();
  }

  const space = rows => {
    const line = document.createElement("tr");
    line.style.height = rows * ROW_PX + "px";
    return line;
  };
  function line(entry) {
    const tr = document.createElement("tr");
    if (!Array.isArray(entry)) {
      tr.className = "group";
      const cell = document.createElement("td");
      cell.colSpan = COLUMNS.length;
      cell.textContent = entry.key + " (" + entry.count + ")";
      tr.append(cell);
      return tr;
    }
    for (const [name, of] of COLUMNS) {
      const cell = document.createElement("td");
      cell.textContent = of(entry);
      cell.title = cell.textContent;
      if (name === "prospects") cell.className = word(entry[2]);
      tr.append(cell);
    }
    return tr;
  }
  // Only the lines in sight are in the page.
  function draw() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW_PX) - SPARE_ROWS);
    const last = Math.min(lines.length, first + Math.ceil(list.clientHeight / ROW_PX) + 2 * SPARE_ROWS);
    body.replaceChildren(space(first), ...lines.slice(first, last).map(line), space(lines.length - last));
  }
  let waiting = false;
  list.onscroll = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
  for (const control of [group, kind, repair, search]) control.oninput = update;
  update();
})();
