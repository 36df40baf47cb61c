// The report of a sweep or a search: scatter with the front, parallel coordinates, and a table of all points.
'use strict';

const kStatus = ['ok', 'out of memory', 'infeasible', 'internal error'];
const n = data.n, statusBits = column(data.status, Uint8Array), reasonOf = column(data.reason, Uint16Array);
const status = (i) => statusBits[i] & 15, on_front = (i) => statusBits[i] >= 16;
const results = data.results.map((r) => ({...r, column: column(r.column, Float32Array)}));
const keys = data.keys.map(
    (key) => ({...key, choice: column(key.choice, {8: Uint8Array, 16: Uint16Array, 32: Uint32Array}[key.bits])}));
const result = (name) => results.find((r) => r.name === name);
const has = (r, i) => r.name === 'memory_gb' ? status(i) < 2 && r.column[i] > 0 : status(i) === 0 && r.column[i] > 0;
const unit_title = (r) => r.title === r.unit ? r.title : r.title + ', ' + r.unit;
const words = (r, i) => !has(r, i) ? '-' :
    r.name === 'iteration_s'       ? seconds(r.column[i]) :
    r.name === 'tokens_per_s'      ? si(r.column[i], 'tokens/s') :
                                     digits(r.column[i]) + ' ' + r.unit;
const reason_text = (i) => data.reasons[reasonOf[i]] || '';

let shown = new Uint32Array(0);  // the rows that all filters let through
const brushes = new Map();       // axis of the parallel coordinates -> [low, high] as shares
const repaint = [];

function point_text(i) {
  return keys.map((key) => key.name + ' = ' + key.values[key.choice[i]]).join('\n') + '\n' +
      results.filter((r) => has(r, i)).map((r) => r.title + ': ' + words(r, i)).join('\n') +
      (status(i) > 0 ? '\n' + kStatus[status(i)] : '') + (on_front(i) ? '\non the front' : '');
}

// ---- the first ----
// What the study was made for: the fastest points, whole, ahead of everything that compares them.
function winner_section() {
  const speed = result('tokens_per_s'), kMost = 5;
  const order = [...Array(n).keys()].filter((i) => status(i) === 0).sort((a, b) => speed.column[b] - speed.column[a]);
  if (order.length === 0) return;
  const first = order.slice(0, kMost);
  const last = (name) => name.split('.').pop();
  const short = (name) => keys.filter((key) => last(key.name) === last(name)).length > 1 ? name : last(name);
  const differs = (key) => new Set(first.map((i) => key.choice[i])).size > 1;
  const varied = keys.filter(differs), same = keys.filter((key) => !differs(key) && key.values.length > 1);
  const place = section(
      'winner', 'The fastest',
      order.length > kMost ? 'The first ' + kMost + ' of ' + grouped(order.length) + ' that could be simulated.' : '');
  place.append(
      table(
          [
            ...results.map((r) => ({title: r.name === 'memory_gb' ? 'memory' : r.title, number: true})),
            ...varied.map((key) => ({title: short(key.name), number: all_numbers(key)}))
          ],
          first.map((i) => [...results.map((r) => words(r, i)), ...varied.map((key) => key.values[key.choice[i]])])),
      same.length === 0 ? '' : el('p', {className: 'caption'}, 'The same in all of these: ' +
          same.map((key) => short(key.name) + ' = ' + key.values[key.choice[first[0]]]).join(', ') + '.'),
      el('p', {className: 'caption'}, 'The first again: ',
         el('code', {}, keys.map((key) => '--set ' + key.name + '=' + key.values[key.choice[first[0]]]).join(' '))));
}

// ---- scatter ----
// A colour for each value of a key: those of the palette where it has enough, else from dark to bright in their order.
function colours_of(key) {
  const order = key.values.map((text, k) => k);
  if (all_numbers(key)) order.sort((a, b) => Number(key.values[a]) - Number(key.values[b]));
  const colours = [];
  order.forEach((k, rank) => {
    const share = order.length < 2 ? 0 : rank / (order.length - 1);
    const shade = `hsl(${Math.round(250 - 200 * share)} 75% ${Math.round(35 + 20 * share)}%)`;
    colours[k] = order.length <= kPalette.length ? kPalette[rank][0] : shade;
  });
  return {colours, order};
}

