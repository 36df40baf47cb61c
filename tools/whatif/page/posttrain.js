// What the page shows of a step of reinforcement learning: its parts, engine and trainer over time, the tail, shares of
// the GPUs.
'use strict';

const kRlParts = [
  ['generation_s', 'generation'], ['reward_s', 'reward'], ['logprob_s', 'old log-probabilities'],
  ['reference_s', 'reference'], ['critic_s', 'critic'], ['training_s', 'training'],
  ['weight_transfer_s', 'weight transfer'], ['swap_s', 'swap to the host and back'], ['host_s', 'controller'],
  ['wait_s', 'wait for answers']
];

// Where engine and trainer overlap, the trainer's line has what it waits in place of what is written.
function rl_part(r, key) {
  if (key !== 'generation_s') return r[key] || 0;
  const rest = kRlParts.reduce((sum, [name]) => sum + (name === key ? 0 : r[name] || 0), 0);
  return rest + r.generation_s > r.step_s * 1.001 ? 0 : r.generation_s;
}

function rl_figures(r, layout, versus) {
  return [
    figure('Step', seconds(r.step_s), 'of reinforcement learning', versus((x) => x.step_s, false)),
    figure(
        'Tokens per second', digits(r.tokens_per_s_per_gpu) + ' per GPU',
        si(r.tokens_per_s_per_gpu * r.gpus, '', 3).trim() + ' in all, trained on',
        versus((x) => x.tokens_per_s_per_gpu, true)),
    figure(
        'A batch is written in', seconds(r.generation_s), 'half of it after ' + seconds(r.half_s, 3),
        versus((x) => x.generation_s, false)),
    figure('An update', seconds(r.update_s), r.updates + ' of them a step', versus((x) => x.update_s, false)),
    figure(
        'The engine is at work', r.engine_busy_pct.toFixed(0) + ' %', 'the trainer waits ' + seconds(r.wait_s, 3),
        null),
    figure(
        'Answers', grouped(r.answers),
        Math.round(r.answer_tokens.mean) + ' tokens in the mean, ' + r.answer_tokens.max + ' the longest', null),
    figure(
        'GPUs', grouped(r.gpus),
        r.rollout_gpus === r.gpus ? 'that write and train in turn' :
                                    r.rollout_gpus + ' write, ' + r.training_gpus + ' train',
        null),
    figure(
        'Memory of a trainer', bytes(r.memory.peak_bytes, 3), r.memory.fits ? 'fits' : 'does not fit',
        versus((x) => x.memory.peak_bytes, false)),
  ];
}

const lines_chart = new Live(
    'rl-lines', 'What engine and trainer do', () => 'what engine and trainer do over time',
    () => lines_config(state.answer.charts.spans));
const tail_chart = new Live(
    'tail', 'Answers that are through', () => 'answers that are through by time',
    () => tail_config(state.answer.charts.through));

function show_rl(charts) {
  place('c-lines').textContent = 'Engine: ' + charts.engine + '. Trainer: ' + charts.trainer + '.';
  const rows =
      charts.spans.filter(([, part]) => part !== 'wait')
          .slice(0, 200)
          .map(([
                 step, part, engine, from, until
               ]) => [(engine ? 'engine' : 'trainer') + ', ' + part_words(part), step, seconds(from), seconds(until)]);
  lines_chart.show({height: 200, legend: lines_legend(charts.spans), titles: ['what', 'step', 'from', 'until'], rows});
  const some = charts.through.filter((row, i, all) => i % Math.ceil(all.length / 40) === 0);
  tail_chart.show({
    height: 220,
    legend: '',
    titles: ['time', 'answers through'],
    rows: some.map(([time, pct]) => [seconds(time), pct.toFixed(1) + ' %'])
  });
  clear_splits();
}

// ---- shares of the GPUs ----
let splits_asked = 0;
function clear_splits() {
  ++splits_asked;
  if (place('split-rows')) place('split-rows').replaceChildren();
}

