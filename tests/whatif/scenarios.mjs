// Scenarios to try: those that ship and measured records, each as it is and with changes that a slider could make,
// among them some that cannot run. The same list every time.
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';

// Numerical Recipes' generator: enough to mix choices, and the same everywhere.
function dice(seed) {
  let state = seed >>> 0;
  return (sides) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * sides);
  };
}

// The records of a list, each as a list of its own, so that its lines keep their indents.
function records_of(text) {
  const starts = [...text.matchAll(/^- /gm)].map((match) => match.index);
  return starts.map((start, i) => text.slice(start, starts[i + 1]));
}

const kChanges = [
  ['parallelism.tensor', ['1', '2', '4', '8']], ['parallelism.pipeline', ['1', '2', '4', '8']],
  ['parallelism.virtual_pipeline', ['1', '2', '3']], ['parallelism.context', ['1', '2']],
  ['parallelism.sharding', ['none', 'optimizer', 'gradients', 'parameters']], ['batch.micro', ['1', '2', '4']],
  ['recompute', ['none', 'selective', 'full']], ['precision', ['bf16', 'fp16', 'fp8']],
  ['overlap.tensor', ['true', 'false']], ['cluster.gpus', ['8', '64', '512']],
  ['cluster.device', ['a100-sxm-80gb', 'h100-sxm-80gb', 'mi300x', 'b200-sxm-180gb']],
  ['parallelism.tensr', ['2']],  // no key
  ['batch.global', ['twelve']],  // no number
];

function changes(roll) {
  const sets = new Map();
  for (let i = 1 + roll(3); i > 0; --i) {
    const [path, values] = kChanges[roll(kChanges.length)];
    sets.set(path, values[roll(values.length)]);
  }
  if ([...sets.keys()].some((path) => path.startsWith('parallelism.') || path === 'cluster.gpus'))
    sets.set('parallelism.data', 'null');
  if (sets.has('parallelism.virtual_pipeline') || sets.has('parallelism.pipeline'))
    sets.set('parallelism.schedule', 'null');
  return [...sets].map(([path, value]) => path + '=' + value);
}

// `count` of {file, text, sets}. Files are named apart.
export function scenarios(root, count) {
  const folder = (name) => readdirSync(join(root, name))
                               .filter((file) => file.endsWith('.yaml'))
                               .sort()
                               .map((file) => [file, readFileSync(join(root, name, file), 'utf8')]);
  const shipped = folder('scenarios');
  const records = folder('tests/published')
                      .flatMap(
                          ([file, text]) =>
                              records_of(text).map((record, i) => [file.replace('.yaml', '-' + i + '.yaml'), record]));
  const out = shipped.map(([file, text]) => ({file, text, sets: []}));
  const roll = dice(21);
  for (const [file, text] of shipped)
    for (let i = 0; i < 6; ++i) out.push({file, text, sets: changes(roll)});
  const stride = Math.max(1, Math.floor(2 * records.length / Math.max(2, count - out.length)));
  for (let i = 0; i < records.length && out.length < count; i += stride) {
    const [file, text] = records[i];
    out.push({file, text, sets: []}, {file, text, sets: changes(roll)});
  }
  return out.slice(0, count);
}
