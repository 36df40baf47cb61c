// The report of commands whose answer is a few tables: sections of a table, a chart or text, in the order given.
'use strict';

const id_of = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, '-');

// Rows are lists of cells, or a text over the whole width.
function sheet_table(columns, rows) {
  const cell = (tag, text, column) =>
      el(tag === 'th' && !text ? 'td' : tag, {className: column.number ? 'number' : ''}, text);
  return el(
      'div', {className: 'scroll', tabIndex: 0, role: 'group', 'aria-label': 'table'},
      el('table', {}, el('thead', {}, el('tr', {}, columns.map((c) => cell('th', c.title, c)))),
         el('tbody', {},
            rows.map(
                (row) => Array.isArray(row) ?
                    el('tr', {}, row.map((text, i) => cell('td', text, columns[i]))) :
                    el('tr', {}, el('td', {colSpan: columns.length, className: 'note'}, row.trim()))))));
}

function sheet_chart(place, chart) {
  const bars = chart.labels.length > 0;
  add_chart(place, {
    title: chart.title,
    label: chart.title,
    height: bars ? Math.max(220, Math.min(900, 60 + 22 * chart.labels.length * chart.series.length)) : 320,
    legend: chart.series.length > 1 ? palette_legend(chart.series.map((s, i) => [s.name, i])) : null,
    config: () => ({
      type: bars ? 'bar' : 'scatter',
      data: {
        labels: chart.labels,
        datasets: chart.series.map((s, i) => bars ? {label: s.name, data: s.values, backgroundColor: paint(i)} : {
          label: s.name,
          data: s.values.map((y, at) => ({x: chart.x[at], y})),
          showLine: true,
          borderColor: kPalette[i % kPalette.length][0],
          backgroundColor: kPalette[i % kPalette.length][0],
          pointRadius: 2
        })
      },
      options: bars ? {indexAxis: 'y', scales: {x: axis(chart.y_title), y: axis(chart.x_title)}} : {
        scales: {
          x: axis(chart.x_title, {type: 'logarithmic', ticks: log_ticks}),
          y: axis(chart.y_title, {beginAtZero: true})
        }
      }
    })
  });
}

// A network by its levels: a row of boxes for each, as many as there is room for, and between two of them the bundle of
// their links. Whatever its size it is as large as it has levels.
const kBoxesShown = 24;
function levels_drawing(levels) {
  const svg = (tag, properties, ...children) => {
    const one = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [key, value] of Object.entries(properties)) one.setAttribute(key, value);
    one.append(...children);
    return one;
  };
  const width = 960, left = 190, pitch = (width - left - 80) / kBoxesShown, tall = 92;
  const words = ({what, count}) => grouped(count) + ' ' + what + (count === 1 ? '' : what.endsWith('ch') ? 'es' : 's');
  const most = Math.max(1, ...levels.map((level) => level.bytes_per_s));
  const parts = levels.flatMap((level, i) => {
    const y = 14 + i * tall, shown = Math.min(level.count, kBoxesShown), middle = left + shown * pitch / 2;
    const boxes = Array.from(
        {length: shown},
        (_, b) => svg(
            'rect',
            {x: left + b * pitch + 2, y, width: pitch - 4, height: 26, rx: 4, fill: kPalette[i % kPalette.length][0]}));
    const more = level.count > shown ? ['of ' + grouped(level.count) + ', ' + shown + ' are drawn'] : [];
    const out = [
      svg('text', {x: left - 14, y: y + 18, 'text-anchor': 'end', 'font-weight': 600}, words(level)), ...boxes,
      svg('text', {x: left - 14, y: y + 34, 'text-anchor': 'end', 'font-size': 11}, ...more)
    ];
    if (!level.links || i + 1 === levels.length) return out;
    const next = left + Math.min(levels[i + 1].count, kBoxesShown) * pitch / 2;
    out.push(
        svg('line', {
          x1: middle,
          y1: y + 28,
          x2: next,
          y2: y + tall - 2,
          class: 'bundle',
          'stroke-width': Math.max(2, 22 * Math.sqrt(level.bytes_per_s / most))
        }),
        svg('text', {x: Math.max(middle, next) + 20, y: y + 62}, level.links));
    return out;
  });
  const label = levels.map((level) => words(level) + (level.links ? ', ' + level.links : '')).join('; ');
  return el(
      'div', {className: 'scroll', tabIndex: 0, role: 'group', 'aria-label': 'drawing of the levels'},
      svg('svg',
          {viewBox: `0 0 ${width} ${levels.length * tall - 40}`, class: 'levels', role: 'img', 'aria-label': label},
          ...parts));
}

begin_page();
if (data.facts.length) tiles(data.facts);
for (const part of data.sections) {
  const place = section(id_of(part.title), part.title, part.caption);
  if (part.columns) place.append(sheet_table(part.columns, part.rows));
  if (part.chart) sheet_chart(place, part.chart);
  if (part.levels) place.append(levels_drawing(part.levels));
  if (part.levels && data.rank_map) {
    rank_picture_section();
    if (data.rank_map.ranks.length) rank_map_section();
  }
  if (part.text) place.append(el('pre', {tabIndex: 0}, part.text));
  if (part.notes && part.notes.length) place.append(el('ul', {}, part.notes.map((note) => el('li', {}, note))));
}
end_page();
