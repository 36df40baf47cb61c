// What the page shows of requests that are served: rates, latencies, cache, money; lines over time; other loads.
'use strict';

const ms_text = (value) => seconds(value / 1e3);
const rate_text = (value, unit) => si(value, unit).trim();

// The share of requests that were answered as promised; null where nothing was.
const kept_share = (r) =>
    r.request_goodput === null || !r.request_throughput ? null : r.request_goodput / r.request_throughput;
const price_text = (r, kind) => r.usd_per_million_tokens ? '$' + digits(r.usd_per_million_tokens[kind], 3) : '–';

function promise_figure(r, layout) {
  const share = kept_share(r), percentile = Number(layout['serving.slo.percentile']);
  if (share === null) return figure('Promise', '–', 'give a time for the first or each token', null);
  const good = 100 * share >= percentile;
  return figure(
      'Promise kept', (100 * share).toFixed(1) + ' %',
      'of requests, ' + (good ? 'as promised: ' : 'less than promised: ') + percentile + ' %', null);
}

function served_figures(r, layout, versus) {
  const energy = r.energy_per_token_j, cache = r.kv_cache;
  return [
    figure(
        'Tokens per second', rate_text(r.output_throughput, ''),
        digits(r.output_tokens_per_s_per_gpu) + ' per GPU, written', versus((x) => x.output_throughput, true)),
    figure(
        'First token', ms_text(r.mean_ttft_ms), 'p99 ' + ms_text(r.p99_ttft_ms), versus((x) => x.mean_ttft_ms, false)),
    figure(
        'Each token', ms_text(r.mean_tpot_ms),
        'p99 ' + ms_text(r.p99_tpot_ms) + ', ' + digits(r.tokens_per_s_per_user, 3) + ' tokens/s a user',
        versus((x) => x.mean_tpot_ms, false)),
    promise_figure(r, layout),
    figure(
        'Requests per second', digits(r.request_throughput), grouped(r.completed) + ' requests',
        versus((x) => x.request_throughput, true)),
    figure(
        'Cache in use', cache.mean_used_pct.toFixed(1) + ' %',
        cache.peak_used_pct.toFixed(1) + ' % at most, ' + grouped(cache.preemptions) + ' preemptions', null),
    figure(
        'Per million tokens', price_text(r, 'output'),
        r.usd_per_million_tokens ? 'written; ' + price_text(r, 'input') + ' read' : 'give a price of a GPU',
        versus((x) => x.usd_per_million_tokens && x.usd_per_million_tokens.output, false)),
    figure(
        'Energy', energy ? digits(energy, 3) + ' J' : '–',
        energy ? 'a token written; ' + digits(energy / 3.6, 3) + ' kWh a million' : 'the device has no power model',
        versus((x) => x.energy_per_token_j, false)),
  ];
}

// Of the latencies of all requests.
function show_latencies(rows) {
  const titles = ['', 'mean', 'p50', 'p90', 'p95', 'p99'];
  place('latencies')
      .replaceChildren(plain_table(
          'latencies', titles, rows.map((row) => [row.name, ...titles.slice(1).map((key) => seconds(row[key]))])));
}

// A table that stands open, the first column its rows' names.
function plain_table(label, titles, rows) {
  return el(
      'div', {className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'table of ' + label},
      el('table', {},
         el('thead', {},
            el('tr', {},
               titles.map(
                   (title, i) =>
                       el(title ? 'th' : 'td', title ? {scope: 'col', className: i ? 'number' : ''} : {}, title)))),
         el('tbody', {},
            rows.map(
                (row) =>
                    el('tr', {},
                       row.map((cell, i) => el(i ? 'td' : 'th', i ? {className: 'number'} : {scope: 'row'}, cell)))))));
}

const under_way = new Live(
    'under-way', 'Requests that run and wait', () => 'requests that run and wait over time',
    () => under_way_config(state.answer.charts.timeline));
const cache_chart =
    new Live('cache', 'Cache in use', () => 'cache in use over time', () => cache_config(state.answer.charts.timeline));

