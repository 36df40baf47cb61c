// Puts the what-if page together: node assemble.mjs WASM_FOLDER OUT.html. The lines of index.html that ask for a part
// are replaced by it; the module and its code go in compressed, as base64, since browsers unpack them faster than they
// read them.
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';

import {load_engine} from './module.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const folders = [join(here, 'page'), join(here, '../report/page')];
const charts = ['/usr/share/javascript/chart.js', '/usr/share/nodejs/chart.js/dist'].flatMap(
    (folder) => [join(folder, 'chart.min.js'), join(folder, 'Chart.min.js')]);

const first = (paths, what) => {
  for (const path of paths) {
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
  }
  throw new Error('assemble: there is no ' + what + ' in ' + paths.join(', '));
};
// The editor's (libjs-codemirror); without it that is a plain field.
const codemirror = {
  'codemirror.js': 'codemirror.js',
  'codemirror-yaml.js': 'mode/yaml/yaml.js',
  'codemirror-hint.js': 'addon/hint/show-hint.js',
  'codemirror.css': 'codemirror.css',
  'codemirror-hint.css': 'addon/hint/show-hint.css',
};
function part(name) {
  if (name === 'chart.js') return first(charts, 'Chart.js (the package libjs-chart.js)');
  if (!(name in codemirror)) return first(folders.map((folder) => join(folder, name)), name);
  const file = join('/usr/share/javascript/codemirror', codemirror[name]);
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}
const packed = (bytes) => gzipSync(bytes, {level: 9}).toString('base64');
const script = (attributes, text) => {
  if (/<\/script/i.test(text)) throw new Error('assemble: a part holds </script, which a page cannot hold');
  return '<script' + attributes + '>\n' + text + '</script>';
};

const [wasm, out] = process.argv.slice(2);

// What ships, as the engine tells it: asked for now, since reading every document takes a second.
async function catalogue() {
  const reply = (await load_engine(wasm)).answer({do: 'catalogue'});
  if (!reply.scenarios) throw new Error('assemble: ' + JSON.stringify(reply));
  return JSON.stringify(reply).replaceAll('<', '\\u003c');
}

const octets = (id, file) =>
    script(' type="application/octet-stream" id="' + id + '"', packed(readFileSync(join(wasm, file))));
const embedded = [
  octets('engine-wasm', 'engine.wasm'),
  octets('engine-code', 'engine.js'),
  script(' type="text/plain" id="engine-worker"', part('worker.js')),
  script(' type="application/json" id="catalogue"', await catalogue()),
].join('\n');

const page = part('index.html')
                 .split('\n')
                 .map((line) => {
                   const asked = /^<!-- insert:(\w+)(?::([\w.-]+))? -->$/.exec(line);
                   if (!asked && line.includes('<!-- insert:')) throw new Error('assemble: what does this ask for? ' + line);
                   if (!asked) return line;
                   if (asked[1] === 'data') return embedded;
                   return asked[1] === 'style' ? '<style>\n' + part(asked[2]) + '</style>' : script('', part(asked[2]));
                 })
                 .join('\n');
writeFileSync(out, page);
console.log(out + ': ' + (Buffer.byteLength(page) / 1e6).toFixed(2) + ' MB');
