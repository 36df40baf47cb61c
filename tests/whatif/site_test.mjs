// Does a checker of accessibility find nothing on any page of the site of the documents, in light and dark, and does its
// search find a key of the language by its last word?
//   node site_test.mjs ORRERY [PART OF A NAME]
import assert from 'node:assert';
import {execFileSync, spawnSync} from 'node:child_process';
import {mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

import {open_browser, require_package, root, skip} from './browser.mjs';

const program = resolve(process.argv[2]), wanted = process.argv[3] || '';
if (spawnSync('/usr/bin/python3', ['-c', 'import markdown']).status !== 0)
  skip('the site of the documents in a browser: there is no python3-markdown (tools/bootstrap site)');
const browser = await open_browser(true);
const axe = readFileSync(require_package.resolve('axe-core/axe.min.js'), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'orrery-site-'));
execFileSync(join(root, 'tools/site'), [program, folder], {env: {...process.env, ORRERY_HOME: root}, stdio: 'pipe'});

let failed = 0;
const tried = async (name, test) => {
  if (!name.includes(wanted)) return;
  try {
    await test();
    console.log('ok      ' + name);
  } catch (error) {
    failed += 1;
    console.log('FAILED  ' + name + '\n' + String(error.stack).slice(0, 900));
  }
};
const opened = async (file, colorScheme = 'light') => {
  const page = await browser.newPage({viewport: {width: 1280, height: 900}, colorScheme});
  await page.goto(pathToFileURL(join(folder, file)).href);
  return page;
};

for (const file of readdirSync(folder).filter((name) => name.endsWith('.html'))) {
  await tried(file, async () => {
    for (const colorScheme of ['light', 'dark']) {
      const page = await opened(file, colorScheme);
      await page.evaluate(axe);
      const {violations} = await page.evaluate(() => axe.run());
      const told =
          violations.map(({id, nodes}) => id + ': ' + nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(' | '));
      assert.deepStrictEqual(told, [], colorScheme);
      await page.close();
    }
  });
}

await tried('a key is found by its last word', async () => {
  const page = await opened('index.html');
  for (const [word, key] of [
           ['virtual_pipeline', 'parallelism.virtual_pipeline'], ['oversubscription', 'cluster.fabric.oversubscription'],
           ['memory_utilization', 'memory_utilization']]) {
    await page.locator('input[type=search], input').first().fill(word);
    await page.locator('#found a').first().waitFor();
    const found = await page.locator('#found').textContent();
    assert.ok(found.includes(key), word + ' finds ' + key + ': ' + found.slice(0, 300));
  }
});

await browser.close();
rmSync(folder, {recursive: true, force: true});
process.exit(failed === 0 ? 0 : 1);