function show_served(charts) {
  show_latencies(charts.latencies);
  const some = charts.timeline.filter((row, i, all) => i % Math.ceil(all.length / 60) === 0);
  const rows = some.map(([time, running, waiting]) => [seconds(time), running, waiting]);
  under_way.show({height: 220, legend: under_way_legend(), titles: ['time', 'running', 'waiting'], rows});
  const used = some.map(([time, , , share]) => [seconds(time), share.toFixed(1) + ' %']);
  cache_chart.show({height: 160, legend: '', titles: ['time', 'cache in use'], rows: used});
  clear_loads();
}

// The cache against what the engine takes of the device.
const cache_bars = ({memory: m}) => ({
  title: 'Memory of a GPU',
  caption: 'What weights, buffers and the cache take of the share of the device that the engine may have.',
  bars: [['a GPU that writes', {weights: m.weights_bytes, 'beside them': m.other_bytes, cache: m.cache_bytes}]],
  held: ['weights', 'beside them', 'cache'],
  limit: m.given_bytes,
  limit_name: 'what the engine may take'
});

function served_alarm(r) {
  const parts = [];
  if (r.refused > 0)
    parts.push(el('strong', {}, 'Refused: '), grouped(r.refused) + ' requests each need more than the whole cache. ');
  if (r.saturated) {
    parts.push(
        el('strong', {}, 'Saturated: '),
        'more comes than can be served, so that requests wait ever longer; latencies are those of this many requests ' +
            'alone. ');
  }
  if (r.lost > 0) parts.push(el('strong', {}, 'Lost: '), grouped(r.lost) + ' requests, with replicas that failed. ');
  return parts;
}

// ---- other loads ----
const kLoadFactors = [0.25, 0.5, 1, 2, 4, 8];
let loads = [], loads_asked = 0;

function clear_loads() {
  ++loads_asked;
  loads = [];
  if (place('load-rows')) place('load-rows').replaceChildren();
}

function load_sets() {
  const closed = traffic_kind() === 'closed loop', path = closed ? 'traffic.concurrency' : 'traffic.rate';
  const now = closed ? number_at(path) : in_unit(value_of(path), '/s');
  const values = kLoadFactors.map((factor) => closed ? Math.max(1, Math.round(now * factor)) : now * factor);
  return [...new Set(values)].map(
      (value) => closed ? [[path, String(value)], ['traffic.requests', String(10 * value)]] :
                          [[path, Number(value.toPrecision(4)) + '/s']]);
}

function load_row({sets, point}) {
  const value = sets[0][1], name = value.endsWith('/s') ? value : value + ' at a time';
  const use = el('button', {type: 'button', onclick: () => change_all(sets)}, 'Use');
  use.setAttribute('aria-label', 'Use ' + name);
  if (point.status !== 'ok') return [name, el('span', {className: 'bad'}, point.reason), '', '', '', '', '', '', ''];
  const kept = kept_share(point);
  return [
    name, rate_text(point.output_throughput, ''), digits(point.output_tokens_per_s_per_gpu),
    digits(point.tokens_per_s_per_user, 3), ms_text(point.p99_ttft_ms), ms_text(point.p99_tpot_ms),
    kept === null ? '–' : (100 * kept).toFixed(1) + ' %', price_text(point, 'output'),
    point.saturated ? el('span', {className: 'bad'}, 'saturated') : '', use
  ];
}

const load_chart_config = () => {
  const good = loads.filter(({point}) => point.status === 'ok');
  const line = (label, key, colour) => ({
    label,
    data: good.map(({point}) => ({x: point.output_tokens_per_s_per_gpu, y: point[key] / 1e3})),
    showLine: true,
    borderColor: kPalette[colour][0],
    backgroundColor: kPalette[colour][0],
    pointRadius: 4,
    pointStyle: colour ? 'rect' : 'circle'
  });
  return {
    type: 'scatter',
    data: {datasets: [line('first token, p99', 'p99_ttft_ms', 0), line('each token, p99', 'p99_tpot_ms', 1)]},
    options: {
      scales: {
        x: axis('tokens written a second and GPU', {min: 0}),
        y: axis('seconds', {type: 'logarithmic', ticks: log_ticks})
      }
    }
  };
};

