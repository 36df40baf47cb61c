// What came of the last request: figures, parts, memory, the pipeline over time, what was assumed. What differs by the
// kind of question stands in kinds.js. Each chart has its numbers as a table too, for those who cannot see it.
'use strict';

const kHeld = ['parameters', 'gradients', 'optimizer', 'activations', 'buffers'];

const place = (id) => document.getElementById(id);
const dollars = (value) => '$' + (value >= 100 ? Math.round(value).toLocaleString('en') : digits(value, 3));

// What a step costs by the price of a GPU and hour; null without one.
function cost_of(result, layout) {
  const price = Number(layout && layout['cost.price_per_gpu_hour_usd']) || 0;
  return price > 0 ? price * result.gpus * result.iteration_time_s / 3600 : null;
}

// "-6.0 %", and whether that is better; empty for no difference that is seen.
function change_text(value, against, more_is_better) {
  if (!against || !Number.isFinite(value / against)) return null;
  const pct = 100 * (value / against - 1);
  if (Math.abs(pct) < 0.05) return null;
  return {text: percent(pct), good: (pct > 0) === more_is_better};
}

// What figures are compared with: the first variant that is pinned, else the scenario without changes.
const reference = () => state.pins.length > 0 ? state.pins[0].result : state.base_result;

function figure(name, value, note, change) {
  const beside = change ? el('span', {className: change.good ? 'good' : 'bad'}, ' ' + change.text) : null;
  return el(
      'div', {className: 'tile'}, el('dt', {className: 'name'}, name),
      el('dd', {}, el('div', {className: 'value'}, value), el('div', {className: 'note'}, note, beside)));
}

// The whole training, by the tokens that it is to see; machines that never fail.
function training_figure(result, layout, versus) {
  const days = result.time_to_train_s / 86400;
  const note = (result.cost_usd > 0 ? dollars(result.cost_usd) + ', ' : '') +
      si(Number(layout['training.tokens']), '', 3).trim() + ' tokens, without failures';
  return figure('Training', digits(days, 3) + ' days', note, versus((r) => r.time_to_train_s, false));
}

function step_figures(result, layout, versus) {
  const step = result.iteration_time_s;
  const exposed = 1 - (result.breakdown_s.compute + result.breakdown_s.optimizer) / step;
  const cost = cost_of(result, layout), memory = result.memory;
  const sure = state.answer.interval;
  const figures = [
    figure(
        'Step time', seconds(step),
        sure ? sure.iteration_time_68_s.map((s) => seconds(s, 3)).join(' to ') + ', two in three' :
               'of one training step',
        versus((r) => r.iteration_time_s, false)),
    figure(
        'Tokens per second', si(result.tokens_per_s, '').trim(), digits(result.tokens_per_s_per_gpu) + ' per GPU',
        versus((r) => r.tokens_per_s, true)),
    figure(
        'MFU', result.mfu_pct.toFixed(1) + ' %', digits(result.model_tflops_per_gpu) + ' TFLOP/s per GPU',
        versus((r) => r.mfu_pct, true)),
    figure(
        'Memory of a GPU', bytes(memory.peak_bytes, 3),
        'of ' + bytes(memory.capacity_bytes, 3) + (memory.fits ? ', fits' : ', does not fit'),
        versus((r) => r.memory.peak_bytes, false)),
    figure(
        'Waiting and exposed', (100 * exposed).toFixed(1) + ' %',
        'bubble ' + (100 * result.breakdown_s.bubble / step).toFixed(1) + ' % of the step', null),
    figure(
        'Cost of a step', cost === null ? '–' : dollars(cost),
        cost === null ? 'give a price of a GPU' : dollars(result.usd_per_million_tokens) + ' per million tokens', null),
  ];
  if (result.time_to_train_s > 0) figures.push(training_figure(result, layout, versus));
  return figures;
}

const versus_of = (result) => {
  const before = reference();
  return (pick, more) => before && before !== result ? change_text(pick(result), pick(before), more) : null;
};
function show_figures(result, layout) {
  place('tiles').replaceChildren(...kKinds[state.kind].figures(result, layout, versus_of(result)));
}

function numbers_table(titles, rows) {
  const head = el('tr', {}, titles.map((title, i) => el('th', {scope: 'col', className: i ? 'number' : ''}, title)));
  const body = rows.map(
      (row) =>
          el('tr', {}, row.map((text, i) => el(i ? 'td' : 'th', i ? {className: 'number'} : {scope: 'row'}, text))));
  return el(
      'details', {className: 'numbers'}, el('summary', {}, 'Numbers'),
      el('div', {className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'numbers of the chart'},
         el('table', {}, el('thead', {}, head), el('tbody', {}, body))));
}

