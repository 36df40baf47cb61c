// The three kinds of question and what the page shows for each: a step of training, requests served, a step of
// reinforcement learning.
'use strict';

const kParts = [
  ['compute', 'compute'],
  ['tensor_comm', 'tensor'],
  ['pipeline_comm', 'pipeline'],
  ['data_comm', 'data'],
  ['context_comm', 'context'],
  ['expert_comm', 'expert'],
  ['table_comm', 'embedding tables'],
  ['bubble', 'bubble'],
  ['optimizer', 'optimizer'],
  ['host', 'host'],
  ['other', 'other'],
  ['host_copy', 'copies to the host'],
  ['partner_wait', 'waiting for a partner'],
  ['slow_gpu', 'a slow GPU'],
];

const step_columns = [
  // title, value, text, whether more is better
  ['Step', (r) => r.iteration_time_s, (v) => seconds(v), false],
  ['Tokens/s', (r) => r.tokens_per_s, (v) => si(v, '', 4).trim(), true],
  ['MFU', (r) => r.mfu_pct, (v) => v.toFixed(1) + ' %', true],
  ['Memory', (r) => r.memory.peak_bytes, (v) => bytes(v, 3), false],
  ['$ per M tokens', (r) => r.usd_per_million_tokens, (v) => v === undefined ? '–' : digits(v, 3), false],
];
const step_csv = (r) => [
    ['iteration_time_s', r.iteration_time_s], ['tokens_per_s', r.tokens_per_s], ['mfu_pct', r.mfu_pct],
    ['peak_memory_bytes', r.memory.peak_bytes], ['fits', r.memory.fits],
    ['usd_per_million_tokens', r.usd_per_million_tokens ?? ''],
    ...Object.entries(r.breakdown_s).map(([key, value]) => [key + '_s', value])];

const kKinds = {
  train: {
    name: 'Train',
    command: 'run',
    first: 'gpt3-6.7b-h100',
    controls: kTrainControls,
    breakdown: {
      title: 'Where the step goes',
      caption: 'Exposed time of the busiest rank; the parts sum to the step.',
      parts: kParts,
      value: (r, key) => r.breakdown_s[key] || 0,
      total: (r) => r.iteration_time_s,
      text: seconds,
      unit: 'seconds',
      whole: 'step'
    },
    figures: step_figures,
    memory: stage_bars,
    alarm: step_alarm,
    spoken: step_spoken,
    foot: step_foot,
    effort: step_effort,
    short: (r) => seconds(r.iteration_time_s, 3),
    show: show_timeline,
    columns: step_columns,
    csv: step_csv,
    fits: (r) => r.memory.fits
  },
  serve: kServeKind,
  rl: kRlKind,
};