function split_row(one) {
  const name = one.rollout_gpus + ' write, ' + one.training_gpus + ' train';
  if (one.reason) return [name, el('span', {className: 'bad'}, one.reason), '', '', '', ''];
  const path = 'rl.placement.rollout_gpus';
  const use = el('button', {type: 'button', onclick: () => change_all([[path, String(one.rollout_gpus)]])}, 'Use');
  use.setAttribute('aria-label', 'Use ' + name);
  return [
    name, seconds(one.step_s), digits(one.tokens_per_s_per_gpu), seconds(one.wait_s, 3),
    one.engine_busy_pct.toFixed(0) + ' %', one.fits ? '' : el('span', {className: 'bad'}, 'does not fit'), use
  ];
}

async function ask_splits(button) {
  clear_splits();
  const mine = splits_asked;
  button.disabled = true;
  place('split-state').textContent = 'Trying every share ...';
  state.side = state.side || new_engine();
  const {reply} = await state.side.ask({...request_of(state.sets), do: 'splits'});
  button.disabled = false;
  place('split-state').textContent = '';
  if (mine !== splits_asked) return;
  if (!reply.splits) {
    place('split-state').textContent = reply.error || reply.bug;
    return;
  }
  const titles = ['share', 'step', 'tokens/s per GPU', 'trainer waits', 'engine at work', '', ''];
  place('split-rows').replaceChildren(plain_table('shares of the GPUs', titles, reply.splits.map(split_row)));
}

function build_splits() {
  const button = el('button', {type: 'button', id: 'ask-splits'}, 'Try every share');
  button.addEventListener('click', () => ask_splits(button));
  place('splits').replaceChildren(
      button, ' ', el('span', {id: 'split-state', className: 'note', role: 'status'}), el('div', {id: 'split-rows'}));
}

const kRlKind = {
  name: 'Post-train',
  command: 'rl',
  first: 'qwen3-32b-grpo-256h100-separate',
  controls: kRlControls,
  breakdown: {
    title: 'Where the step goes',
    caption: 'On the trainer\u2019s line, in the mean over steps; the parts sum to the step.',
    parts: kRlParts,
    value: rl_part,
    total: (r) => r.step_s,
    text: seconds,
    unit: 'seconds',
    whole: 'step'
  },
  figures: rl_figures,
  memory: null,
  alarm: (r) => r.memory.fits ?
      [] :
      [el('strong', {}, 'Out of memory: '), 'the trainer takes ' + bytes(r.memory.peak_bytes, 3) + ' of a GPU. '],
  spoken: (r) => 'Step ' + seconds(r.step_s, 3) + ', ' + digits(r.tokens_per_s_per_gpu, 3) + ' tokens a second and GPU',
  foot: (r) => seconds(r.step_s) + ' · ' + digits(r.tokens_per_s_per_gpu, 3) + ' tokens/s/GPU' +
      (r.memory.fits ? '' : ': out of memory'),
  effort: (r) => grouped(r.answers) + ' answers, ' + time_taken(),
  short: (r) => seconds(r.step_s, 3),
  show: show_rl,
  columns: [
    ['Step', (r) => r.step_s, (v) => seconds(v), false],
    ['Tokens/s per GPU', (r) => r.tokens_per_s_per_gpu, (v) => digits(v), true],
    ['Written in', (r) => r.generation_s, (v) => seconds(v), false],
    ['Training', (r) => r.training_s, (v) => seconds(v), false],
    ['Waits', (r) => r.wait_s, (v) => seconds(v, 3), false],
    ['Engine at work', (r) => r.engine_busy_pct, (v) => v.toFixed(0) + ' %', true],
  ],
  csv: (
      r) => ['gpus', 'rollout_gpus', 'training_gpus', 'step_s', 'tokens_per_s_per_gpu', ...kRlParts.map(([key]) => key)]
                .map((key) => [key, r[key] ?? ''])
                .concat([['fits', r.memory.fits]]),
  fits: (r) => r.memory.fits
};