// A chart of Chart.js that is made once and then given new data; `config()` makes all of it.
class Live {
  constructor(id, title, label, config) {
    // Where another kind of question is on the screen, as it was: it is drawn anew when colours change.
    this.config = () => {
      if (state.answer && !place(id).closest('section').hidden) this.last = config();
      return this.last;
    };
    this.label = label;
    this.height = 120;
    this.legend = el('div');
    this.numbers = el('div');
    place(id).replaceChildren();
    this.id = id;
    this.title = title;
    this.made = null;
  }
  show({height, legend: items, titles, rows}) {
    if (!this.made) {
      this.made = add_chart(place(this.id), {title: this.title, label: this.label(), height, config: this.config});
      this.made.figure.querySelector('.canvas').before(this.legend);
      place(this.id).append(this.numbers);
    }
    const chart = this.made.chart, next = this.config();
    this.made.figure.querySelector('.canvas').style.height = height + 'px';
    chart.data = next.data;
    chart.options = next.options;
    chart.resize();
    chart.update('none');
    chart.canvas.setAttribute('aria-label', this.label());
    this.legend.replaceChildren(items);
    const open = this.numbers.querySelector('details[open]') !== null;
    const table = numbers_table(titles, rows);
    table.open = open;
    this.numbers.replaceChildren(table);
  }
}

// The rows of the breakdown: what is on the screen, and the variants that are pinned.
function compared() {
  const rows = [{name: 'now', result: state.answer.result}];
  for (const pin of state.pins)
    if (pin.result) rows.push({name: pin.name, result: pin.result});
  if (rows.length === 1 && state.base_result && state.sets.size > 0)
    rows.push({name: 'as it was', result: state.base_result});
  return rows;
}

// The parts that any row has, of those that the kind of question names.
const parts_of_kind = () => kKinds[state.kind].breakdown;
const used_parts = (rows) => {
  const {parts, value} = parts_of_kind();
  return parts.filter(([key]) => rows.some(({result}) => value(result, key) > 0));
};
const part_index = (key) => parts_of_kind().parts.findIndex(([k]) => k === key);

const stacked = (labels, datasets, title, more = {}) => ({
  type: 'bar',
  data: {labels, datasets},
  options: {
    ...more,
    scales: {
      x: axis(more.indexAxis === 'y' ? title : '', {stacked: true}),
      y: axis(more.indexAxis === 'y' ? '' : title, {stacked: true, beginAtZero: true}),
    },
  },
});

const breakdown = new Live(
    'breakdown', 'Breakdown',
    () => {
      const {parts, value, total, title} = parts_of_kind(), {result} = state.answer;
      return title + ': ' +
          parts.filter(([key]) => value(result, key) > 0)
              .map(([key, name]) => name + ' ' + (100 * value(result, key) / total(result)).toFixed(1) + ' %')
              .join(', ');
    },
    () => {
      const rows = compared(), parts = used_parts(rows), {value, text, unit} = parts_of_kind();
      const datasets = parts.map(([key, name]) => ({
                                   label: name,
                                   data: rows.map(({result}) => value(result, key)),
                                   backgroundColor: paint(part_index(key)),
                                   barPercentage: 0.8,
                                   categoryPercentage: 0.9,
                                 }));
      const config = stacked(rows.map(({name}) => name), datasets, unit, {indexAxis: 'y'});
      config.options.plugins = {tooltip: {callbacks: {label: (c) => c.dataset.label + ': ' + text(c.raw)}}};
      return config;
    });

function show_breakdown() {
  const rows = compared(), parts = used_parts(rows), {value, total, text, title, caption, whole} = parts_of_kind();
  place('h-breakdown').textContent = title;
  place('c-breakdown').textContent = caption;
  breakdown.show({
    height: 62 + 34 * rows.length,
    legend: palette_legend(parts.map(([key, name]) => [name, part_index(key)])),
    titles: ['', ...parts.map(([, name]) => name), whole],
    rows: rows.map(({name, result}) => [name, ...parts.map(([key]) => text(value(result, key))), text(total(result))]),
  });
}

