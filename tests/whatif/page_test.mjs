// Does the page do what it says, in a real browser? What it shows is held against the program's own answers:
// node page_test.mjs ORRERY [--served] [PART OF A NAME]
import assert from 'node:assert';
import {execFileSync, spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';

import {open_browser, page_url as file_url, require_package, root, settled} from './browser.mjs';

const program = resolve(process.argv[2]);
const served = process.argv.includes('--served');
const wanted = process.argv.slice(3).find((word) => !word.startsWith('--'));
const browser = await open_browser(served);
// The one file; or the program's address, whose engine is native, where nothing was compiled to WebAssembly.
const page_url = served ? await served_url() : file_url;
const folder = mkdtempSync(join(tmpdir(), 'orrery-page-'));

function served_url() {
  const child = spawn(program, ['page', '--port', '0'], {env: {...process.env, ORRERY_HOME: root}});
  process.on('exit', () => child.kill());
  return new Promise((done) => child.stdout.once('data', (text) => done(/http:\S+/.exec(String(text))[0])));
}

// What `orrery run`, or another command, says of a scenario, as JSON.
function native(words, command = 'run') {
  const options = {cwd: folder, env: {...process.env, ORRERY_HOME: root}, maxBuffer: 1 << 28};
  return JSON.parse(execFileSync(program, [command, ...words, '--json', '-'], options));
}
// The words of a command line as the page shows it.
const words_of = (command) => [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain);
const result_of = (page) => page.evaluate(() => state.answer.result);
const errors_of = (page) => page.evaluate(() => document.documentElement.dataset.errors);

// The page with the largest published run, without a link.
async function opened(options = {}, hash = '') {
  const page = await browser.newPage({viewport: {width: 1440, height: 1000}, ...options});
  await page.goto(page_url + hash);
  await settled(page);
  if (!hash) await page.locator('#scenario').selectOption('eos-gpt3-175b');
  await settled(page);
  return page;
}

// A value typed into the field of a key, as a user does it.
async function type(page, path, value) {
  const field = page.locator('#key-' + path.replaceAll('.', '-'));
  await field.fill(value);
  await field.press('Enter');
  await settled(page);
}

// The text of the scenario, typed over what stands there.
async function write(page, text) {
  await page.locator('#text').focus();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(text);
  await page.waitForTimeout(400);
  await settled(page);
}

const tests = {
  async 'a change of a slider shows what the command beside it prints'() {
    const page = await opened();
    await page.locator('#key-parallelism-tensor').locator('xpath=preceding-sibling::input').focus();
    await page.keyboard.press('ArrowRight');
    await settled(page);
    const shown = await result_of(page), command = await page.locator('#command').textContent();
    assert.match(command, /^orrery run eos-gpt3-175b --set parallelism\.tensor=8 --set parallelism\.data=null$/);
    const said = native(command.split(' ').slice(2));
    assert.strictEqual(shown.iteration_time_s, said.iteration_time_s);
    assert.deepStrictEqual(shown.breakdown_s, said.breakdown_s);
    assert.deepStrictEqual(shown.memory, said.memory);
    assert.match(await page.locator('#tiles').textContent(), new RegExp('MFU' + said.mfu_pct.toFixed(1) + ' %'));
    assert.strictEqual(await page.locator('#key-parallelism-data').textContent(), '168');
  },

  async 'what cannot run is said beside its key, in the program\'s words, and the last result stays'() {
    const page = await opened(), before = await result_of(page);
    await type(page, 'parallelism.tensor', '7');
    const note = await page.locator('#key-parallelism-tensor-note').textContent();
    assert.match(note, /expected a divisor of model\.heads, which is 96, got 7/);
    assert.strictEqual(await page.locator('#key-parallelism-tensor').getAttribute('aria-invalid'), 'true');
    assert.match(await page.locator('#banner').textContent(), /This cannot run/);
    assert.strictEqual((await result_of(page)).iteration_time_s, before.iteration_time_s);
    // A link to it keeps every control, and the nearest that runs is one button away.
    const link = await opened({}, await page.evaluate(() => link_text()));
    assert.strictEqual(await link.locator('#key-parallelism-tensor').inputValue(), '7');
    assert.strictEqual(await link.locator('#key-parallelism-pipeline').inputValue(), '8');
    await link.close();
    await page.locator('#nearest').click();
    await settled(page);
    assert.strictEqual(await page.locator('#banner').isVisible(), false);
    assert.notStrictEqual(await page.evaluate(() => value_of('parallelism.tensor')), '7');
    await type(page, 'parallelism.tensor', '4');
    assert.strictEqual(await page.locator('#banner').isVisible(), false);
  },

  async 'it opens on a scenario whose first moves answer, and says what followed from them'() {
    const page = await browser.newPage({viewport: {width: 1440, height: 1000}});
    await page.goto(page_url);
    await settled(page);
    assert.strictEqual(await page.locator('#scenario').inputValue(), 'gpt3-6.7b-h100');
    await type(page, 'batch.micro', '3');
    assert.strictEqual(await page.locator('#banner').isVisible(), false);
    assert.match(await page.locator('#followed').textContent(), /batch\.global is \d+/);
    const field = page.locator('#key-batch-global');
    await field.focus();  // what follows is shown in a control that has the focus too
    const before = await field.inputValue();
    await page.evaluate(() => changed('batch.micro', '7'));
    await settled(page);
    assert.notStrictEqual(await field.inputValue(), before);
    await type(page, 'training.tokens', '1e12');
    await type(page, 'cost.price_per_gpu_hour_usd', '2.5');
    assert.match(await page.locator('#tiles').textContent(), /Training[\d.]+ days\$[\d,]+/);
    await page.close();
  },

  async 'advice is of what is on the screen, and taken by one click'() {
    const page = await browser.newPage({viewport: {width: 1440, height: 1000}});
    await page.goto(page_url);
    await settled(page);
    const before = await result_of(page);
    await page.locator('#advise').click();
    await page.locator('#advice-rows tbody button').first().click({timeout: 60000});
    await settled(page);
    assert.ok((await result_of(page)).iteration_time_s < before.iteration_time_s);
    assert.match(await page.locator('#tiles').textContent(), /two in three/);
    await page.close();
  },

  async 'what is served is answered as orrery serving does, and a link keeps every control'() {
    const page = await opened();
    await page.locator('input[name="kind"][value="serve"]').check();
    await settled(page);
    await type(page, 'traffic.duration', '60');
    await page.locator('#key-serving-pools-0-parallelism-tensor').fill('8');
    await page.keyboard.press('Enter');
    await settled(page);
    assert.match(await page.locator('#followed').textContent(), /replicas is left open/);
    await page.locator('#key-traffic').selectOption('closed loop');
    await settled(page);
    const shown = await result_of(page), command = await page.locator('#command').textContent();
    assert.match(command, /^orrery serving llama3\.1-70b-serving-h100 --set /);
    assert.deepStrictEqual(shown, native(words_of(command).slice(2), 'serving'));
    assert.match(await page.locator('#latencies').textContent(), /time to first token/);
    const other = await opened({}, await page.evaluate(() => link_text()));
    assert.strictEqual(await other.locator('#command').textContent(), command);
    assert.strictEqual(await other.locator('#key-traffic').inputValue(), 'closed loop');
    assert.strictEqual(await other.locator('input[name="kind"]:checked').inputValue(), 'serve');
    await other.close();
    await page.locator('#key-traffic').selectOption('open loop');
    await type(page, 'traffic.rate', '200');
    assert.match(await page.locator('#banner').textContent(), /Saturated/);
    await type(page, 'traffic.rate', '2');
    await page.locator('#loads').click();
    await page.waitForFunction(() => loads.length === 6, null, {timeout: 60000});
    assert.match(await page.locator('#load-rows').textContent(), /saturated|%/);
  },

  async 'a step of reinforcement learning is answered as orrery rl does, and the GPUs are shared out'() {
    const page = await opened();
    await page.locator('input[name="kind"][value="rl"]').check();
    await settled(page);
    await type(page, 'rl.prompts', '64');
    await page.locator('#key-rl-placement').selectOption('asynchronous');
    await settled(page);
    const shown = await result_of(page), command = await page.locator('#command').textContent();
    assert.match(command, /^orrery rl qwen3-32b-grpo-256h100-separate /);
    assert.deepStrictEqual(shown, native(words_of(command).slice(2), 'rl'));
    await page.locator('#ask-splits').click();
    await page.locator('#split-rows button').first().click({timeout: 120000});
    await settled(page);
    assert.ok((await result_of(page)).step_s <= shown.step_s);
    await page.locator('input[name="kind"][value="train"]').check();
    await settled(page);
    assert.strictEqual(await page.locator('#scenario').inputValue(), 'eos-gpt3-175b');
  },

  async 'an error in the text is shown at its line'() {
    const page = await opened();
    await write(page, 'cluster: {device: h100-sxm-80gb, gpus: 8}\nmodel: gpt3-6.7b\nbatch: {globl: 8}\n');
    assert.match(await page.locator('#banner').textContent(), /:3:9: batch\.globl: unknown key; did you mean "global"/);
    assert.strictEqual((await page.locator('.wrong .CodeMirror-linenumber, #lines .wrong').textContent()).trim(), '3');
    await write(page, 'cluster: {device: h100-sxm-80gb, gpus: 8}\nmodel: gpt3-6.7b\nbatch: {global: 8}\n');
    writeFileSync(join(folder, 'own.yaml'), await page.evaluate(() => written.value()));
    assert.strictEqual((await result_of(page)).iteration_time_s, native(['own.yaml']).iteration_time_s);
  },

  async 'what may stand at a place of the text is offered with what it means'() {
    const page = await opened();
    const offered = (text) =>
        page.evaluate((before) => completions_at(before).list.map((one) => one.text.trim()), text);
    for (const [text, word] of [
             ['clus', 'cluster:'], ['cluster: {device: h100', 'h100-sxm-80gb'],
             ['serving:\n  pools:\n  - {role: pre', 'prefill'],
             ['serving:\n  pools:\n    - name: all\n      max_s', 'max_sequences:'], ['traffic:\n  ', 'rate:'],
             ['rl:\n  training:\n    parallelism: {ten', 'tensor:'], ['precision: {kv_cache: ', 'fp8'],
             ['# clus: {\nbatch:\n  mi', 'micro:']])
      assert.ok((await offered(text)).includes(word), text + ' is offered ' + word);
    assert.match(await page.evaluate(() => help_at('cluster: {gp', 'us: 8}')), /^cluster\.gpus: .+ \(integer/);
    if (!await page.evaluate(() => typeof CodeMirror !== 'undefined')) return;
    await page.locator('#text').focus();
    await page.keyboard.press('Control+End');
    await page.keyboard.press('Enter');
    await page.keyboard.type('pow');
    await page.locator('.CodeMirror-hints li').first().waitFor();
    await page.keyboard.press('Enter');
    assert.match(await page.evaluate(() => written.value()), /\npower: $/);
  },

  async 'out of memory is a banner with ways out, and a way out that is chosen fits'() {
    const page = await opened();
    await page.locator('#scenario').selectOption('gpt3-6.7b-h100');
    await settled(page);
    await type(page, 'parallelism.tensor', '1');
    await type(page, 'batch.micro', '8');
    assert.match(await page.locator('#banner').textContent(), /Out of memory/);
    assert.strictEqual((await result_of(page)).memory.fits, false);
    await page.locator('#banner button').first().click({timeout: 20000});
    await settled(page);
    assert.strictEqual((await result_of(page)).memory.fits, true);
    assert.strictEqual(await page.locator('#banner').isVisible(), false);
  },

  async 'variants are compared with the first, and a link brings all of it back'() {
    const page = await opened();
    await page.locator('#pin').click();
    await page.locator('#key-precision').selectOption('bf16');
    await settled(page);
    await page.locator('#pin').click();
    const rows = page.locator('table.variants tbody tr');
    assert.strictEqual(await rows.count(), 2);
    const pins = await page.evaluate(() => state.pins.map((pin) => pin.result.iteration_time_s));
    const pct = 100 * (pins[1] / pins[0] - 1);
    assert.ok(Math.abs(pct) > 0.1, 'the variants differ');
    assert.match(
        await rows.nth(1).textContent(), new RegExp('\\' + (pct > 0 ? '+' : '-') + Math.abs(pct).toFixed(1) + ' %'));
    const hash = await page.evaluate(() => link_text());
    const other = await opened({}, hash);
    await other.waitForFunction(() => state.pins.length === 2 && state.pins.every((pin) => pin.result));
    assert.strictEqual((await result_of(other)).iteration_time_s, pins[1]);
    assert.deepStrictEqual(await other.evaluate(() => state.pins.map((pin) => pin.result.iteration_time_s)), pins);
  },

  async 'a sweep gives the program\'s points, and one that is chosen becomes the scenario'() {
    const page = await opened();
    await page.locator('#scenario').selectOption('gpt3-6.7b-h100');
    await settled(page);
    for (const [path, words] of [
             ['parallelism-tensor', '1 2 4'], ['parallelism-pipeline', '1, 2'], ['batch-micro', '1,2']])
      await page.locator('#sweep-' + path).fill(words);
    await page.locator('#sweep-go').click();
    await page.waitForFunction(() => sweep.total > 0 && sweep.done === sweep.total && sweep.engines.length === 0);
    const points = await page.evaluate(() => sweep.points);
    assert.strictEqual(points.length, 12);
    const good = points.filter((point) => point.status === 'ok').sort((a, b) => a.iteration_s - b.iteration_s);
    assert.ok(good.length > 6);
    const sets = good[0].sets.flatMap(([path, value]) => ['--set', path + '=' + value]);
    assert.strictEqual(native(['gpt3-6.7b-h100', ...sets]).iteration_time_s, good[0].iteration_s);
    await page.locator('#sweep-best button').first().click();
    await settled(page);
    assert.strictEqual((await result_of(page)).iteration_time_s, good[0].iteration_s);
  },

  async 'a launch script that is dropped and a config.json that is opened become scenarios'() {
    const page = await opened();
    const script = readFileSync(join(root, 'tests/whatif/launch.sh'), 'utf8');
    await page.evaluate((text) => take_text('launch.sh', text), script);
    await settled(page);
    const said = JSON.parse(JSON.stringify(await result_of(page)));
    writeFileSync(join(folder, 'launch.sh'), script);
    execFileSync(
        program, ['import', 'megatron', 'launch.sh', '--out', 'imported.yaml', '--quiet'],
        {cwd: folder, env: {...process.env, ORRERY_HOME: root}});
    assert.strictEqual(said.iteration_time_s, native(['imported.yaml']).iteration_time_s);
    await page.locator('#scenario').selectOption('gpt3-6.7b-h100');
    await settled(page);
    const config = {
      model_type: 'llama',
      architectures: ['LlamaForCausalLM'],
      hidden_size: 2048,
      num_hidden_layers: 16,
      num_attention_heads: 32,
      num_key_value_heads: 8,
      intermediate_size: 8192,
      vocab_size: 128256,
      max_position_embeddings: 4096,
      tie_word_embeddings: true
    };
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('#open-file').click()]);
    await chooser.setFiles(
        {name: 'config.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(config))});
    await page.waitForFunction(() => state.layout && state.layout['model.hidden'] === 2048);
    assert.strictEqual(await page.evaluate(() => state.error), '');
  },

  async 'what is exported is read again: YAML, CSV, a picture'() {
    const page = await opened();
    await type(page, 'parallelism.virtual_pipeline', '6');
    const shown = await result_of(page);
    const saved = async (kind) => {
      if (!await page.evaluate(() => place('export').open)) await page.locator('#export summary').click();
      const [file] = await Promise.all([page.waitForEvent('download'), page.locator(`[data-export=${kind}]`).click()]);
      return readFileSync(await file.path());
    };
    writeFileSync(join(folder, 'saved.yaml'), await saved('yaml'));
    assert.strictEqual(native(['saved.yaml']).iteration_time_s, shown.iteration_time_s);
    const csv = String(await saved('csv')).trim().split('\r\n').map((line) => line.split(','));
    assert.strictEqual(Number(csv[1][csv[0].indexOf('iteration_time_s')]), shown.iteration_time_s);
    assert.strictEqual((await saved('png')).subarray(1, 4).toString(), 'PNG');
    const svg = String(await saved('svg'));
    const boxes = await page.evaluate((text) => {
      const parsed = new DOMParser().parseFromString(text, 'image/svg+xml');
      return parsed.querySelector('parsererror') ? -1 : parsed.querySelectorAll('rect').length;
    }, svg);
    assert.ok(boxes > 200, 'boxes of the timeline in the SVG: ' + boxes);
  },

  async 'a checker of accessibility finds nothing, in light and dark, on a phone and wide'() {
    const axe = readFileSync(require_package.resolve('axe-core/axe.min.js'), 'utf8');
    const wide = {width: 1440, height: 900}, phone = {width: 360, height: 740};
    for (const colorScheme of ['light', 'dark']) {
      for (const [kind, viewport] of [
               ['train', wide], ['train', phone], ['serve', wide], ['serve', phone], ['rl', wide]]) {
        const page = await opened({colorScheme, viewport});
        await page.locator(`input[name="kind"][value="${kind}"]`).check();
        await settled(page);
        await page.locator('#pin').click();
        if (kind === 'train') await type(page, 'parallelism.tensor', '7');
        await page.evaluate(axe);
        const {violations} = await page.evaluate(() => axe.run());
        const told =
            violations.map(({id, nodes}) => id + ': ' + nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(' | '));
        assert.deepStrictEqual(told, [], [colorScheme, kind, viewport.width].join(' '));
        assert.ok(
            await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'no sideways scrolling');
        await page.close();
      }
    }
  },

  async 'the keyboard alone reaches every control, in the order of the page'() {
    const page = await opened(), seen = new Set();
    for (let i = 0; i < 120; ++i) {
      await page.keyboard.press('Tab');
      seen.add(await page.evaluate(() => document.activeElement.id || document.activeElement.textContent.slice(0, 20)));
    }
    for (const id
             of ['scenario', 'pin', 'share', 'key-cluster-gpus', 'key-parallelism-pipeline', 'key-precision',
                 'sweep-go', 'text'])
      assert.ok(seen.has(id), id + ' is reached by Tab');
  },

  async 'markup in a scenario stays text, in the page, its links and its pictures'() {
    const page = await opened(), evil = '<img src=x onerror="window.hit=1"></script><b>';
    const text = 'name: \'' + evil + '\'\ndescription: \'' + evil +
        '\'\ncluster: {device: h100-sxm-80gb, gpus: 8}\nmodel: gpt3-6.7b\nbatch: {global: 8}\n';
    await page.evaluate((yaml) => open_text('x.yaml', yaml), text);
    await settled(page);
    await page.locator('#pin').click();
    await page.locator('table.variants input').fill(evil);
    await page.locator('table.variants input').press('Enter');
    assert.strictEqual(await page.locator('#title').textContent(), evil);
    const other = await opened({}, await page.evaluate(() => link_text()));
    await other.waitForFunction(() => state.pins.length === 1);
    assert.strictEqual(await other.locator('table.variants input').inputValue(), evil);
    const svg = await other.evaluate(() => svg_of_page());
    assert.ok(svg.includes('&lt;img') && !svg.includes('<img'));
    for (const one of [page, other]) {
      assert.strictEqual(await one.evaluate(() => window.hit), undefined);
      assert.strictEqual(await one.locator('img, b').count(), 0);
    }
  },

  async 'nothing is asked of any network, and the page could not if it would'() {
    const page = await browser.newPage(), asked = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(page_url);
    await settled(page);
    await page.locator('#sweep-go').click();
    await page.waitForFunction(() => sweep.done > 6);
    assert.deepStrictEqual(asked.filter((url) => url !== page_url && !/^(blob|data):/.test(url)), []);
    const reached = await page.evaluate(() => fetch('http://127.0.0.1:9/').then(() => 'reached', () => 'refused'));
    assert.strictEqual(reached, 'refused');
    const policy = await page.evaluate(() => new Promise((done) => {
                                         document.addEventListener(
                                             'securitypolicyviolation', (event) => done(event.effectiveDirective));
                                         fetch('http://127.0.0.1:9/').catch(() => {});
                                       }));
    assert.strictEqual(policy, 'connect-src');
    await page.context().close();
  },

  async 'the served page shows the same, with and without a token'() {
    for (const words of [[], ['--token', 'a-token-of-some-length']]) {
      const child = spawn(program, ['page', '--port', '0', ...words], {env: {...process.env, ORRERY_HOME: root}});
      try {
        const said = await new Promise((done) => child.stdout.once('data', (text) => done(String(text))));
        const page = await browser.newPage();
        await page.goto(/http:\S+/.exec(said)[0]);
        await settled(page);
        assert.strictEqual(await page.evaluate(() => serves()), true);
        await page.locator('#scenario').selectOption('eos-gpt3-175b');
        await settled(page);
        await type(page, 'parallelism.virtual_pipeline', '6');
        const sets = ['--set', 'parallelism.virtual_pipeline=6', '--set', 'parallelism.schedule=null'];
        assert.strictEqual(
            (await result_of(page)).iteration_time_s, native(['eos-gpt3-175b', ...sets]).iteration_time_s);
      } finally {
        child.kill();
      }
    }
  },

  async 'what goes with a change goes with its reset'() {
    const page = await opened(), before = await result_of(page);
    await type(page, 'parallelism.pipeline', '1');  // no virtual stages on one stage, and more replicas
    assert.strictEqual(await page.evaluate(() => state.sets.size), 4);
    await type(page, 'parallelism.tensor', '8');
    await page.locator('button[aria-label="Reset Pipeline"]').click();
    await settled(page);
    assert.strictEqual(
        await page.locator('#command').textContent(),
        'orrery run eos-gpt3-175b --set parallelism.tensor=8 --set parallelism.data=null');
    await page.locator('button[aria-label="Reset Tensor"]').click();
    await settled(page);
    assert.strictEqual(await page.evaluate(() => state.sets.size), 0);
    assert.strictEqual((await result_of(page)).iteration_time_s, before.iteration_time_s);
  },

  async 'the newest wish wins: of many changes at once the last is shown'() {
    const page = await opened();
    await page.evaluate(() => {
      document.documentElement.dataset.shown = '0';
      for (const tensor of ['1', '2', '4', '2', '1', '8']) changed('parallelism.tensor', tensor);
    });
    await settled(page);
    assert.strictEqual(await page.evaluate(() => state.layout['parallelism.tensor']), 8);
    assert.ok(
        Number(await page.evaluate(() => document.documentElement.dataset.shown)) <= 2,
        'those in between are left out');
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  if (wanted && !name.includes(wanted)) continue;
  if (served && /network/.test(name)) continue;  // which the served page asks
  const begun = Date.now();
  try {
    await test();
    for (const context of browser.contexts())
      for (const page of context.pages()) assert.strictEqual(await errors_of(page), '[]', 'errors in the page');
    console.log('ok      ' + name + ' (' + (Date.now() - begun) + ' ms)');
  } catch (error) {
    failed += 1;
    console.log('FAILED  ' + name + '\n' + String(error.stack).slice(0, 1500));
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
rmSync(folder, {recursive: true, force: true});
process.exit(failed === 0 ? 0 : 1);
