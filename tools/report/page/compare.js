// The report of systems side by side: what one step takes in each, and what makes the difference.
'use strict';

// In the order of the array that holds them.
const kCategories = [
  'compute', 'tensor comm', 'pipeline comm', 'data comm', 'context comm', 'expert comm', 'table comm', 'bubble',
  'waiting for partners', 'optimizer', 'slow GPU', 'host', 'other'
];
const kMemory = [['parameters', 0], ['gradients', 1], ['optimizer', 7], ['activations', 3], ['buffers', 6]];
const systems = data.systems;
const same_work = systems.every((s) => s.tokens_per_step === systems[0].tokens_per_step && s.gpus === systems[0].gpus);
// Steps of different sizes compare by what a token costs: GPU time per thousand tokens.
const share_of = (s, time) => same_work ? time : time * s.gpus / s.tokens_per_step * 1e3;
const measure = same_work ? 'time of a step' : 'GPU time per thousand tokens';
const kDrawn = 6;  // timelines
const largest = Math.max(...systems.map((s) => share_of(s, s.iteration_time_s || 0)));
const scale = largest < 1 ? [1e3, 'ms'] : [1, 's'];

function systems_section() {
  const place = section(
      'systems', 'Side by side',
      'Above 1 the target is better. What does not fit its memory has no ' +
          'step to compare.');
  const cell = (s, text) => s.oom ? 'OOM' : text;
  place.append(table([{title: ''}, ...systems.map((s) => ({title: s.name, number: true}))], [
    ['GPUs', ...systems.map((s) => grouped(s.gpus))],
    ['step time', ...systems.map((s) => cell(s, seconds(s.iteration_time_s)))],
    ['throughput', ...systems.map((s) => cell(s, si(s.tokens_per_s, 'tokens/s')))],
    ['per GPU', ...systems.map((s) => cell(s, si(s.tokens_per_s / s.gpus, 'tokens/s')))],
    ['MFU', ...systems.map((s) => cell(s, s.mfu_pct === null ? '' : s.mfu_pct.toFixed(1) + ' %'))],
    ['memory per GPU', ...systems.map((s) => (s.oom ? 'OOM, needs ' : '') + bytes(s.peak_bytes))],
    ['of the device\'s', ...systems.map((s) => bytes(s.capacity_bytes))],
  ]));
  place.append(
      el('h3', {}, 'Ratios'),
      table(
          [
            {title: 'target'}, {title: 'baseline'},
            ...data.pairs[0].ratios.map(([name]) => ({title: name, number: true}))
          ],
          data.pairs.map(
              (pair) =>
                  [systems[pair.target].name, systems[pair.baseline].name,
                   ...pair.ratios.map(
                       ([, value]) => value === null ?
                           'OOM' :
                           el('span', {className: value >= 1 ? 'good' : 'bad'}, value.toFixed(3)))])),
      el('ul', {className: 'plain'},
         data.pairs[0].ratios.map(([name, , meaning]) => el('li', {}, name + ': ' + meaning))));
  place.append(el('dl', {}, systems.flatMap((s) => [el('dt', {}, s.name), el('dd', {}, s.line)])));
}

function breakdown_section() {
  const place = section(
      'breakdown', 'Where the time goes',
      'Exposed time of the busiest rank, as ' + measure + '.' +
          (same_work ?
               '' :
               ' The systems differ in GPUs or in tokens per step, so each part is the GPU time that a thousand ' +
                   'tokens cost.'));
  const used = kCategories.map((name, i) => [name, i])
                   .filter(([, i]) => systems.some((s) => s.breakdown_s[i] > 1e-5 * s.iteration_time_s));
  add_chart(place, {
    title: measure,
    height: 60 + systems.length * 44,
    legend: palette_legend(used),
    config: () => ({
      type: 'bar',
      data: {
        labels: systems.map((s) => s.name + (s.oom ? ' (OOM)' : '')),
        datasets: used.map(([name, i]) => ({
                             label: name,
                             backgroundColor: paint(i),
                             maxBarThickness: 30,
                             data: systems.map((s) => s.oom ? 0 : share_of(s, s.breakdown_s[i]) * scale[0])
                           }))
      },
      options: {
        indexAxis: 'y',
        scales: {x: axis(scale[1], {stacked: true}), y: {stacked: true, grid: {display: false}}},
        plugins:
            {tooltip: {callbacks: {label: (item) => item.dataset.label + ': ' + digits(item.raw) + ' ' + scale[1]}}}
      }
    })
  });
}

function explain(target, baseline) {
  const parts =
      kCategories
          .map(
              (name,
               i) => [name, share_of(target, target.breakdown_s[i]) - share_of(baseline, baseline.breakdown_s[i]), i])
          .filter(([, d]) => Math.abs(d) > 1e-6 * largest);
  const total = share_of(target, target.iteration_time_s) - share_of(baseline, baseline.iteration_time_s);
  return {parts: parts.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])), total};
}