// The limit of the device as a line across the bars.
const limit_line = {
  id: 'limit',
  afterDatasetsDraw: (chart) => {
    const {ctx, chartArea: area, scales} = chart, y = scales.y.getPixelForValue(chart.options.limit);
    if (!(y >= area.top - 1)) return;
    ctx.save();
    ctx.strokeStyle = css('bad');
    ctx.lineWidth = 2;
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(area.left, y);
    ctx.lineTo(area.right, y);
    ctx.stroke();
    ctx.restore();
  },
};

// Bars of what is held: {title, caption, bars: [[name, {key: bytes}]], held: keys, limit, limit_name}.
const memory_now = () => kKinds[state.kind].memory(state.answer.result);
const bar_total = (held, parts) => held.reduce((sum, key) => sum + parts[key], 0);
const memory = new Live(
    'memory', 'Memory',
    () => {
      const {title, bars, held, limit} = memory_now();
      const most = Math.max(...bars.map(([, parts]) => bar_total(held, parts)));
      return title + ': ' + bars.length + (bars.length === 1 ? ' bar' : ' bars') + ', at most ' + bytes(most, 3) +
          ' of ' + bytes(limit, 3) + (most > limit * 1.001 ? ', which does not fit' : '');
    },
    () => {
      const {bars, held, limit} = memory_now();
      const datasets = held.map((key, i) => ({
                                  label: key,
                                  data: bars.map(([, parts]) => parts[key] / 1e9),
                                  backgroundColor: paint(i),
                                  barPercentage: 0.9,
                                  maxBarThickness: 110,
                                  categoryPercentage: 0.9,
                                }));
      const config = stacked(bars.map(([name]) => name), datasets, 'GB');
      const most = Math.max(limit, ...bars.map(([, parts]) => bar_total(held, parts))) / 1e9;
      Object.assign(config.options.scales.y, {suggestedMax: most * 1.06});
      config.options.limit = limit / 1e9;
      config.options.plugins = {
        tooltip: {callbacks: {label: (c) => c.dataset.label + ': ' + digits(c.raw, 3) + ' GB'}}
      };
      config.plugins = [limit_line];
      return config;
    });

function show_memory() {
  const {title, caption, bars, held, limit_name} = memory_now();
  place('h-memory').textContent = title;
  place('c-memory').textContent = caption;
  memory.show({
    height: 240,
    legend: legend([...held.map((key, i) => [key, ...kPalette[i]]), [limit_name, '#b3261e', 'horizontal']]),
    titles: ['', ...held, 'total'],
    rows: bars.map(
        ([name, parts]) => [name, ...held.map((key) => bytes(parts[key], 3)), bytes(bar_total(held, parts), 3)]),
  });
}
const stage_bars = ({memory: {stages, capacity_bytes}}) => ({
  title: 'Memory of a GPU of each stage',
  caption: 'At the stage\u2019s fullest moment, against the limit of the device.',
  bars: stages.map((stage, i) => ['stage ' + i, stage]),
  held: kHeld,
  limit: capacity_bytes,
  limit_name: 'limit of the device'
});

// The timeline is drawn anew with every step; what is zoomed in on stays, in shares of the step.
let timeline_range = null, timeline_redraws = 0;
function show_timeline() {
  const shares = timeline_range ? [timeline_range.from, timeline_range.to].map((t) => t / timeline_range.high) : [0, 1];
  redraws.splice(redraws.length - timeline_redraws, timeline_redraws);
  const before = redraws.length;
  timeline_range = new Range(0, data.span_s);
  timeline_range.set(shares[0] * data.span_s, shares[1] * data.span_s);
  place('timeline').replaceChildren();
  pipeline(place('timeline'), timeline_range);
  timeline_redraws = redraws.length - before;
}

function add_remedies(banner, would_fit) {
  if (would_fit.length > 0) banner.append('It would fit with ');
  for (const {set, peak_bytes} of would_fit) {
    const sets = set.map(pair_of);
    const title = 'takes ' + bytes(peak_bytes, 3) + ' per GPU';
    banner.append(el('button', {type: 'button', title, onclick: () => change_all(sets)}, set.join(' ')), ' ');
  }
}

// Ways out are searched for beside the steps, so that a slider never waits for them.
async function find_remedies(answer, request) {
  state.side = state.side || new_engine();
  const {reply} = await state.side.ask({...request, do: 'remedies'});
  if (state.answer !== answer || !reply.would_fit) return;
  answer.result.memory.would_fit = reply.would_fit;
  show_banner();
}