function scatter_section() {
  const place = section(
      'scatter', 'All points',
      'Each dot is a point of the study; those that no other beats in ' +
          'throughput' + (data.cost ? ', memory and cost' : ' and memory') +
          ' are marked. Drag to move, Ctrl or Shift and ' +
          'the wheel to zoom, double click for all.' +
          (data.cost ? '' :
                       ' Without cost.price_per_gpu_hour_usd in the ' +
                   'scenario there is no cost to weigh.'));
  if (!results[0].column.some((v, i) => status(i) === 0)) {
    place.append(el('p', {}, 'No point could be simulated.'));
    return;
  }
  const choose = (label, chosen) => {
    const select =
        el('select', {onchange: () => change()},
           results.map((r) => el('option', {value: r.name, selected: r.name === chosen}, unit_title(r))));
    return [el('label', {}, label, select), select];
  };
  const [x_label, x_select] = choose('across', 'memory_gb'), [y_label, y_select] = choose('up', 'tokens_per_s');
  const line = el('input', {type: 'checkbox', checked: true, onchange: () => redraw()});
  // By the first key that has no more values than colours tell apart.
  const usual = keys.findIndex((key) => key.values.length > 1 && key.values.length <= kPalette.length);
  const hue = el(
      'select', {onchange: () => recolour()}, el('option', {value: -1}, 'nothing'),
      keys.map((key, k) => el('option', {value: k, selected: k === usual}, key.name)));
  const signs = el('div', {className: 'legend'});
  let key = null, colours = [];
  const recolour = () => {
    key = keys[Number(hue.value)] || null;
    const of_key = key ? colours_of(key) : {colours: [], order: []}, kMost = 12;
    colours = of_key.colours;
    const step = Math.max(1, Math.ceil(of_key.order.length / kMost));
    const marked = of_key.order.filter((k, rank) => rank % step === 0);
    signs.replaceChildren(
        ...(key ? marked.map((k) => el('span', {}, sign('■', colours[k]), ' ' + key.values[k])) :
                  [el('span', {}, sign('■', '#4f93d2'), ' simulated')]),
        el('span', {}, sign('◆', '#d55e00'), ' on the front'));
    redraw();
  };
  let x = null, y = null, x_range = null, y_range = null, redraw = () => {};
  place.append(
      el('div', {className: 'controls'}, x_label, y_label, keys.length > 0 ? el('label', {}, 'coloured by', hue) : '',
         data.cost ? '' : el('label', {}, line, 'join the front')),
      signs);
  const pick = (r) => {
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < n; ++i) {
      if (status(i) !== 0) continue;
      low = Math.min(low, r.column[i]);
      high = Math.max(high, r.column[i]);
    }
    const room = (high - low || high || 1) * 0.05;
    return new Range(low - room, high + room);
  };
  const change = () => {
    [x, y] = [result(x_select.value), result(y_select.value)];
    [x_range, y_range] = [pick(x), pick(y)];
    x_range.listeners.push(() => redraw());
    redraw();
  };
  const left = 92, bottom = 46, height = 430;
  const both = {
    zoom: (f, at) => {
      x_range.zoom(f, at);
      y_range.zoom(f);
    },
    pan: (s) => x_range.pan(s),
    reset: () => {
      y_range.reset();
      x_range.reset();
    },
    listeners: [],
    get from() {
      return x_range.from;
    },
    get to() {
      return x_range.to;
    }
  };
  change();
  recolour();
  const figure = el('figure', {}, el('figcaption', {}, zoom_buttons(both)));
  place.append(figure);
  let places = null;  // where each shown point lies, for the pointer
  redraw = own_canvas(figure, {
    label: 'points of the study',
    height,
    range: both,
    left,
    right: 10,
    draw: (c, width) => {
      const inner = width - left - 10, tall = height - bottom - 8;
      const px = (v) => left + (v - x_range.from) / (x_range.to - x_range.from) * inner;
      const py = (v) => 8 + tall - (v - y_range.from) / (y_range.to - y_range.from) * tall;
      const label = (r, v) => r.name === 'tokens_per_s' ? si(v, '', 3) : digits(v, 3);
      c.textBaseline = 'top';
      c.textAlign = 'center';
      for (const v of ticks(x_range.from, x_range.to, Math.max(2, inner / 110)).values) {
        c.fillStyle = css('grid');
        c.fillRect(Math.round(px(v)), 8, 1, tall);
        c.fillStyle = css('faint');
        c.fillText(label(x, v), px(v), 8 + tall + 5);
      }
      c.fillText(unit_title(x), left + inner / 2, 8 + tall + 24);
      c.textBaseline = 'middle';
      c.textAlign = 'right';
      for (const v of ticks(y_range.from, y_range.to, 7).values) {
        c.fillStyle = css('grid');
        c.fillRect(left, Math.round(py(v)), inner, 1);
        c.fillStyle = css('faint');
        c.fillText(label(y, v), left - 8, py(v));
      }
      c.save();
      c.translate(12, 8 + tall / 2);
      c.rotate(-Math.PI / 2);
      c.textAlign = 'center';
      c.fillText(unit_title(y), 0, 0);
      c.restore();
      c.save();
      c.beginPath();
      c.rect(left, 0, inner + 10, tall + 12);
      c.clip();
      places = [];
      const size = shown.length > 20000 ? 2 : shown.length > 2000 ? 3 : 5, front = [];
      c.fillStyle = '#4f93d2';
      c.globalAlpha = shown.length > 5000 ? 0.5 : 0.75;
      for (const i of shown) {
        if (status(i) !== 0) continue;
        const at = [px(x.column[i]), py(y.column[i])];
        places.push([i, ...at]);
        if (key) c.fillStyle = colours[key.choice[i]];
        if (on_front(i))
          front.push([i, ...at]);
        else
          c.fillRect(at[0] - size / 2, at[1] - size / 2, size, size);
      }
      c.globalAlpha = 1;
      front.sort((a, b) => a[1] - b[1]);
      c.strokeStyle = c.fillStyle = '#d55e00';
      c.lineWidth = 1.3;
      if (line.checked && front.length > 1 && !data.cost) {
        c.beginPath();
        front.forEach(([, a, b], k) => k ? c.lineTo(a, b) : c.moveTo(a, b));
        c.stroke();
      }
      c.lineWidth = 2;
      for (const [i, a, b] of front) {
        c.fillStyle = key ? colours[key.choice[i]] : '#d55e00';
        c.beginPath();
        c.moveTo(a, b - 6);
        c.lineTo(a + 6, b);
        c.lineTo(a, b + 6);
        c.lineTo(a - 6, b);
        c.closePath();
        c.fill();
        c.stroke();
      }
      c.restore();
    },
    at: (mx, my) => {
      let best = null, least = 14 * 14;
      for (const [i, a, b] of places) {
        const d = (a - mx) ** 2 + (b - my) ** 2;
        if (d < least || (d === least && on_front(i))) [best, least] = [i, d];
      }
      return best === null ? '' : point_text(best);
    }
  });
  repaint.push(redraw);
}

