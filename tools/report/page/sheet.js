// The report of commands whose answer is a few tables: sections of a table, a chart or text, in the order given.
'use strict';

const id_of = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, '-');

// Rows are lists of cells, or a text over the whole width.
function sheet_table(columns, rows) {
  const cell = (tag, text, column) => el(tag, {className: column.number ? 'number' : ''}, text);
  return el(
      'div', {className: 'scroll', tabIndex: 0},
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

begin_page();
if (data.facts.length) tiles(data.facts);
for (const part of data.sections) {
  const place = section(id_of(part.title), part.title, part.caption);
  if (part.columns) place.append(sheet_table(part.columns, part.rows));
  if (part.chart) sheet_chart(place, part.chart);
  if (part.text) place.append(el('pre', {tabIndex: 0}, part.text));
  if (part.notes && part.notes.length) place.append(el('ul', {}, part.notes.map((note) => el('li', {}, note))));
}
end_page();
