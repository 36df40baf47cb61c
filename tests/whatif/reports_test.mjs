// Does a checker of accessibility find nothing on any report that the program writes, in light and dark?
//   node reports_test.mjs ORRERY [PART OF A NAME]
import assert from 'node:assert';
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

import {open_browser, require_package, root} from './browser.mjs';

const program = resolve(process.argv[2]), wanted = process.argv[3] || '';
const folder = mkdtempSync(join(tmpdir(), 'orrery-reports-'));
const orrery = (words) => execFileSync(program, words, {env: {...process.env, ORRERY_HOME: root}, stdio: 'pipe'});
// What some of them read: a queue's jobs, a trace of a step.
const jobs = join(folder, 'jobs.csv'), trace = join(folder, 'own.json'), first = ['--trace-ranks', '0'];
const rows = Array.from({length: 60}, (_, i) => [60 * i, [8, 16, 32][i % 3], 600 + 37 * i].join(','));
writeFileSync(jobs, ['submit_s,gpus,duration_s', ...rows, ''].join('\n'));
orrery(['run', 'gpt3-6.7b-h100', '--trace', trace, ...first]);

// A command of each kind of page, its scenario as small as its page allows.
const kReports = {
  run: ['run', 'gpt3-6.7b-h100'],
  'run of ten thousand ranks, explained': ['run', 'eos-gpt3-175b', '--explain'],
  'run out of memory': ['run', 'gpt3-6.7b-h100', '--set', 'tp=1', '--set', 'dp=null', '--set', 'batch.micro=8'],
  search: ['search', 'gpt3-6.7b-h100'],
  campaign: ['campaign', 'llama3-405b-16384', '--seeds', '8'],
  queue: ['queue', 'gpt3-6.7b-h100', jobs, '--gpus', '128'],
  diff: ['diff', trace, 'gpt3-6.7b-h100', '--set', 'software.kernel_issue=50 us'],
  place: ['place', 'gpt3-6.7b-h100', 'gpt3-6.7b-h100'],
  validate: ['validate', 'tests/published/megascale.yaml', 'tests/published/dgxc-h100.yaml'],
  'run of a mixture': ['run', 'gpt3-6.7b-h100', '--set', 'model=mixtral-8x7b', '--set', 'batch.micro=1'],
  compare: ['compare', 'gpt3-6.7b-h100', 'gpt3-6.7b-h100'],
  sweep: ['sweep', 'gpt3-6.7b-h100', '--vary', 'batch.micro=1,2,4'],
  serving: ['serving', 'llama3.1-70b-serving-h100', '--set', 'traffic.duration=60 s'],
  rl: ['rl', 'qwen3-32b-grpo-256h100-async', '--set', 'rl.prompts=64', '--set', 'rl.mini_batch=1024'],
  topology: ['topology', 'ndr-rail', '--gpus', '1024'],
  'topology of racks': ['topology', 'nvl72-ndr', '--device', 'gb200', '--gpus', '32256'],
  'topology with its ranks': ['topology', 'eos-gpt3-175b'],
  collective: ['collective', 'ndr-rail', '--op', 'all_reduce', '--gpus', '64', '--sizes', '1MB:64MB:2'],
  traffic: ['traffic', 'gpt3-6.7b-h100'],
  reproduce: ['reproduce', 'megascale-eos'],
};

const browser = await open_browser(true);
const axe = readFileSync(require_package.resolve('axe-core/axe.min.js'), 'utf8');
let failed = 0;
for (const [name, words] of Object.entries(kReports)) {
  if (!name.includes(wanted)) continue;
  const file = join(folder, name.replaceAll(' ', '-') + '.html');
  try {
    orrery([...words, '--report', file]);
    for (const colorScheme of ['light', 'dark']) {
      const page = await browser.newPage({viewport: {width: 1280, height: 900}, colorScheme});
      await page.goto(pathToFileURL(file).href);
      await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes', null, {timeout: 60000});
      await page.evaluate(axe);
      const {violations} = await page.evaluate(() => axe.run());
      const told =
          violations.map(({id, nodes}) => id + ': ' + nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(' | '));
      assert.deepStrictEqual(told, [], colorScheme);
      assert.strictEqual(await page.evaluate(() => document.documentElement.dataset.errors), '[]');
      await page.close();
    }
    console.log('ok      ' + name);
  } catch (error) {
    failed += 1;
    console.log('FAILED  ' + name + '\n' + String(error.stderr || error.stack).slice(0, 900));
  }
}
await browser.close();
rmSync(folder, {recursive: true, force: true});
process.exit(failed === 0 ? 0 : 1);