function difference_section() {
  const pairs = data.pairs.filter((p) => !systems[p.target].oom && !systems[p.baseline].oom);
  if (pairs.length === 0) return;
  const place = section(
      'difference', 'What makes the difference',
      'From the baseline to the target, part by part (' + measure +
          '): bars to the left are saved, to the right are added.');
  for (const pair of pairs.slice(0, 12)) {
    const target = systems[pair.target], baseline = systems[pair.baseline], {parts, total} = explain(target, baseline);
    const before = share_of(baseline, baseline.iteration_time_s) * scale[0];
    let at = before;
    const bars = [[baseline.name, [0, before], '#6b7280', 'solid']];
    for (const [name, change] of parts) {
      const next = at + change * scale[0];
      bars.push([name, [at, next], change < 0 ? '#1d9a74' : '#d55e00', change < 0 ? 'back' : 'diagonal']);
      at = next;
    }
    bars.push([target.name, [0, at], '#2f7fc1', 'solid']);
    add_chart(place, {
      title: target.name + ' instead of ' + baseline.name,
      height: 70 + bars.length * 26,
      legend: legend([['saved', '#1d9a74', 'back'], ['added', '#d55e00', 'diagonal']]),
      config: () => ({
        type: 'bar',
        data: {
          labels: bars.map(([name]) => name),
          datasets: [{
            data: bars.map(([, range]) => range),
            backgroundColor: bars.map(([, , c, p]) => fill(c, p).paint),
            maxBarThickness: 24
          }]
        },
        options: {
          indexAxis: 'y',
          scales: {x: axis(scale[1]), y: {grid: {display: false}}},
          plugins: {
            tooltip: {
              callbacks: {
                label: ({raw: [a, b], dataIndex: i}) =>
                    (i > 0 && i + 1 < bars.length && b >= a ? '+' : '') + digits(b - a) + ' ' + scale[1]
              }
            }
          }
        }
      })
    });
    const word = (change) => (change < 0 ? 'saves ' : 'adds ') + seconds(Math.abs(change), 3);
    place.append(
        el('p', {},
           target.name + ' takes ' + seconds(Math.abs(total), 3) + (total < 0 ? ' less' : ' more') + ' (' +
               percent(100 * total / share_of(baseline, baseline.iteration_time_s)) +
               '): ' + parts.slice(0, 4).map(([name, change]) => name + ' ' + word(change)).join(', ') + '.'));
  }
}

// The same time is the same width for all: what is shorter ends further left.
function timeline_section() {
  const drawn = systems.filter((s) => s.pipeline).slice(0, kDrawn);
  if (drawn.length === 0) return;
  const place = section(
      'timeline', 'The steps over time',
      'All on one axis' + (drawn.length < systems.length ? ', the first ' + drawn.length : '') +
          '. Drag to move, Ctrl or Shift and the wheel to zoom, double click for all; the pictures move together. ' +
          'Keys: + - 0 and arrows.');
  const range = new Range(0, Math.max(...drawn.map((s) => s.pipeline.span_s)));
  for (const s of drawn) {
    pipeline(place, range, s.pipeline, s.name + (s.oom ? ', which does not fit its memory' : ''));
    place.append(el('div', {className: 'gap'}));
  }
}

function memory_section() {
  const place = section(
      'memory', 'Memory and traffic',
      'Of a GPU: the fullest stage, and what the rank that calls most ' +
          'sends in a step.');
  const columns = el('div', {className: 'columns'});
  place.append(columns);
  add_chart(columns, {
    title: 'Memory per GPU',
    height: 70 + systems.length * 40,
    legend: legend(kMemory.map(([name, i]) => [name, ...kPalette[i]])),
    config: () => ({
      type: 'bar',
      data: {
        labels: systems.map((s) => s.name),
        datasets: kMemory.map(([name, look], i) => ({
                                label: name,
                                backgroundColor: paint(look),
                                data: systems.map((s) => s.memory_gb ? s.memory_gb[i] : 0),
                                maxBarThickness: 28
                              }))
      },
      options: {
        indexAxis: 'y',
        scales: {x: axis('GB', {stacked: true}), y: {stacked: true, grid: {display: false}}},
        plugins: {tooltip: {callbacks: {label: (item) => item.dataset.label + ': ' + digits(item.raw) + ' GB'}}}
      }
    })
  });
  const dimensions = [...new Set(systems.flatMap((s) => Object.keys(s.traffic_gb)))];
  const looks = {tensor: 1, pipeline: 2, data: 3, context: 4, expert: 5, embedding: 9, norm: 8};
  if (dimensions.length === 0) return;
  add_chart(columns, {
    title: 'Traffic per rank',
    height: 70 + systems.length * 40,
    legend: legend(dimensions.map((name) => [name, ...kPalette[looks[name] ?? 8]])),
    config: () => ({
      type: 'bar',
      data: {
        labels: systems.map((s) => s.name),
        datasets: dimensions.map((name) => ({
                                   label: name,
                                   backgroundColor: paint(looks[name] ?? 8),
                                   data: systems.map((s) => s.traffic_gb[name] || 0),
                                   maxBarThickness: 28
                                 }))
      },
      options: {
        indexAxis: 'y',
        scales: {x: axis('GB', {stacked: true}), y: {stacked: true, grid: {display: false}}},
        plugins: {tooltip: {callbacks: {label: (item) => item.dataset.label + ': ' + digits(item.raw) + ' GB'}}}
      }
    })
  });
}

function sources_section() {
  const place = section('assumptions', 'Assumptions and sources');
  for (const s of systems) {
    place.append(el('h3', {}, s.name));
    if (s.assumptions.length > 0)
      place.append(el('ul', {className: 'plain'}, s.assumptions.map((text) => el('li', {}, text))));
    place.append(
        el('dl', {},
           s.provenance.flatMap(
               ([what, name, text]) => [el('dt', {}, what + ' ' + name), el('dd', {}, text || 'not stated')])));
  }
}

begin_page();
systems_section();
breakdown_section();
difference_section();
timeline_section();
memory_section();
sources_section();
end_page();