// ---- parallel coordinates ----
const all_numbers = (key) => key.values.every((text) => text !== '' && Number.isFinite(Number(text)));
function key_axis(key) {  // numbers in their order, words in that of the study
  const order = key.values.map((text, k) => k);
  if (all_numbers(key)) order.sort((a, b) => Number(key.values[a]) - Number(key.values[b]));
  const place = new Float32Array(order.length);
  order.forEach((k, rank) => place[k] = order.length < 2 ? 0.5 : rank / (order.length - 1));
  const marked = order.length > 12 ? [order[0], order[order.length - 1]] : order;
  return {
    title: key.name.split('.').pop(),
    full: key.name,
    share: (i) => place[key.choice[i]],
    marks: marked.map((k) => [place[k], key.values[k]])
  };
}
const axes = [
  ...keys.map(key_axis), ...results.map((r) => {
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < n; ++i) {
      if (status(i) !== 0 || !has(r, i)) continue;
      low = Math.min(low, r.column[i]);
      high = Math.max(high, r.column[i]);
    }
    const text = (v) => r.name === 'tokens_per_s' ? si(v, '', 3) : digits(v, 3);
    return {
      title: r.name === 'memory_gb' ? 'memory, GB' :
          r.name === 'cost'         ? 'USD/Mtok' :
                                      unit_title(r),
      full: unit_title(r),
      share: (i) => !has(r, i) ? null :
          high > low           ? Math.min(1, Math.max(0, (r.column[i] - low) / (high - low))) :
                                 0.5,
      marks: low <= high ? [0, 0.5, 1].map((s) => [s, text(low + s * (high - low))]) : []
    };
  })
];

