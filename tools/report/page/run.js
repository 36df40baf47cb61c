// The report of one training step.
'use strict';

// In the order of the array that holds them.
const kCategories = [
  'compute', 'tensor comm', 'pipeline comm', 'data comm', 'context comm', 'expert comm', 'table comm', 'bubble',
  'waiting for partners', 'optimizer', 'slow GPU', 'host', 'other'
];
const kMemory = [['parameters', 0], ['gradients', 1], ['optimizer', 7], ['activations', 3], ['buffers', 6]];

/// What does not fit stands above everything, with the ways out.
function shortage_banner() {
  if (data.fits) return;
  const banner = el(
      'div', {className: 'banner', role: 'alert', id: 'shortage'}, el('strong', {}, 'Out of memory. '),
      data.shortage + '. The step below is what it would take if it did fit. ' +
          (data.would_fit.length > 0 ? 'Ways out, each tried:' :
                                       'No single change and no combination tried would make it fit.'));
  if (data.would_fit.length > 0) {
    banner.append(
        table([{title: 'change'}, {title: 'memory', number: true}], data.would_fit.map((way) => [way.set, way.peak])));
  }
  page.append(banner);
}

function measured_section() {
  if (data.measured.length === 0) return;
  const place = section('measured', 'Measured', 'Prediction beside what the record says was measured.');
  place.append(table(
      [
        {title: ''}, {title: 'measured', number: true}, {title: 'predicted', number: true},
        {title: 'error', number: true}
      ],
      data.measured.map((row) => {
        const text = (v) => typeof v === 'boolean' ? (v ? 'yes' : 'no') :
            row.unit === 'tokens/s'                ? si(v, row.unit) :
                                                     digits(v) + ' ' + row.unit;
        const size = Math.abs(row.error_pct);
        return [
          row.name, text(row.measured), text(row.predicted),
          row.error_pct === null || row.error_pct === undefined ?
              '' :
              el('span',
                 {className: size <= 5 ? 'good' :
                      size > 10        ? 'bad' :
                                         ''},
                 percent(row.error_pct))
        ];
      })));
  if (data.source) place.append(el('p', {className: 'caption'}, 'Source: ' + data.source));
  if (data.notes) place.append(el('p', {className: 'caption'}, data.notes));
}

function breakdown_section() {
  const place = section(
      'breakdown', 'Where the step goes',
      'Exposed time of the busiest rank of every stage: what overlaps with compute is not seen here. Each bar adds up ' +
          'to the step.');
  const used = kCategories.map((name, i) => [name, i])
                   .filter(([, i]) => data.stages.some((s) => s.breakdown_s[i] > 1e-5 * data.iteration_s));
  const scale = data.iteration_s < 1 ? [1e3, 'ms'] : [1, 's'];
  add_chart(place, {
    title: 'Exposed time per stage',
    height: 46 + Math.max(3, data.stages.length) * 26,
    legend: palette_legend(used),
    config: () => ({
      type: 'bar',
      data: {
        labels: data.stages.map((s) => 'stage ' + s.stage),
        datasets: used.map(([name, i]) => ({
                             label: name,
                             data: data.stages.map((s) => s.breakdown_s[i] * scale[0]),
                             backgroundColor: paint(i),
                             maxBarThickness: 26
                           }))
      },
      options: {
        indexAxis: 'y',
        scales: {
          x: axis('time, ' + scale[1], {stacked: true, max: data.iteration_s * scale[0]}),
          y: {stacked: true, grid: {display: false}}
        },
        plugins: {
          tooltip: {
            callbacks: {
              label: (item) => item.dataset.label + ': ' + seconds(item.raw / scale[0]) + ', ' +
                  (100 * item.raw / scale[0] / data.iteration_s).toFixed(1) + ' %'
            }
          }
        }
      }
    })
  });
  const shown = data.stages.length <= 16 ?
      data.stages :
      [data.stages[0], data.stages[Math.floor(data.stages.length / 2)], data.stages[data.stages.length - 1]];
  place.append(table(
      [{title: 'share of the step'}, ...shown.map((s) => ({title: 'stage ' + s.stage, number: true}))],
      used.map(
          ([name, i]) => [name, ...shown.map((s) => (100 * s.breakdown_s[i] / data.iteration_s).toFixed(1) + ' %')])));
}

