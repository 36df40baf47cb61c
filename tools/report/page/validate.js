// The report of predictions beside measurements.
'use strict';

const rows = data.rows, compared = rows.filter((row) => row.error !== null);
const lists = data.lists, number_of = new Map(lists.map((list, i) => [list.list, i]));
const kBands = [5, 10, 20];

function summary_section() {
  const place = section(
      'summary', 'By source',
      'Errors are (predicted - measured) / measured. Fitted rows took part in ' +
          'fitting a device, a fabric or a software generation.');
  const line = (name, s) =>
      [name, grouped(s.n), s.mape_pct.toFixed(2) + ' %', s.median_ape_pct.toFixed(2) + ' %',
       s.max_ape_pct.toFixed(1) + ' %', percent(s.bias_pct), grouped(s.fitted), grouped(s.oom), grouped(s.errors)];
  place.append(table(
      [
        {title: 'list'}, {title: 'rows', number: true}, {title: 'mean |error|', number: true},
        {title: 'median', number: true}, {title: 'largest', number: true}, {title: 'bias', number: true},
        {title: 'fitted', number: true}, {title: 'predicted not to fit', number: true}, {title: 'errors', number: true}
      ],
      [
        ...lists.map((s) => line(s.list, s)), line('all', data.all),
        ...(data.unfitted.rows < data.all.rows ? [line('all but fitted rows', data.unfitted)] : [])
      ]));
}

// Bands of 5, 10 and 20 % behind the points.
const bands = {
  id: 'bands',
  beforeDatasetsDraw: (chart) => {
    const {left, right, top, bottom} = chart.chartArea, c = chart.ctx, y = chart.scales.y;
    c.save();
    c.beginPath();
    c.rect(left, top, right - left, bottom - top);
    c.clip();
    for (const band of [...kBands].reverse()) {
      const high = y.getPixelForValue(band), low = y.getPixelForValue(-band);
      c.fillStyle = css('good');
      c.globalAlpha = 0.07;
      c.fillRect(left, high, right - left, low - high);
    }
    c.restore();
  }
};

// The same place for the same row, whenever it is drawn.
const jitter = (i) => ((i * 0.618034) % 1 - 0.5) * 0.6;

function sets(points) {  // not fitted: filled; fitted: hollow
  return [
    ['left out of all fits', (p) => !p.row.fitted, 'circle', '#2f7fc1b0', '#2f7fc1'],
    ['fitted', (p) => p.row.fitted, 'rectRot', '#00000000', '#d55e00']
  ].map(([label, test, pointStyle, inside, edge]) => ({
          label,
          data: points.filter(test),
          pointStyle,
          backgroundColor: inside,
          borderColor: edge,
          borderWidth: 1.5,
          pointRadius: 4.5,
          pointHoverRadius: 7
        }));
}
const marks = () =>
    el('div', {className: 'legend'}, el('span', {}, sign('●', '#2f7fc1'), ' left out of all fits'),
       el('span', {}, sign('◇', '#d55e00'), ' fitted'));
const told = ({raw: {row}}) =>
    [row.id, row.list, row.metric + ': measured ' + digits(row.measured) + ', predicted ' + digits(row.predicted),
     'error ' + percent(row.error) + (row.fitted ? ', fitted' : '')];

function error_section() {
  const place = section(
      'errors', 'Errors', 'Every row, in the column of its list. The bands are 5, 10 and 20 % wide on both sides.');
  const most = Math.ceil(Math.min(100, Math.max(24, ...compared.map((row) => Math.abs(row.error)))) / 10 + 0.2) * 10;
  const points = compared.map((row, i) => ({x: number_of.get(row.list) + jitter(i), y: row.error, row}));
  add_chart(place, {
    title: 'Error by list',
    height: 460,
    zooms: true,
    legend: marks(),
    config: () => ({
      type: 'scatter',
      plugins: [bands],
      data: {datasets: sets(points)},
      options: {
        scales: {
          x: {
            type: 'linear',
            min: -0.6,
            max: lists.length - 0.4,
            grid: {display: false},
            afterBuildTicks: (scale) => scale.ticks = lists.map((_, i) => ({value: i})),
            ticks: {
              autoSkip: false,
              maxRotation: 60,
              minRotation: 35,
              callback: (value) => lists[value] ?
                  (lists[value].list.length > 24 ? lists[value].list.slice(0, 22) + '..' : lists[value].list) :
                  ''
            }
          },
          y: axis('error, %', {min: -most, max: most})
        },
        plugins: {tooltip: {callbacks: {label: told}}}
      }
    })
  });
}

