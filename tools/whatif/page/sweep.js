// Layouts simulated in the background, by engines of their own, so that sliders stay quick. Points come in as they are
// done. What does not fit or cannot run is counted.
'use strict';

const kSweepKeys = [
  ['parallelism.tensor', 'Tensor', () => union(powers(1, 8), number_at('parallelism.tensor'))],
  ['parallelism.pipeline', 'Pipeline', () => union(powers(1, 16), number_at('parallelism.pipeline'))],
  ['parallelism.virtual_pipeline', 'Virtual stages', () => union([1], number_at('parallelism.virtual_pipeline'))],
  ['batch.micro', 'Micro-batch', () => union([1, 2, 4], number_at('batch.micro'))],
  ['recompute', 'Recompute', () => [value_of('recompute')]],
];
const kSweepAxes = {
  memory: ['memory of a GPU in GB', (p) => p.peak_memory_gb],
  step: ['step in seconds', (p) => p.iteration_s],
  cost: ['$ per million tokens', (p) => p.usd_per_million_tokens],
};
const kSweepMost = 2000, kSweepChunk = 6;
const kSweepColours = ['#2f7fc1', '#e69f00', '#1d9a74', '#cc79a7', '#d55e00', '#6b7280', '#8c6bb1', '#d9c400'];

const sweep = {
  points: [],
  total: 0,
  done: 0,
  engines: [],
  chart: null,
  fields: new Map(),
  drawn: 0
};

// The lists that are typed: "1, 2, 4". Throws for an empty one.
function words_in(field) {
  const words = field.value.split(/[\s,]+/).filter(Boolean);
  if (words.length === 0) throw new Error(field.dataset.name + ': expected at least one value');
  return words;
}

// Every combination as sets. One stage has no virtual ones; the number of replicas and the usual schedule follow.
function sweep_points() {
  let points = [[]];
  for (const [path] of kSweepKeys) {
    const words = words_in(sweep.fields.get(path));
    points = points.flatMap((sets) => words.map((word) => [...sets, [path, word]]));
    if (points.length > kSweepMost)
      throw new Error('got ' + points.length + ' combinations, expected at most ' + kSweepMost);
  }
  const usual = ['1f1b', 'interleaved_1f1b'].includes(value_of('parallelism.schedule'));
  const keep = points.filter((sets) => {
    const at = Object.fromEntries(sets);
    return !(Number(at['parallelism.pipeline']) === 1 && Number(at['parallelism.virtual_pipeline']) > 1);
  });
  return keep.map(
      (sets) => [...sets, ['parallelism.data', 'null'], ...(usual ? [['parallelism.schedule', 'null']] : [])]);
}

// The points that no other beats on both axes, by the first.
function front_of(points, x, y) {
  const sorted = [...points].sort((a, b) => x(a) - x(b) || y(a) - y(b));
  const front = [];
  for (const point of sorted)
    if (front.length === 0 || y(point) < y(front[front.length - 1])) front.push(point);
  return front;
}

function sweep_axes() {
  const priced = sweep.points.some((p) => p.usd_per_million_tokens > 0);
  const wanted = place('sweep-axis').value;
  const x = kSweepAxes[wanted === 'cost' && priced ? 'cost' : 'memory'];
  return {x, y: kSweepAxes.step};
}