function timeline_section() {
  const place = section(
      'timeline', 'The step over time',
      'Drag to move, Ctrl or Shift and the wheel to zoom, double click for the whole step; the three pictures move ' +
          'together. Keys: + - 0 and arrows.');
  const range = new Range(0, data.span_s);
  pipeline(place, range);
  place.append(el('div', {className: 'gap'}));
  memory_over_time(place, range);
  if (data.links.length > 0) {
    place.append(el('div', {className: 'gap'}));
    link_load(place, range);
  }
}

function memory_section() {
  const place = section(
      'memory', 'Memory per stage',
      'Bytes of a GPU at its fullest moment, and what the device has.' + (data.fits ? '' : ' This does not fit.'));
  const limit = {
    id: 'limit',
    afterDraw: (chart) => {
      const x = chart.scales.x.getPixelForValue(data.capacity_gb), {top, bottom} = chart.chartArea, c = chart.ctx;
      c.save();
      c.strokeStyle = '#c5372c';
      c.lineWidth = 2;
      c.setLineDash([8, 4]);
      c.beginPath();
      c.moveTo(x, top);
      c.lineTo(x, bottom);
      c.stroke();
      c.restore();
    }
  };
  add_chart(place, {
    title: 'Fullest moment of each stage',
    height: 46 + Math.max(3, data.stages.length) * 26,
    legend: el('div', {}, legend([
                 ...kMemory.map(([name, i]) => [name, ...kPalette[i]]),
                 ['limit of the device, ' + digits(data.capacity_gb) + ' GB', '#c5372c', 'horizontal']
               ])),
    config: () => ({
      type: 'bar',
      plugins: [limit],
      data: {
        labels: data.stages.map((s) => 'stage ' + s.stage),
        datasets: kMemory.map(([name, look], i) => ({
                                label: name,
                                data: data.stages.map((s) => s.memory_gb[i]),
                                backgroundColor: paint(look),
                                maxBarThickness: 26
                              }))
      },
      options: {
        indexAxis: 'y',
        scales: {
          x: axis('GB per GPU', {stacked: true, suggestedMax: data.capacity_gb * 1.04}),
          y: {stacked: true, grid: {display: false}}
        },
        plugins: {tooltip: {callbacks: {label: (item) => item.dataset.label + ': ' + digits(item.raw) + ' GB'}}}
      }
    })
  });
}

function traffic_section() {
  if (data.traffic.length === 0) return;
  const place = section('traffic', 'Traffic', 'What one step moves. Bytes per rank are of the rank that calls most.');
  const columns = el('div', {className: 'columns'});
  place.append(columns);
  const add = (title, rows, unit) => {
    const most = Math.max(...rows.map(([, value]) => value));
    const scale = [[1e15, 'PB'], [1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1, 'B']].find(([f]) => most >= f) || [1, 'B'];
    add_chart(columns, {
      title,
      height: 60 + rows.length * 28,
      config: () => ({
        type: 'bar',
        data: {
          labels: rows.map(([name]) => name),
          datasets: [{
            data: rows.map(([, value]) => value / scale[0]),
            backgroundColor: rows.map(([, , look]) => paint(look)),
            maxBarThickness: 22
          }]
        },
        options: {
          indexAxis: 'y',
          scales: {x: axis(scale[1] + ' ' + unit), y: {grid: {display: false}}},
          plugins: {tooltip: {callbacks: {label: (item) => bytes(item.raw * scale[0])}}}
        }
      })
    });
  };
  const looks = {tensor: 1, pipeline: 2, data: 3, context: 4, expert: 5, embedding: 9, norm: 8};
  const per_dimension = new Map();
  for (const row of data.traffic)
    per_dimension.set(row.dimension, (per_dimension.get(row.dimension) || 0) + row.bytes_per_rank);
  add('By dimension', [...per_dimension].map(([name, value]) => [name, value, looks[name] ?? 8]), 'per rank and step');
  if (data.tiers.length > 0)
    add('By highest network tier', data.tiers.map(({tier, bytes: value}, i) => [tier, value, i]), 'of all ranks');
  if (data.links.length > 0) {
    place.append(
        el('h3', {}, 'Busiest links'),
        table(
            [
              {title: 'link'}, {title: 'tier'}, {title: 'capacity', number: true},
              {title: 'moved per step', number: true}, {title: 'busy', number: true},
              {title: 'of what it could move', number: true}
            ],
            data.links.map(
                (link) =>
                    [link.name, link.tier, digits(link.capacity_gbs) + ' GB/s', bytes(link.gb * 1e9),
                     (100 * link.busy_s / data.iteration_s).toFixed(1) + ' %',
                     (100 * link.gb / link.capacity_gbs / data.iteration_s).toFixed(1) + ' %'])),
        el('p', {className: 'caption'},
           'One link of each kind of load, one direction; the others of its kind carry the ' +
               'same. Links that can never be the bottleneck are left out.'));
  }
  place.append(
      el('h3', {}, 'All traffic'),
      table(
          [
            {title: 'dimension'}, {title: 'operation'}, {title: 'what'}, {title: 'group', number: true},
            {title: 'level'}, {title: 'calls', number: true}, {title: 'per call', number: true},
            {title: 'per rank', number: true}
          ],
          data.traffic.map(
              (row) =>
                  [row.dimension, row.operation, row.what, grouped(row.group), row.level, grouped(row.calls),
                   bytes(row.bytes_per_call), bytes(row.bytes_per_rank)])));
}