function parallel_section() {
  const place = section(
      'parallel', 'Parallel coordinates',
      'A line is a point; the stronger its colour, the higher its throughput. ' +
          'Drag along an axis to keep only what crosses that part; click it to let go. The table and the scatter follow.');
  const height = 340, top = 48, bottom = height - 16, kMost = 4000;
  const figure = el('figure', {});
  place.append(figure);
  const x_of = (a, width) => 54 + a * (width - 120) / Math.max(1, axes.length - 1);
  const y_of = (share) => bottom - share * (bottom - top);
  const best = results[0];
  let drag = null;
  const redraw = own_canvas(figure, {
    label: 'parallel coordinates of the study',
    height,
    draw: (c, width) => {
      const step = Math.max(1, Math.ceil(shown.length / kMost)), speed = axes[keys.length];
      const drawn = [];
      shown.forEach((i, k) => {
        if (k % step === 0 || on_front(i)) drawn.push(i);
      });
      drawn.sort((a, b) => (on_front(a) - on_front(b)) || best.column[a] - best.column[b]);
      const dark = is_dark(), many = drawn.length > 400;
      for (const i of drawn) {
        const s = speed.share(i);
        c.strokeStyle = on_front(i) ? '#d55e00' :
            s === null              ? css('line') :
            dark                    ? `rgb(${50 + 90 * s},${85 + 110 * s},${120 + 135 * s})` :
                                      `rgb(${190 - 165 * s},${208 - 125 * s},${232 - 65 * s})`;
        c.globalAlpha = on_front(i) ? 0.95 : many ? 0.35 : 0.8;
        c.lineWidth = on_front(i) ? 1.6 : 1;
        c.beginPath();
        let pen = false;
        axes.forEach((a, k) => {
          const share = a.share(i);
          if (share === null) return;
          if (pen)
            c.lineTo(x_of(k, width), y_of(share));
          else
            c.moveTo(x_of(k, width), y_of(share));
          pen = true;
        });
        c.stroke();
      }
      c.globalAlpha = 1;
      const room = (width - 120) / Math.max(1, axes.length - 1);
      axes.forEach((a, k) => {
        const x = x_of(k, width);
        c.fillStyle = css('faint');
        c.fillRect(x, top, 1, bottom - top);
        c.textAlign = 'center';
        c.textBaseline = 'alphabetic';
        c.fillStyle = css('text');
        c.font = '600 12px system-ui, sans-serif';
        let title = a.title;
        while (title.length > 4 && c.measureText(title).width > Math.max(40, (room < 90 ? 2 : 1) * room - 8))
          title = title.slice(0, -3) + '..';
        c.fillText(title, x, 16 + (room < 90 && k % 2 ? 14 : 0));
        c.font = '11px system-ui, sans-serif';
        c.textAlign = 'left';
        c.textBaseline = 'middle';
        for (const [share, text] of a.marks) {
          const label = text.length > 12 ? text.slice(0, 11) + '..' : text, y = y_of(share);
          c.fillStyle = css('card');
          c.globalAlpha = 0.75;
          c.fillRect(x + 4, y - 7, c.measureText(label).width + 4, 14);
          c.globalAlpha = 1;
          c.fillStyle = css('text');
          c.fillText(label, x + 6, y);
        }
        const brush = brushes.get(k);
        if (!brush) return;
        c.globalAlpha = 0.3;
        c.fillStyle = css('accent');
        c.fillRect(x - 7, y_of(brush[1]), 15, Math.max(3, y_of(brush[0]) - y_of(brush[1])));
        c.globalAlpha = 1;
      });
    },
    at: () => drag ? '' : 'drag along an axis'
  });
  repaint.push(redraw);
  const canvas = figure.querySelector('canvas');
  const share_at = (y) => Math.min(1, Math.max(0, (bottom - y) / (bottom - top)));
  canvas.addEventListener('pointerdown', (event) => {
    const width = canvas.clientWidth;
    const near = axes.map((a, k) => [Math.abs(x_of(k, width) - event.offsetX), k]).sort((a, b) => a[0] - b[0])[0];
    if (near[0] > 24) return;
    drag = [near[1], share_at(event.offsetY)];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!drag) return;
    const now = share_at(event.offsetY);
    brushes.set(drag[0], [Math.min(drag[1], now), Math.max(drag[1], now)]);
    redraw();
  });
  canvas.addEventListener('pointerup', (event) => {
    if (!drag) return;
    if (Math.abs(share_at(event.offsetY) - drag[1]) < 0.015) brushes.delete(drag[0]);
    drag = null;
    list.refresh();
  });
}