function sweep_config() {
  const {x, y} = sweep_axes(), good = sweep.points.filter((p) => p.status === 'ok' && x[1](p) > 0);
  const tensors = [...new Set(good.map((p) => p.at['parallelism.tensor']))].sort((a, b) => a - b);
  const styles = ['circle', 'triangle', 'rect', 'rectRot', 'star', 'cross'];
  const at = (p) => ({x: x[1](p), y: y[1](p), point: p});
  const datasets = tensors.map((tensor, i) => ({
                                 label: 'tensor ' + tensor,
                                 data: good.filter((p) => p.at['parallelism.tensor'] === tensor).map(at),
                                 backgroundColor: kSweepColours[i % kSweepColours.length],
                                 borderColor: kSweepColours[i % kSweepColours.length],
                                 pointStyle: styles[i % styles.length],
                                 pointRadius: 5,
                                 pointHoverRadius: 8,
                               }));
  datasets.push({
    label: 'not beaten',
    type: 'line',
    data: front_of(good, x[1], y[1]).map(at),
    borderColor: css('text'),
    borderWidth: 1.5,
    borderDash: [4, 3],
    pointRadius: 0,
    fill: false,
    stepped: 'before',
  });
  return {
    type: 'scatter',
    data: {datasets},
    options: {
      onClick: (event, found) => {
        const hit = found.find(({element}) => element.$context.raw.point);
        if (hit) use_point(hit.element.$context.raw.point);
      },
      scales: {x: axis(x[0]), y: axis(y[0])},
      plugins: {
        legend: {display: true, labels: {usePointStyle: true, color: css('text')}},
        tooltip: {callbacks: {label: (c) => point_text(c.raw.point)}},
      },
    },
  };
}

const point_name = (p) => kSweepKeys.map(([path, name]) => name.toLowerCase() + ' ' + p.at[path]).join(', ');
const point_text = (p) => point_name(p) + ': ' + seconds(p.iteration_s) + ', ' + digits(p.peak_memory_gb, 3) +
    ' GB, MFU ' + p.mfu_pct.toFixed(1) + ' %';
const use_point = (p) => change_all(p.sets);

function show_best() {
  const good = sweep.points.filter((p) => p.status === 'ok').sort((a, b) => a.iteration_s - b.iteration_s);
  if (good.length === 0) return place('sweep-best').replaceChildren();
  const titles = [...kSweepKeys.map(([, name]) => name), 'Step', 'Memory', 'MFU', ''];
  const rows = good.slice(0, 8).map((p) => {
    const use = el('button', {type: 'button', onclick: () => use_point(p)}, 'Use');
    use.setAttribute('aria-label', 'Use ' + point_name(p));
    const cells = [
      ...kSweepKeys.map(([path]) => p.at[path]), seconds(p.iteration_s), digits(p.peak_memory_gb, 3) + ' GB',
      p.mfu_pct.toFixed(1) + ' %'
    ];
    return el('tr', {}, cells.map((text) => el('td', {className: 'number'}, text)), el('td', {className: 'acts'}, use));
  });
  place('sweep-best')
      .replaceChildren(el(
          'div', {className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'the best points'},
          el('table', {}, el('caption', {}, 'The quickest that fit'),
             el('thead', {},
                el('tr', {}, titles.map((t) => el(t ? 'th' : 'td', t ? {scope: 'col', className: 'number'} : {}, t)))),
             el('tbody', {}, rows))));
}

function show_sweep(now) {
  if (!now && performance.now() - sweep.drawn < 250) return;
  sweep.drawn = performance.now();
  const count = (status) => sweep.points.filter((p) => p.status === status).length;
  place('sweep-progress').value = sweep.total ? sweep.done / sweep.total : 0;
  place('sweep-state').textContent = sweep.total === 0 ? '' :
                                                         sweep.done + ' of ' + sweep.total + ': ' + count('ok') +
          ' fit, ' + count('oom') + ' run out of memory, ' + count('infeasible') + ' cannot run';
  if (!sweep.chart) {
    sweep.chart = add_chart(
        place('sweep-chart'), {title: 'Points', label: 'points of the sweep', height: 320, config: sweep_config});
  } else {
    const next = sweep_config();
    sweep.chart.chart.data = next.data;
    sweep.chart.chart.options = next.options;
    sweep.chart.chart.update('none');
  }
  show_best();
  place('sweep-csv').disabled = sweep.points.length === 0;
}

function stop_sweep() {
  for (const engine of sweep.engines) engine.stop();
  sweep.engines = [];
  place('sweep-go').textContent = 'Start';
  if (sweep.total > 0) show_sweep(true);
}