// The nearest that runs, behind a button; where the change itself cannot stay, with what it becomes.
function add_nearest(banner) {
  if (!state.nearest) return;
  const sets = state.nearest.set;
  banner.append(state.nearest.keeps ? '. It would run with ' : '. The nearest that runs: ');
  banner.append(
      el('button', {type: 'button', id: 'nearest', className: 'primary', onclick: () => take_nearest(sets)},
         sets.map((set) => set.replace('=null', ' left open').replace('=', ' ')).join(', ')));
}

function show_followed() {
  const told = state.followed.map((set) => set.replace('=null', ' is left open').replace('=', ' is '));
  place('followed').hidden = told.length === 0 || state.error !== '';
  place('followed').textContent = 'So that it runs, ' + told.join(', ') + '.';
}

function show_banner() {
  show_followed();
  const banner = place('banner'), result = state.answer && state.answer.result;
  banner.hidden = true;
  banner.replaceChildren();
  if (state.error) {
    banner.className = 'banner bad';
    const line = /:(\d+):(\d+): /.exec(state.error);
    banner.append(el('strong', {}, 'This cannot run. '), state.error);
    add_nearest(banner);
    if (line) banner.append(' ', el('button', {type: 'button', onclick: () => go_to_line(Number(line[1]))}, 'Show it'));
    banner.hidden = false;
  } else if (result) {
    banner.className = 'banner bad';
    banner.append(...kKinds[state.kind].alarm(result));
    if (result.memory && result.memory.would_fit) add_remedies(banner, result.memory.would_fit);
    banner.hidden = banner.childNodes.length === 0;
  }
}

// What is wrong with a step that can be simulated, as parts of a banner.
function step_alarm({memory: {fits, peak_bytes, capacity_bytes}}) {
  return fits ?
      [] :
      [el('strong', {}, 'Out of memory: '), bytes(peak_bytes, 3) + ' of ' + bytes(capacity_bytes, 3) + ' per GPU. '];
}

// Read out half a second after the last change, so that a slider does not speak over itself.
let speaking = 0;
function speak() {
  clearTimeout(speaking);
  speaking = setTimeout(() => {
    const result = state.answer && state.answer.result;
    if (!result || state.error) return;
    place('spoken').textContent = kKinds[state.kind].spoken(result);
  }, 500);
}

const step_spoken = (result) => 'Step ' + seconds(result.iteration_time_s, 3) + ', MFU ' + result.mfu_pct.toFixed(1) +
    ' %, memory ' + bytes(result.memory.peak_bytes, 3) + ' of ' + bytes(result.memory.capacity_bytes, 3) +
    (result.memory.fits ? ', fits' : ', does not fit');
const step_foot = (result) => seconds(result.iteration_time_s) + ' · MFU ' + result.mfu_pct.toFixed(1) + ' % · ' +
    bytes(result.memory.peak_bytes, 3) + (result.memory.fits ? '' : ': out of memory');

// On a phone the figures are out of sight while a slider moves: in one line at the foot of the screen.
function show_foot(result) {
  place('foot').textContent = kKinds[state.kind].foot(result);
  place('foot').classList.toggle('bad', kKinds[state.kind].alarm(result).length > 0);
}

const time_taken = () => 'answered in ' + (state.ms < 2000 ? Math.round(state.ms) + ' ms' : seconds(state.ms / 1e3, 2));
const step_effort = (result) => result.ranks_simulated + ' of ' + grouped(result.gpus) + ' ranks, ' +
    grouped(result.events) + ' events, ' + time_taken();

// Which sections there are hangs on the kind of question.
function show_sections() {
  document.documentElement.dataset.kind = state.kind;
  for (const section of document.querySelectorAll('section[data-kinds]'))
    section.hidden = !section.dataset.kinds.split(' ').includes(state.kind);
  for (const radio of document.querySelectorAll('input[name="kind"]')) radio.checked = radio.value === state.kind;
}

function show_results() {
  const {result, layout, charts} = state.answer, kind = kKinds[state.kind];
  place('title').textContent = charts.title;
  place('subtitle').textContent = charts.subtitle;
  document.title = kind.short(result) + ' · ' + charts.title + ' · orrery';
  place('effort').textContent = kind.effort(result, charts);
  show_figures(result, layout);
  show_foot(result);
  show_breakdown();
  if (kind.memory) show_memory();
  kind.show(charts, result);
  clear_advice();
  place('assumptions').replaceChildren(...result.assumptions.map((text) => el('li', {}, text)));
  speak();
}
