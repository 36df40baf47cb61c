// A browser for the tests: Debian's Chromium, or Firefox, without a window, driven by playwright-core.
import {existsSync} from 'node:fs';
import {createRequire} from 'node:module';
import {dirname, join} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';

export const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
export const page_file = join(root, 'build/whatif/orrery.html');
export const page_url = pathToFileURL(page_file).href;

const kChromium = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'].find((path) => path && existsSync(path));

const kFlags = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'
];

// A package that tools/bootstrap page installed below build/whatif.
export const require_package = createRequire(join(root, 'build/whatif/package.json'));

// Says why the tests cannot run here, and ends them as passed.
export function skip(why) {
  console.log('skipped: ' + why);
  process.exit(0);
}

// `served`: of the page that the program serves, which needs no module.
export async function open_browser(served = false) {
  if (!served && !existsSync(page_file)) skip('the what-if page was not built (tools/bootstrap page)');
  if (!kChromium) skip('the what-if page in a browser: there is no Chromium');
  let playwright;
  try {
    playwright = require_package('playwright-core');
  } catch (error) {
    skip('the what-if page in a browser: there is no playwright-core (tools/bootstrap page)');
  }
  return playwright.chromium.launch({executablePath: kChromium, headless: true, args: kFlags});
}

// Waits until what was asked for last is on the screen: nothing new comes for a moment.
export async function settled(page) {
  await page.waitForFunction(() => document.documentElement.dataset.ready === 'yes', null, {timeout: 30000});
  // With what waits for a moment of rest, as text that is typed, or for an answer: twice in a row nothing is under way.
  for (let quiet = 0; quiet < 2;) {
    await page.waitForFunction(() => latest !== null && !latest.busy, null, {timeout: 30000});
    await page.waitForTimeout(50);
    quiet = await page.evaluate(() => latest.busy) ? 0 : quiet + 1;
  }
}