// Points of another scenario than the one that is open would mislead.
function clear_sweep() {
  sweep.run = null;
  stop_sweep();
  Object.assign(sweep, {points: [], total: 0, done: 0, chart: null});
  for (const [, field] of sweep.fields) delete field.dataset.typed;
  for (const id of ['sweep-chart', 'sweep-best', 'sweep-state']) place(id).replaceChildren();
  Object.assign(place('sweep-progress'), {value: 0});
  place('sweep-csv').disabled = true;
}

// One engine takes chunks until there are none.
async function sweep_with(engine, run, rest) {
  while (rest.length > 0 && sweep.run === run) {
    const chunk = rest.splice(0, kSweepChunk);
    const {reply} = await engine.ask({...run.request, do: 'points', points: chunk.map(set_texts)});
    if (sweep.run !== run) return;
    sweep.done += chunk.length;
    for (const [i, point] of (reply.points || []).entries()) {
      sweep.points.push({...point, sets: chunk[i], at: Object.fromEntries(chunk[i])});
    }
    if (!reply.points) place('sweep-state').textContent = reply.error || reply.bug;
    show_sweep(false);
  }
}

async function start_sweep() {
  let rest;
  try {
    rest = sweep_points();
  } catch (error) {
    place('sweep-state').textContent = error.message;
    return;
  }
  Object.assign(sweep, {points: [], total: rest.length, done: 0, run: {request: request_of(state.sets)}});
  const run = sweep.run, cores = navigator.hardwareConcurrency || 2;
  sweep.engines = Array.from({length: Math.max(1, Math.min(4, cores - 1))}, new_engine);
  place('sweep-go').textContent = 'Stop';
  show_sweep(true);
  await Promise.all(sweep.engines.map((engine) => sweep_with(engine, run, rest)));
  if (sweep.run === run) stop_sweep();
}

function sweep_csv() {
  const titles = [
    ...kSweepKeys.map(([path]) => path), 'status', 'iteration_s', 'tokens_per_s', 'mfu_pct', 'peak_memory_gb',
    'usd_per_million_tokens', 'reason'
  ];
  const cell = (value) => value === null || value === undefined ? '' : value;
  return csv_text([
    titles,
    ...sweep.points.map(
        (p) => [...kSweepKeys.map(([path]) => p.at[path]), ...titles.slice(kSweepKeys.length).map((t) => cell(p[t]))])
  ]);
}

// The lists begin with what the scenario has; what was typed stays.
function show_sweep_lists() {
  for (const [path, , values] of kSweepKeys) {
    const field = sweep.fields.get(path);
    if (!field.dataset.typed) field.value = values().join(', ');
  }
}

function build_sweep() {
  const fields = kSweepKeys.map(([path, name]) => {
    const field =
        el('input', {type: 'text', id: 'sweep-' + path.replaceAll('.', '-'), dataset: {name}, spellcheck: false});
    field.addEventListener('input', () => field.dataset.typed = 'yes');
    sweep.fields.set(path, field);
    return el('label', {className: 'stack'}, name, field);
  });
  const axes =
      el('select', {id: 'sweep-axis'}, el('option', {value: 'memory'}, 'memory'),
         el('option', {value: 'cost'}, 'cost'));
  axes.addEventListener('change', () => sweep.total > 0 && show_sweep(true));
  const go = el('button', {type: 'button', id: 'sweep-go', className: 'primary'}, 'Start');
  go.addEventListener('click', () => {
    if (sweep.engines.length === 0) return start_sweep();
    sweep.run = null;
    stop_sweep();
  });
  const csv = el('button', {type: 'button', id: 'sweep-csv', disabled: true}, 'CSV');
  csv.addEventListener('click', () => save('sweep.csv', 'text/csv', sweep_csv()));
  place('sweep').replaceChildren(
      el('div', {className: 'lists'}, fields, el('label', {className: 'stack'}, 'Time against', axes)),
      el('div', {className: 'controls'}, go, csv,
         el('progress', {id: 'sweep-progress', value: 0, 'aria-label': 'progress of the sweep'}),
         el('span', {id: 'sweep-state', role: 'status'})),
      el('div', {id: 'sweep-chart'}), el('div', {id: 'sweep-best'}));
}