function roofline_section() {
  const kernels = data.kernels.filter((k) => k.bytes > 0 && k.seconds > 0);
  if (kernels.length === 0) return;
  const place = section(
      'kernels', 'Kernels on the roofline',
      'Every kernel by its FLOPs per byte of memory traffic (operands and results once) and the rate that it reaches; ' +
          'the larger a mark, the more of the step. The lines are the ceilings of the ' + data.device.name +
          '\'s data ' +
          'sheet. Kernels without matrix products stand at half an operation per byte, to show their bandwidth; those too ' +
          'small to reach any lie below the picture.');
  const all = kernels.reduce((sum, k) => sum + k.seconds, 0);
  const points = (test) => kernels.filter(test).map((k) => {
    const flops = k.flops > 0 ? k.flops : k.bytes / 2, time = k.seconds / k.count;
    return {x: flops / k.bytes, y: flops / time / 1e12, k, share: k.seconds / all};
  });
  const groups =
      [
        ['matrix product', (k) => k.flops > 0 && !k.name.includes('attention'), '#2f7fc1', 'circle'],
        ['attention', (k) => k.flops > 0 && k.name.includes('attention'), '#1d9a74', 'triangle'],
        ['bound by memory', (k) => k.flops === 0, '#d55e00', 'rectRot']
      ].map(([name, test, ...look]) => [name, points(test), ...look])
          .filter(([, list]) => list.length > 0);
  const every = groups.flatMap(([, list]) => list), peaks = Object.entries(data.device.peaks);
  const lowest = Math.min(0.25, ...every.map((p) => p.x)) / 1.5,
        farthest = Math.max(4096, ...every.map((p) => p.x)) * 1.5;
  const least = Math.max(0.1, Math.min(...every.filter((p) => p.share > 2e-4).map((p) => p.y)));  // TFLOP/s
  const roofs = peaks.map(([type, peak], i) => ({
                            type: 'line',
                            label: type + ' peak, ' + digits(peak / 1e12, 3) + ' TFLOP/s',
                            data: [lowest, peak / data.device.bandwidth, farthest].map(
                                (x) => ({x, y: Math.min(peak, x * data.device.bandwidth) / 1e12})),
                            borderColor: css('faint'),
                            borderWidth: 1.6,
                            borderDash: i > 0 ? [6, 4] : [],
                            pointRadius: 0,
                            pointHitRadius: 0,
                            order: 9
                          }));
  const marks =
      el('div', {className: 'legend'},
         groups.map(
             ([name, , colour, shape]) =>
                 el('span', {}, sign({circle: '●', triangle: '▲', rectRot: '◆'}[shape], colour), ' ' + name)),
         peaks.map(
             ([type, peak], i) =>
                 el('span', {}, (i > 0 ? '- - ' : '── ') + type + ' peak ' + digits(peak / 1e12, 3) + ' TFLOP/s')),
         el('span', {}, '╱ memory ' + digits(data.device.bandwidth / 1e12, 3) + ' TB/s'));
  add_chart(place, {
    title: 'Roofline',
    height: 430,
    zooms: true,
    legend: marks,
    config: () => ({
      type: 'scatter',
      data: {
        datasets: [
          ...groups.map(([name, list, colour, shape]) => ({
                          label: name,
                          data: list,
                          backgroundColor: colour + 'b0',
                          borderColor: colour,
                          pointStyle: shape,
                          pointRadius: list.map((p) => 4 + 16 * Math.sqrt(p.share)),
                          pointHoverRadius: list.map((p) => 5 + 16 * Math.sqrt(p.share))
                        })),
          ...roofs.map((roof) => ({...roof, borderColor: css('faint')}))
        ]
      },
      options: {
        scales: {
          x: axis(
              'FLOPs per byte of memory traffic', {type: 'logarithmic', min: lowest, max: farthest, ticks: log_ticks}),
          y: axis('TFLOP/s', {type: 'logarithmic', min: least / 2, ticks: log_ticks})
        },
        plugins: {
          tooltip: {
            filter: (item) => item.raw.k,
            callbacks: {
              label: ({raw: {k, y, share}}) =>
                  [k.name + ' (' + k.type + ')',
                   seconds(k.seconds / k.count) + ' each, ' + (100 * share).toFixed(1) + ' % of kernel time',
                   k.flops > 0 ? digits(y) + ' TFLOP/s, ' +
                           (100 * y * 1e12 / (data.device.peaks[k.type] || peaks[0][1])).toFixed(0) + ' % of peak' :
                                 bytes(k.bytes / k.seconds * k.count) + '/s, ' +
                           (100 * k.bytes / k.seconds * k.count / data.device.bandwidth).toFixed(0) + ' % of peak']
            }
          }
        }
      }
    })
  });
  const list = [...kernels].sort((a, b) => b.seconds - a.seconds);
  const reached = (k) => k.flops > 0 ? k.flops * k.count / k.seconds / (data.device.peaks[k.type] || peaks[0][1]) :
                                       k.bytes * k.count / k.seconds / data.device.bandwidth;
  grid(place, {
    count: list.length,
    sort: [2, -1],
    columns: [
      {title: 'kernel', width: 300, value: (i) => list[i].name, text: (i) => list[i].name},
      {title: 'calls', width: 90, number: true, value: (i) => list[i].count, text: (i) => grouped(list[i].count)}, {
        title: 'share of kernel time, %',
        width: 200,
        number: true,
        value: (i) => 100 * list[i].seconds / all,
        text: (i) => (100 * list[i].seconds / all).toFixed(2)
      },
      {
        title: 'time each, us',
        width: 120,
        number: true,
        value: (i) => 1e6 * list[i].seconds / list[i].count,
        text: (i) => digits(1e6 * list[i].seconds / list[i].count)
      },
      {
        title: 'GFLOP each',
        width: 110,
        number: true,
        value: (i) => list[i].flops / 1e9,
        text: (i) => list[i].flops > 0 ? digits(list[i].flops / 1e9) : '-'
      },
      {
        title: 'MB each',
        width: 100,
        number: true,
        value: (i) => list[i].bytes / 1e6,
        text: (i) => digits(list[i].bytes / 1e6)
      },
      {
        title: 'of its ceiling, %',
        width: 130,
        number: true,
        value: (i) => 100 * reached(list[i]),
        text: (i) => (100 * reached(list[i])).toFixed(1)
      }
    ]
  });
}

