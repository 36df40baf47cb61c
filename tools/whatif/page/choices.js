// Which values the controls offer. Only what divides is offered; what runs is the engine's to say. Any other number can
// be typed.
'use strict';

function divisors(n, most = 64) {
  const out = [];
  for (let i = 1; i <= Math.min(n, 4096); ++i)
    if (n % i === 0) out.push(i);
  return out.length > most ? out.filter((value, i) => i % Math.ceil(out.length / most) === 0) : out;
}
const powers = (from, to) => {
  const out = [];
  for (let i = from; i <= to; i *= 2) out.push(i);
  return out;
};
const union = (values, value) => [...new Set([...values, value])].filter((v) => v > 0).sort((a, b) => a - b);

const value_of = (path) => state.sets.has(path) ? state.sets.get(path) : state.layout ? state.layout[path] : undefined;
const number_at = (path) => Number(value_of(path)) || 1;

// Beside powers of two, what the scenario itself has and its multiples: 10752 is no power of two.
function gpu_choices() {
  const own = state.base ? state.base['cluster.gpus'] : 8;
  const near = powers(1, 64).flatMap((n) => [Math.round(own / n), own * n]);
  const whole = near.filter((n) => n >= 1 && n <= 131072 && n % Math.min(8, own) === 0);
  return [...new Set([...powers(1, 131072), ...whole])].sort((a, b) => a - b);
}
const pipeline_choices = () => divisors(number_at('cluster.gpus')).filter((n) => n <= 128);
const chunk_choices = () => divisors(Math.max(
    1, Math.round((Number(state.layout && state.layout['model.layers']) || 1) / number_at('parallelism.pipeline'))));
const expert_choices = () => divisors(Number(state.layout && state.layout['model.experts']) || 1);

// What goes with a change: the number of replicas follows from the rest, a schedule from the chunks, and what a
// device's node holds from the device. `data` alone stays where the text leaves it open.
function tied(path, value) {
  const sets = [[path, String(value)]];
  const splits = ['cluster.gpus', 'parallelism.tensor', 'parallelism.pipeline', 'parallelism.context'];
  if (splits.includes(path)) sets.push(['parallelism.data', 'null']);
  const usual = ['1f1b', 'interleaved_1f1b'];
  const schedule = value_of('parallelism.schedule');
  if (path === 'parallelism.virtual_pipeline' && usual.includes(schedule)) sets.push(['parallelism.schedule', 'null']);
  if (path === 'parallelism.pipeline' && Number(value) === 1 && usual.includes(schedule))
    sets.push(['parallelism.virtual_pipeline', 'null'], ['parallelism.schedule', 'null']);
  if (path === 'parallelism.schedule' && value !== 'interleaved_1f1b')
    sets.push(['parallelism.virtual_pipeline', 'null']);
  if (path === 'cluster.device') sets.push(['cluster.gpus_per_node', 'null']);
  return sets;
}
