// Does the engine in the page answer as the program does? Every number of a step, to the last bit, and every refusal,
// to the last letter: node engine_test.mjs ORRERY WASM_FOLDER [COUNT]
import assert from 'node:assert';
import {execFileSync} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';

import {load_engine} from '../../tools/whatif/module.mjs';
import {scenarios} from './scenarios.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const [given, wasm, count = '200'] = process.argv.slice(2), program = resolve(given);

// What the program says: its JSON, or its line on standard error.
function native(folder, {file, sets}) {
  const words = ['run', file, '--json', '-', ...sets.flatMap((set) => ['--set', set])];
  try {
    const options = {cwd: folder, env: {...process.env, ORRERY_HOME: root}, stdio: ['ignore', 'pipe', 'pipe']};
    return {result: JSON.parse(execFileSync(program, words, {...options, maxBuffer: 1 << 28}))};
  } catch (error) {
    if (error.status === 2) return {error: String(error.stderr).trimEnd().replaceAll(root, '/orrery')};
    throw error;
  }
}

const engine = await load_engine(wasm);
const folder = mkdtempSync(join(tmpdir(), 'orrery-whatif-'));
const tally = {
  steps: 0,
  sure: 0,
  refused: 0,
  differ: []
};
try {
  for (const scenario of scenarios(root, Number(count))) {
    writeFileSync(join(folder, scenario.file), scenario.text);
    const expected = native(folder, scenario), got = engine.answer({do: 'run', ...scenario});
    // How sure a step is stands beside it where charts are asked for, which some are too large for; else in it.
    const {interval} = got.result ? engine.answer({do: 'run', charts: true, ...scenario}) : {};
    if (interval) got.result.interval = interval;
    if (!interval && expected.result) delete expected.result.interval;
    tally.sure += interval !== undefined;
    if (expected.result) delete expected.result.wall_s;
    if (got.result) delete got.result.wall_s;
    const same = {result: got.result, error: got.error, bug: got.bug};
    try {
      assert.deepStrictEqual(same, {result: undefined, error: undefined, ...expected, bug: undefined});
      tally[expected.result ? 'steps' : 'refused'] += 1;
    } catch (error) {
      tally.differ.push(scenario.file + ' ' + scenario.sets.join(' ') + '\n' + error.message.slice(0, 1500));
    }
  }
} finally {
  rmSync(folder, {recursive: true, force: true});
}
for (const text of tally.differ.slice(0, 10)) console.log(text + '\n');
console.log(tally.steps + ' steps and ' + tally.refused + ' refusals are the same, ' + tally.differ.length + ' differ');
// Most of the list runs, and some of it cannot: else there is nothing to compare.
assert.ok(tally.sure > tally.steps / 2, 'few steps say how sure they are: ' + tally.sure);
assert.ok(tally.steps > Number(count) / 3 && tally.refused > Number(count) / 20, 'too few steps or refusals');
process.exit(tally.differ.length === 0 ? 0 : 1);
