// What the page shows: a scenario as text, the changes laid over it, and what came of them last. It goes into the
// address, so that a link brings back all of it.
'use strict';

// What timeline.js draws from: the numbers behind the charts of the last step.
let data = {};

const state = {
  kind: 'train',    // what is asked: train, serve or rl
  catalogue: null,  // what ships, and the keys of the language
  name: '',         // of the shipped scenario; empty for a text of the user's own
  file: 'scenario.yaml',
  text: '',         // YAML
  sets: new Map(),  // path of the language -> value, laid over the text in this order
  base: null,       // what the text alone resolves to, by path
  layout: null,     // what text and changes resolve to, of the last step
  answer: null,     // of the last step
  error: '',        // of the last request, where it had one
  changed: '',      // the key that a control changed last
  nearest: null,    // of the last request, where it cannot run: {set, keeps, follows}
  followed: [],     // what was laid over the scenario beside the last change, so that it runs
  pins: [],         // {name, sets: [[path, value]], result}
  kept: {},         // by kind, what was open there: {name, file, text, sets, pins}
  ms: 0,
};

const shipped = (name) => state.catalogue.scenarios.find((scenario) => scenario.name === name);
// Of a path whose list items have numbers, and of sections within rl, which mean what they mean outside of it.
const schema_path = (path) => path.replace(/\[\d+\]/g, '[]');
function key_of(path) {
  const asked = schema_path(path),
        outside = asked.replace('rl.rollout.pools', 'serving.pools').replace(/^rl\.(rollout|training)\./, '');
  return state.catalogue.keys.find((key) => key.path === asked) ||
      state.catalogue.keys.find((key) => key.path === outside);
}
// By the sections of a text, before the engine has read it.
function kind_of_text(text) {
  if (/^\s*"?rl"?\s*:/m.test(text.replace(/^[ \t]+.*$/gm, ''))) return 'rl';
  return /^"?serving"?\s*:/m.test(text) ? 'serve' : 'train';
}
const set_texts = (sets) => [...sets].map(([path, value]) => path + '=' + value);

// "path=value" as the page lays it over the scenario.
const pair_of = (set) => [set.slice(0, set.indexOf('=')), set.slice(set.indexOf('=') + 1)];

function request_of(sets, more = {}) {
  return {do: 'run', text: state.text, file: state.file, sets: set_texts(sets), remedies: false, ...more};
}

// ---- the command line ----
const plain = /^[A-Za-z0-9_.,:=\/+-]+$/;
const quoted = (word) => plain.test(word) ? word : '\'' + word.replaceAll('\'', '\'\\\'\'') + '\'';
function command_of(sets) {
  const words = ['orrery', kKinds[state.kind].command, state.name || state.file];
  for (const set of set_texts(sets)) words.push('--set', quoted(set));
  return words.join(' ');
}

// ---- links ----
function to_base64url(bytes) {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
function from_base64url(text) {
  return column(text.replaceAll('-', '+').replaceAll('_', '/'), Uint8Array);
}
async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

async function link_text() {
  const kept = {s: [...state.sets], p: state.pins.map((pin) => [pin.name, pin.sets])};
  if (state.name)
    kept.n = state.name;
  else
    Object.assign(kept, {f: state.file, t: state.text});
  const bytes = new TextEncoder().encode(JSON.stringify(kept));
  if (typeof CompressionStream === 'undefined') return '#j=' + to_base64url(bytes);
  return '#z=' + to_base64url(await through(new CompressionStream('deflate-raw'), bytes));
}

const pairs = (list) => Array.isArray(list) &&
    list.every((pair) => Array.isArray(pair) && pair.length === 2 && pair.every((word) => typeof word === 'string'));

// What a link holds; null where there is none. Throws where it is broken.
async function read_link(hash) {
  const found = /^#([jz])=([A-Za-z0-9_-]+)$/.exec(hash);
  if (!found) return null;
  let bytes = from_base64url(found[2]);
  if (found[1] === 'z') bytes = await through(new DecompressionStream('deflate-raw'), bytes);
  const kept = JSON.parse(new TextDecoder().decode(bytes));
  const good = pairs(kept.s) && Array.isArray(kept.p) && kept.p.every(([name, sets]) => pairs(sets)) &&
      (typeof kept.n === 'string' || typeof kept.t === 'string');
  if (!good) throw new Error('it is not of this page');
  return kept;
}