function show_loads() {
  const titles = [
    'load', 'tokens/s', 'per GPU', 'per user', 'first token p99', 'each token p99', 'promise kept', '$ per M tokens',
    '', ''
  ];
  const box = el('div');
  place('load-rows').replaceChildren(box, plain_table('other loads', titles, loads.map(load_row)));
  if (loads.filter(({point}) => point.status === 'ok').length < 2) return;
  const before = redraws.length;
  add_chart(box, {
    title: 'Latency against throughput',
    label: 'the 99th percentile of the first and of each token against tokens a second and GPU',
    height: 240,
    legend: palette_legend([['first token, p99', 0], ['each token, p99', 1]]),
    config: load_chart_config
  });
  redraws.splice(before);  // it is made anew with the next row, and by the colours of the time
}

async function ask_loads(button) {
  clear_loads();
  const mine = loads_asked, request = request_of(state.sets);
  button.disabled = true;
  state.side = state.side || new_engine();
  for (const sets of load_sets()) {
    place('load-state').textContent = 'Simulating ' + sets[0][1] + ' ...';
    const {reply} = await state.side.ask({...request, do: 'points', points: [set_texts(sets)]});
    if (mine !== loads_asked) break;
    loads.push({sets, point: reply.points ? reply.points[0] : {status: 'error', reason: reply.error || reply.bug}});
    show_loads();
  }
  button.disabled = false;
  place('load-state').textContent = mine === loads_asked ? loads.length + ' loads simulated.' : '';
}

function build_loads() {
  const button = el('button', {type: 'button', id: 'loads'}, 'Try other loads');
  button.addEventListener('click', () => ask_loads(button));
  place('load').replaceChildren(
      button, ' ', el('span', {id: 'load-state', className: 'note', role: 'status'}), el('div', {id: 'load-rows'}));
}

const kServeKind = {
  name: 'Serve',
  command: 'serving',
  first: 'llama3.1-70b-serving-h100',
  controls: kServeControls,
  breakdown: {
    title: 'Where the GPUs\u2019 time goes',
    caption: 'Of all GPUs, from the first request to the last end.',
    parts: [
      ['compute', 'compute'], ['memory', 'memory'], ['communication', 'communication'], ['host', 'host'],
      ['padding', 'padding'], ['idle', 'idle']
    ],
    value: (r, key) => r.gpu_time_pct[key] || 0,
    total: () => 100,
    text: (value) => value.toFixed(1) + ' %',
    unit: '% of the GPUs\u2019 time',
    whole: 'all'
  },
  figures: served_figures,
  memory: cache_bars,
  alarm: served_alarm,
  spoken: (r) => digits(r.output_throughput, 3) + ' tokens a second, first token ' + ms_text(r.mean_ttft_ms) +
      ', each token ' + ms_text(r.mean_tpot_ms) + (r.saturated ? ', saturated' : ''),
  foot: (r) => rate_text(r.output_throughput, '') + ' tokens/s · TTFT ' + ms_text(r.mean_ttft_ms) + ' · TPOT ' +
      ms_text(r.mean_tpot_ms) + (r.saturated ? ': saturated' : ''),
  effort: (r) => grouped(r.completed) + ' requests, ' + grouped(r.iterations) + ' iterations, ' + time_taken(),
  short: (r) => rate_text(r.output_throughput, '') + ' tokens/s',
  show: show_served,
  columns: [
    ['Tokens/s', (r) => r.output_throughput, (v) => rate_text(v, ''), true],
    ['per GPU', (r) => r.output_tokens_per_s_per_gpu, (v) => digits(v), true],
    ['First token', (r) => r.mean_ttft_ms, ms_text, false],
    ['p99', (r) => r.p99_ttft_ms, ms_text, false],
    ['Each token', (r) => r.mean_tpot_ms, ms_text, false],
    ['p99', (r) => r.p99_tpot_ms, ms_text, false],
    [
      '$ per M written', (r) => r.usd_per_million_tokens && r.usd_per_million_tokens.output,
      (v) => v ? digits(v, 3) : '–', false
    ],
  ],
  csv: (r) => ['gpus', 'completed', 'request_throughput', 'request_goodput', 'output_throughput',
               'output_tokens_per_s_per_gpu', 'mean_ttft_ms', 'p99_ttft_ms', 'mean_tpot_ms', 'p99_tpot_ms', 'saturated',
               'energy_per_token_j']
                  .map((key) => [key, r[key] ?? ''])
                  .concat([['usd_per_million_tokens', (r.usd_per_million_tokens || {}).output ?? '']]),
  fits: () => true
};
