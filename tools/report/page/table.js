// A table of up to hundreds of thousands of rows: only those in sight are in the page; it sorts by a click on a title
// and filters by what is typed below it.
'use strict';

const kRowHeight = 26;

// "12", "<12", ">=12", "=12", "10..12", or part of a text; null where nothing is asked.
function filter_of(text) {
  const typed = text.trim();
  if (!typed) return null;
  const compared = typed.match(/^(<=|>=|<|>|=)\s*(-?[\d.]+(?:e[-+]?\d+)?)$/i);
  if (compared) {
    const limit = Number(compared[2]);
    const tests = {
      '<': (v) => v < limit,
      '>': (v) => v > limit,
      '<=': (v) => v <= limit,
      '>=': (v) => v >= limit,
      '=': (v) => Math.abs(v - limit) <= 1e-9 * Math.max(1, Math.abs(limit))
    };
    return {value: tests[compared[1]]};
  }
  const between = typed.match(/^(-?[\d.]+(?:e[-+]?\d+)?)\s*\.\.\s*(-?[\d.]+(?:e[-+]?\d+)?)$/i);
  if (between) return {value: (v) => v >= Number(between[1]) && v <= Number(between[2])};
  const low = typed.toLowerCase();
  return {text: (shown) => shown.toLowerCase().includes(low)};
}

// `columns`: {title, width, number, value(row), text(row)}; `front(row)`: whether to mark it. `keep(row)`: a further
// filter. Returns {rows, refresh}; `on_change(rows)` is called whenever the rows in the table change.
function grid(place, {columns, count, front = () => false, keep = () => true, sort = null, on_change = () => {}}) {
  const widths = columns.map((c) => (c.width || 110) + 'px').join(' ');
  const inputs = columns.map((c) => el('input', {
                               type: 'search',
                               placeholder: c.number ? 'e.g. <10' : 'filter',
                               'aria-label': 'filter ' + c.title,
                               oninput: () => refresh()
                             }));
  const titles = columns.map(
      (c, i) => el(
          'button', {type: 'button', className: c.number ? 'number' : '', title: c.title, onclick: () => order_by(i)},
          c.title));
  const head = el('div', {className: 'head', style: {gridTemplateColumns: widths}}, titles, inputs);
  const body = el('div', {className: 'body', role: 'table', 'aria-label': columns.map((c) => c.title).join(', ')});
  const box = el('div', {className: 'grid', tabIndex: 0}, head, body);
  const shown = el('span', {className: 'note'});
  place.append(box, el('p', {className: 'caption'}, shown));
  const out = {rows: new Uint32Array(0), refresh, box};
  let by = sort;

  function order_by(i) {
    by = by && by[0] === i ? [i, -by[1]] : [i, 1];
    refresh();
  }

  function refresh() {
    const filters = inputs.map((input, i) => [columns[i], filter_of(input.value)]).filter(([, filter]) => filter);
    const passes = (row) => keep(row) &&
        filters.every(
            ([c, filter]) => filter.value ? c.number && filter.value(c.value(row)) : filter.text(c.text(row)));
    const rows = [];
    for (let row = 0; row < count; ++row)
      if (passes(row)) rows.push(row);
    if (by) {
      const [i, way] = by, keys = new Array(count);
      for (const row of rows) keys[row] = columns[i].value(row);
      const empty = (v) => v === null || v === undefined || Number.isNaN(v);
      rows.sort((a, b) => {
        const x = keys[a], y = keys[b];
        if (empty(x) || empty(y)) return empty(x) - empty(y) || a - b;  // what has no value comes last, both ways
        return (x < y ? -way : x > y ? way : 0) || a - b;
      });
    }
    out.rows = Uint32Array.from(rows);
    titles.forEach(
        (title, i) => title.textContent = columns[i].title + (by && by[0] === i ? (by[1] > 0 ? ' ▲' : ' ▼') : ''));
    shown.textContent = grouped(rows.length) + ' of ' + grouped(count) + ' rows. Click a title to sort; filters take ' +
        'text, <10, >=10, =10 or 10..20.';
    body.style.height = rows.length * kRowHeight + 'px';
    draw();
    on_change(out.rows);
  }

  function draw() {
    const first = Math.max(0, Math.floor((box.scrollTop - 80) / kRowHeight));
    const last = Math.min(out.rows.length, first + Math.ceil(box.clientHeight / kRowHeight) + 8);
    const lines = [];
    for (let i = first; i < last; ++i) {
      const row = out.rows[i];
      lines.push(
          el('div', {
            className: 'row' + (front(row) ? ' front' : ''),
            role: 'row',
            style: {top: i * kRowHeight + 'px', gridTemplateColumns: widths}
          },
             columns.map((c) => {
               const text = c.text(row);
               return el('span', {role: 'cell', className: c.number ? 'number' : '', title: text.length > 14 ? text : ''}, text);
             })));
    }
    body.replaceChildren(...lines);
    body.style.minWidth = head.scrollWidth + 'px';
  }
  box.addEventListener('scroll', () => requestAnimationFrame(draw));
  refresh();
  return out;
}