function assumptions_section() {
  const place = section(
      'assumptions', 'Assumptions and sources',
      'What was taken for what the scenario leaves open, and ' +
          'where the numbers of the device, the network and the training software come from.');
  if (data.assumptions.length > 0)
    place.append(el('ul', {className: 'plain'}, data.assumptions.map((text) => el('li', {}, text))));
  place.append(
      el('dl', {},
         data.provenance.flatMap(
             ([what, name, text]) => [el('dt', {}, what + ' ' + name), el('dd', {}, text || 'not stated')])));
}

function scenario_section() {
  const place = section('scenario', 'The scenario', 'Save it as a file and simulate it again: orrery run FILE.');
  const text = el('pre', {tabIndex: 0}, data.scenario), said = el('span', {className: 'note'});
  const copy = () => {
    const select = () => {
      getSelection().selectAllChildren(text);
      said.textContent = document.execCommand('copy') ? 'copied' : 'selected; copy it with the keyboard';
    };
    if (navigator.clipboard)
      navigator.clipboard.writeText(data.scenario).then(() => said.textContent = 'copied', select);
    else
      select();
  };
  place.append(el('div', {className: 'controls'}, el('button', {type: 'button', onclick: copy}, 'Copy'), said), text);
}

begin_page();
shortage_banner();
tiles(data.facts);
advice_section();
explain_section();
measured_section();
breakdown_section();
timeline_section();
memory_section();
rank_map_section();
rank_picture_section();
rank_grid_section();
traffic_section();
roofline_section();
assumptions_section();
scenario_section();
end_page();