function scatter_section() {
  const metrics = [...new Set(compared.map((row) => row.metric))].filter(
      (metric) => compared.filter((row) => row.metric === metric).length > 2);
  if (metrics.length === 0) return;
  const place = section(
      'scatter', 'Predicted against measured',
      'On the line the prediction is the measurement; dashed ' +
          'lines are 20 % off.');
  const units = {
    iteration_s: 'step time, s',
    tokens_per_s: 'throughput, tokens/s',
    tflops_per_gpu: 'TFLOP/s per GPU',
    mfu_pct: 'MFU, %'
  };
  const columns = el('div', {className: 'columns'});
  place.append(columns);
  for (const metric of metrics) {
    const points = compared.filter((row) => row.metric === metric && row.measured > 0 && row.predicted > 0)
                       .map((row) => ({x: row.measured, y: row.predicted, row}));
    const low = Math.min(...points.flatMap((p) => [p.x, p.y])) * 0.8,
          high = Math.max(...points.flatMap((p) => [p.x, p.y])) * 1.25;
    const line = (factor, dash) => ({
      type: 'line',
      data: [{x: low, y: low * factor}, {x: high, y: high * factor}],
      borderColor: css('faint'),
      borderDash: dash,
      borderWidth: 1.2,
      pointRadius: 0,
      pointHitRadius: 0,
      order: 9
    });
    const name = units[metric] || metric;
    add_chart(columns, {
      title: name + ' (' + points.length + ' rows)',
      height: 400,
      zooms: true,
      legend: marks(),
      config: () => ({
        type: 'scatter',
        data: {datasets: [...sets(points), line(1, []), line(1.2, [5, 4]), line(1 / 1.2, [5, 4])]},
        options: {
          scales: {
            x: axis('measured ' + name, {type: 'logarithmic', min: low, max: high, ticks: log_ticks}),
            y: axis('predicted ' + name, {type: 'logarithmic', min: low, max: high, ticks: log_ticks})
          },
          plugins: {tooltip: {filter: (item) => item.raw.row, callbacks: {label: told}}}
        }
      })
    });
  }
}

function table_section() {
  const place = section('rows', 'All rows');
  const text = (v) => v === null ? '-' : digits(v);
  grid(place, {
    count: rows.length,
    front: (i) => rows[i].fitted,
    columns: [
      {title: 'list', width: 200, value: (i) => rows[i].list, text: (i) => rows[i].list},
      {title: 'id', width: 320, value: (i) => rows[i].id, text: (i) => rows[i].id},
      {title: 'metric', width: 120, value: (i) => rows[i].metric, text: (i) => rows[i].metric || '-'}, {
        title: 'measured',
        width: 100,
        number: true,
        value: (i) => rows[i].measured,
        text: (i) => text(rows[i].measured)
      },
      {
        title: 'predicted',
        width: 100,
        number: true,
        value: (i) => rows[i].predicted,
        text: (i) => text(rows[i].predicted)
      },
      {
        title: 'error, %',
        width: 90,
        number: true,
        value: (i) => rows[i].error,
        text: (i) => rows[i].error === null ? '-' : (rows[i].error > 0 ? '+' : '') + rows[i].error.toFixed(2)
      },
      {
        title: 'memory measured, GB',
        width: 170,
        number: true,
        value: (i) => rows[i].memory ? rows[i].memory[0] : null,
        text: (i) => rows[i].memory ? digits(rows[i].memory[0]) : '-'
      },
      {
        title: 'memory predicted, GB',
        width: 170,
        number: true,
        value: (i) => rows[i].memory ? rows[i].memory[1] : null,
        text: (i) => rows[i].memory ? digits(rows[i].memory[1]) : '-'
      },
      {
        title: 'status',
        width: 120,
        value: (i) => rows[i].status,
        text: (i) => rows[i].status + (rows[i].fitted ? ', fitted' : '')
      },
      {title: 'message', width: 500, value: (i) => rows[i].message || '', text: (i) => rows[i].message || ''}
    ]
  });
}

begin_page();
tiles([
  ['rows', grouped(data.all.n) + ' of ' + grouped(data.records), 'with a figure to compare'],
  ['mean |error|', data.all.mape_pct.toFixed(2) + ' %', 'median ' + data.all.median_ape_pct.toFixed(2) + ' %'],
  [
    'left out of all fits', data.unfitted.mape_pct.toFixed(2) + ' %',
    'mean |error| of ' + grouped(data.unfitted.n) + ' rows'
  ],
  ['bias', percent(data.all.bias_pct), 'mean error'], ['fitted rows', grouped(data.all.fitted), ''],
  [
    'within 10 %',
    (100 * compared.filter((row) => Math.abs(row.error) <= 10).length / Math.max(1, compared.length)).toFixed(0) + ' %',
    'of the rows'
  ]
]);
summary_section();
error_section();
scatter_section();
table_section();
end_page();
