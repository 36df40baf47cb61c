// Firefox, as it is installed, by puppeteer-core, since playwright has a Firefox of its own alone: does the engine
// start there, answer as the program does, and sweep? node firefox_test.mjs ORRERY
import assert from 'node:assert';
import {execFileSync} from 'node:child_process';
import {existsSync} from 'node:fs';
import {resolve} from 'node:path';

import {page_url, require_package, root, skip} from './browser.mjs';

const program = resolve(process.argv[2]);
const firefox = ['/usr/bin/firefox-esr', '/usr/bin/firefox'].find(existsSync);
if (!firefox) skip('the what-if page in Firefox: it is not installed');
let puppeteer;
try {
  puppeteer = require_package('puppeteer-core');
} catch (error) {
  skip('the what-if page in Firefox: there is no puppeteer-core (tools/bootstrap page)');
}

const browser = await puppeteer.launch({browser: 'firefox', executablePath: firefox, headless: true});
try {
  const page = await browser.newPage();
  await page.goto(page_url);
  await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes');
  const names = await page.evaluate(() => state.catalogue.scenarios.map(({name}) => name));
  assert.ok(names.length > 8);
  // What is served or post-trained has commands and tests of its own.
  const kind_of = Object.fromEntries(
      await page.evaluate(() => state.catalogue.scenarios.map(({name, kind}) => [name, kind || 'train'])));
  const trained = names.filter((name) => kind_of[name] === 'train');
  assert.ok(trained.length > 8);
  for (const name of trained) {
    for (const sets of [[], ['parallelism.tensor=2', 'parallelism.data=null'], ['precision=bf16']]) {
      let said = {};
      try {
        const words = ['run', name, '--json', '-', ...sets.flatMap((set) => ['--set', set])];
        const options = {env: {...process.env, ORRERY_HOME: root}, maxBuffer: 1 << 28, stdio: 'pipe'};
        said = JSON.parse(execFileSync(program, words, options));
      } catch (error) {
        if (error.status !== 2) throw error;
      }
      const got = await page.evaluate(async (asked, changes) => {
        const {reply} = await main_engine.ask({do: 'run', text: shipped(asked).text, sets: changes});
        return reply.result || {};
      }, name, sets);
      for (const key of ['iteration_time_s', 'breakdown_s', 'memory', 'traffic'])
        assert.deepStrictEqual(got[key], said[key], name + ' ' + sets.join(' '));
    }
  }
  console.log('ok      ' + trained.length + ' scenarios, each in three forms, as the program has them');
  await page.evaluate(() => start_sweep());
  await page.waitForFunction(() => sweep.total > 0 && sweep.done === sweep.total, {timeout: 120000});
  assert.ok(await page.evaluate(() => sweep.points.filter((point) => point.status === 'ok').length) > 3);
  assert.strictEqual(await page.evaluate(() => document.documentElement.dataset.errors), '[]');
  console.log('ok      a sweep, and no error in the page');
} finally {
  await browser.close();
}
