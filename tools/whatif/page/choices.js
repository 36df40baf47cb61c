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

// What a key comes to: the change, or what the scenario says where there is none or it leaves the key open.
function value_of(path) {
  const set = state.sets.get(path);
  if (path === 'traffic' && !set && state.layout) return traffic_kind();
  const chosen = /^\{kind: (\w+)/.exec(set || '');  // of a mapping, its kind
  if (chosen) return chosen[1];
  return set !== undefined && set !== 'null' ? set : state.layout ? state.layout[path] : undefined;
}
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

const split_choices = () => {
  const node = Number(state.layout['cluster.gpus_per_node']) || 8, all = number_at('cluster.gpus');
  return Array.from({length: Math.max(1, Math.ceil(all / node) - 1)}, (_, i) => (i + 1) * node).filter((n) => n < all);
};

// ---- traffic of an open or a closed loop ----
const kOpenKeys = ['traffic.rate', 'traffic.duration', 'traffic.arrivals', 'traffic.burstiness', 'traffic.levels'];
const is_set = (path) => state.sets.has(path) && state.sets.get(path) !== 'null';
const traffic_kind = () => is_set('traffic.concurrency') ? 'closed loop' :
    is_set('traffic.rate')                               ? 'open loop' :
                                                           state.layout.traffic;
// What the other kind of loop has, of the text.
const of_text = (paths) => paths.filter((path) => state.base && path in state.base).map((path) => [path, 'null']);
function loop_sets(kind) {
  const closed = kind === 'closed loop';
  for (const path of [...kOpenKeys, 'traffic.concurrency', 'traffic.requests']) state.sets.delete(path);
  if (state.base && state.base.traffic === kind) return [];
  return closed ? [...tied('traffic.concurrency', 64), ['traffic.requests', '640']] :
                  [...tied('traffic.rate', '4/s'), ['traffic.duration', '120 s']];
}

// Who has which GPUs: what goes with the old placement goes with it.
function placement_sets(kind) {
  for (const path of [...state.sets.keys()])
    if (path.startsWith('rl.placement.')) state.sets.delete(path);
  const half = Math.floor(number_at('cluster.gpus') / 2);
  const value = kind === 'colocated' ? kind : '{kind: ' + kind + ', rollout_gpus: ' + half + '}';
  return tied('rl.placement', value);
}
// Controls whose change is more than a value of their key.
const kWhole = {
  traffic: loop_sets,
  'rl.placement': placement_sets
};

// What goes with a change: the number of replicas follows from the rest, a schedule from the chunks, and what a
// device's node holds from the device. `data` alone stays where the text leaves it open.
function tied(path, value) {
  const sets = [[path, String(value)]];
  if (path === 'rl.placement') sets.push(['rl.weight_transfer', 'null']);
  if (path === 'traffic.concurrency') sets.push(...of_text(kOpenKeys));
  if (path === 'traffic.rate') sets.push(...of_text(['traffic.concurrency', 'traffic.requests']));
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
