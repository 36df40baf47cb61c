// How large the page is, and how long it takes: from disk to the first picture, and from a change to the picture,
// through the worker, the charts and the browser's drawing. Prints; it judges nothing.
import {statSync} from 'node:fs';

import {open_browser, page_file, page_url, settled} from './browser.mjs';

const kTrials = 15;
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

// Milliseconds from a change of a key to the frame that shows what came of it.
const kChange = ([path, value]) => new Promise((done) => {
  const before = Number(document.documentElement.dataset.shown), begun = performance.now();
  const look = () => {
    if (Number(document.documentElement.dataset.shown) === before || latest.busy) return requestAnimationFrame(look);
    requestAnimationFrame(() => done({whole: performance.now() - begun, engine: state.ms, error: state.error}));
  };
  change_all([[path, value]]);
  requestAnimationFrame(look);
});

const kJobs = [
  [
    'Llama 3 70B on 1024 H100',
    'name: llama\ncluster: {device: h100-sxm-80gb, gpus: 1024, fabric: ndr-rail}\nmodel: llama3-70b\n' +
        'parallelism: {tensor: 8, pipeline: 4, sequence_parallel: true, sharding: optimizer}\nbatch: {global: 1024, micro: 1}\n'
  ],
  ['GPT-3 175B on Eos, 10752 H100', null],
];

const browser = await open_browser();
console.log('size: ' + (statSync(page_file).size / 1e6).toFixed(2) + ' MB');
const loads = [];
for (let i = 0; i < 5; ++i) {
  const page = await (await browser.newContext()).newPage(), begun = Date.now();
  await page.goto(page_url);
  await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes');
  loads.push(Date.now() - begun);
  await page.context().close();
}
console.log(
    'from disk to the first picture: ' + median(loads) + ' ms (median of ' + loads.length + ', slowest ' +
    Math.max(...loads) + ')');
for (const [name, text] of kJobs) {
  const page = await (await browser.newContext()).newPage();
  await page.goto(page_url);
  await settled(page);
  if (text) await page.evaluate((yaml) => open_text('job.yaml', yaml), text);
  await settled(page);
  const times = [];
  for (let i = 0; i < kTrials; ++i) {
    const time = await page.evaluate(kChange, ['recompute', i % 2 === 0 ? 'full' : 'none']);
    if (time.error) throw new Error(time.error);
    times.push(time);
  }
  const whole = times.map((t) => t.whole), engine = times.map((t) => t.engine);
  console.log(
      name + ': change to picture ' + median(whole).toFixed(0) + ' ms (median of ' + kTrials + ', slowest ' +
      Math.max(...whole).toFixed(0) + '), of it in the engine ' + median(engine).toFixed(0) + ' ms');
  await page.context().close();
}
await browser.close();