// ---- table ----
let list = null;
function table_section() {
  const place = section(
      'points', 'Table',
      data.n < data.points ? 'The ' + grouped(data.n) + ' points of highest ' +
              'throughput of ' + grouped(data.points) +
              '; the others would not fit a file that a browser likes to open.' :
                             'Every point; those on the front are marked.');
  const only = el('select', {onchange: () => list.refresh()}, [
    ['all points', ''], ['simulated', '0'], ['out of memory', '1'], ['infeasible', '2'], ['on the front', 'front']
  ].map(([text, value]) => el('option', {value}, text)));
  place.append(el('div', {className: 'controls'}, el('label', {}, 'show', only)));
  const kept = (i) =>
      (only.value === '' || (only.value === 'front' ? on_front(i) : status(i) === Number(only.value))) &&
      [...brushes].every(([a, [low, high]]) => {
        const share = axes[a].share(i);
        return share !== null && share >= low - 1e-9 && share <= high + 1e-9;
      });
  const columns = [
    ...keys.map((key) => {
      const numeric = all_numbers(key);
      return {
        title: key.name,
        width: Math.max(110, 22 + 8 * key.name.length),
        number: numeric,
        value: (i) => numeric ? Number(key.values[key.choice[i]]) : key.values[key.choice[i]],
        text: (i) => key.values[key.choice[i]]
      };
    }),
    {title: 'status', width: 120, value: (i) => status(i), text: (i) => kStatus[status(i)]},
    ...results.map((r) => ({
                     title: unit_title(r),
                     width: 22 + Math.max(96, 8 * unit_title(r).length),
                     number: true,
                     value: (i) => has(r, i) ? r.column[i] : NaN,
                     text: (i) => has(r, i) ? digits(r.column[i]) : '-'
                   })),
    {title: 'reason', width: 700, value: (i) => reason_text(i), text: (i) => reason_text(i)}
  ];
  list = grid(place, {
    columns,
    count: n,
    front: on_front,
    keep: kept,
    sort: [keys.length + 1, -1],
    on_change: (rows) => {
      shown = rows;
      repaint.forEach((again) => again());
    }
  });
}

function infeasible_section() {
  const counts = new Map(data.infeasible);
  for (let i = 0; i < n; ++i) {
    if (status(i) === 0) continue;
    const text = status(i) === 1 ? 'out of memory' : reason_text(i).replace(/\d+/g, '#');
    if (status(i) > 1 || data.infeasible.length === 0 || status(i) === 1) counts.set(text, (counts.get(text) || 0) + 1);
  }
  if (counts.size === 0) return;
  const place = section(
      'infeasible', 'Why points fail',
      'Reasons with # in place of numbers, and how many points have ' +
          'each.');
  const rows = [...counts].sort((a, b) => b[1] - a[1]);
  place.append(table(
      [{title: 'reason'}, {title: 'points', number: true}],
      rows.slice(0, 40).map(([text, count]) => [text, grouped(count)])));
  if (rows.length > 40) place.append(el('p', {className: 'caption'}, 'and ' + grouped(rows.length - 40) + ' more'));
}

begin_page();
tiles(data.facts);
shown = Uint32Array.from({length: n}, (_, i) => i);
winner_section();
scatter_section();
parallel_section();
table_section();
infeasible_section();
end_page();
