// `orrery page`: the same answers over HTTP, and a line for everybody who has no business there:
// node serve_test.mjs ORRERY
import assert from 'node:assert';
import {execFileSync, spawn} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {request as http_request} from 'node:http';
import {connect} from 'node:net';
import {join, resolve} from 'node:path';

import {root} from './browser.mjs';

const program = resolve(process.argv[2]);
const env = {
  ...process.env,
  ORRERY_HOME: root
};

// A server on a free port: {port, stop()}; stop gives the exit status after Ctrl-C.
function serve_as(word, ...words) {
  return new Promise((done, fail) => {
    const child = spawn(program, [word, '--port', '0', ...words], {env});
    process.on('exit', () => child.kill());  // also where a test fails
    const ended = new Promise((end) => child.on('exit', end));
    child.stdout.on('data', (text) => {
      const address = /:(\d+)\//.exec(String(text));
      if (!address) return fail(new Error('no address in ' + text));
      done({port: Number(address[1]), stop: () => (child.kill('SIGINT'), ended)});
    });
  });
}

const serve = (...words) => serve_as('page', ...words);

// {status, text} of a request.
function ask(port, {
  path = '/answer',
  method = 'POST',
  headers = {
    'Content-Type': 'application/json'
  },
  body = ''
}) {
  return new Promise((done, fail) => {
    const sent = http_request({port, host: '127.0.0.1', path, method, headers}, (response) => {
      let text = '';
      response.on('data', (part) => text += part);
      response.on('end', () => done({status: response.statusCode, text}));
    });
    sent.on('error', fail);
    sent.end(body);
  });
}
const refused = ({status, text}, expected, what) => {
  assert.strictEqual(status, expected);
  assert.match(text, /^orrery page: [^\n]+\n$/);
  assert.match(text, what);
};

// Bytes as they are, and what comes back until the connection ends.
function raw(port, bytes) {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.on('data', (part) => text += part);
    socket.on('error', () => {});
    socket.on('close', () => done(text));
  });
}

function refused_to_start(...words) {
  try {
    execFileSync(program, ['page', ...words], {env, stdio: 'pipe', timeout: 10000});
  } catch (error) {
    assert.strictEqual(error.status, 2);
    assert.match(String(error.stderr), /^[^\n]+\n$/);
    return String(error.stderr);
  }
  throw new Error('it serves');
}

const tests = {
  async 'a step, as the command line has it'(port) {
    const sets = ['parallelism.tensor=4', 'parallelism.data=null'];
    const text = readFileSync(join(root, 'scenarios/gpt3-6.7b-h100.yaml'), 'utf8');
    const {status, text: answer} = await ask(port, {body: JSON.stringify({do: 'run', text, sets})});
    assert.strictEqual(status, 200);
    const {result} = JSON.parse(answer);
    const words = ['run', 'gpt3-6.7b-h100', '--json', '-', ...sets.flatMap((set) => ['--set', set])];
    const said = JSON.parse(execFileSync(program, words, {env}));
    for (const key of ['iteration_time_s', 'breakdown_s', 'memory', 'traffic'])
      assert.deepStrictEqual(result[key], said[key]);
  },
  async 'many at once'(port) {
    const text =
        'cluster: {device: h100-sxm-80gb, gpus: 64, fabric: ndr-rail}\nmodel: gpt3-6.7b\nbatch: {global: 256}\n';
    const micros = ['1', '2', '4', '1', '2', '4', '1', '2', '4', '1', '2', '4'];
    const answers = await Promise.all(
        micros.map((micro) => ask(port, {body: JSON.stringify({do: 'run', text, sets: ['batch.micro=' + micro]})})));
    const times = answers.map(({text: answer}) => JSON.parse(answer).result.iteration_time_s);
    assert.deepStrictEqual(times.slice(3, 6), times.slice(0, 3));
    assert.strictEqual(new Set(times).size, 3);
  },
  async 'what a scenario gets wrong'(port) {
    const {text} = await ask(port, {body: JSON.stringify({do: 'run', text: 'modl: gpt3-6.7b'})});
    assert.match(JSON.parse(text).error, /^scenario\.yaml:1:1: modl: unknown key; did you mean "model"/);
  },
  async 'no file of this machine is read for a browser'(port) {
    for (const model of ['/etc/passwd', '../secret.yaml', '{inherits: ./model.yaml}']) {
      const text = 'cluster: {device: h100-sxm-80gb, gpus: 8}\nbatch: {global: 8}\nmodel: ' + model + '\n';
      for (const body of [{do: 'run', text}, {do: 'points', text, points: [[]]}, {do: 'remedies', text}])
        assert.match((await ask(port, {body: JSON.stringify(body)})).text, /files are read on the command line alone/);
    }
  },
  async 'another page, by its host or its type'(port) {
    const body = JSON.stringify({do: 'catalogue'});
    refused(await ask(port, {headers: {Host: 'example.com', 'Content-Type': 'application/json'}, body}), 403, /host/);
    refused(await ask(port, {headers: {'Content-Type': 'text/plain'}, body}), 415, /application\/json/);
    refused(await ask(port, {path: '/etc/passwd', method: 'GET'}), 404, /expected GET/);
  },
  async 'too much, and what is no request'(port) {
    refused(
        await ask(port, {headers: {'Content-Type': 'application/json', 'Content-Length': String(9 << 20)}, body: ''}),
        413, /8 MiB/);
    assert.match(await raw(port, 'tell me\r\n\r\n'), /^HTTP\/1\.1 400 /);
    assert.match(
        await raw(
            port,
            'GET / HTTP/1.1\r\nX: ' +
                'a'.repeat(40000) + '\r\n\r\n'),
        /^HTTP\/1\.1 400 /);
    for (const body of ['', '{', '[]', '7', '{"do": 3}', '{"do": "run", "text": 7}', '{"do": "run", "sets": {}}'])
      assert.match((await ask(port, {body})).text, /^\{"error":"[^\n]+"\}$/);
  },
};

// Thousands of steps of a large job: minutes.
const long_request = () => {
  const text = readFileSync(join(root, 'scenarios/gpt-1t-h100-102400.yaml'), 'utf8');
  const points = Array.from({length: 4000}, (_, i) => [`cluster.fabric.nic_latency=${i + 1} ns`]);
  const body = JSON.stringify({do: 'points', text, points});
  return 'POST /answer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ' +
      Buffer.byteLength(body) + '\r\n\r\n' + body;
};
const connected = (port) => new Promise((done, fail) => {
  const socket = connect(port, '127.0.0.1', () => done(socket));
  socket.on('error', fail);
});
const seconds_since = (begin) => (performance.now() - begin) / 1e3;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

Object.assign(tests, {
  async 'a request that nests'(port) {
    for (const depth of [100000, 2000000]) {
      const {text} = await ask(port, {body: '{"do":' + '['.repeat(depth) + ']'.repeat(depth) + '}'});
      assert.match(text, /^\{"error":"request:1:\d+: got more than 64 levels of nesting[^\n]+"\}$/);
    }
  },
  async 'while two long requests are answered, and once their clients have left'(port) {
    const held = [await connected(port), await connected(port)];
    for (const socket of held) socket.write(long_request());
    await pause(500);
    const begin = performance.now();
    assert.strictEqual((await ask(port, {path: '/', method: 'GET'})).status, 200);
    assert(seconds_since(begin) < 1, 'the page waits for what is simulated');
    for (const socket of held) socket.destroy();
    const {status} = await ask(port, {body: JSON.stringify({do: 'catalogue'})});  // by an engine
    assert.strictEqual(status, 200);
    assert(seconds_since(begin) < 10, 'work whose client has left is gone on with');
  },
  async 'connections that say nothing'(port) {
    const idle = [];
    for (let i = 0; i < 200; ++i) {
      idle.push(await connected(port));
      if (i % 2) idle.at(-1).write('POST /answer HTTP/1.1\r\nHost: ');
      idle.at(-1).on('error', () => {});
    }
    const begin = performance.now();
    assert.strictEqual((await ask(port, {path: '/', method: 'GET'})).status, 200);
    assert(seconds_since(begin) < 1, 'they shut others out');
    for (const socket of idle) socket.destroy();
  },
});

const open = await serve_as('serve', '--jobs', '2');  // its earlier name
for (const [name, test] of Object.entries(tests)) {
  await test(open.port);
  console.log('ok      ' + name);
}
assert.strictEqual(await open.stop(), 0);
console.log('ok      Ctrl-C ends it');

const busy = await serve('--jobs', '2');
for (let i = 0; i < 3; ++i) (await connected(busy.port)).on('error', () => {}).write(long_request());
await pause(500);
const begin = performance.now();
assert.strictEqual(await busy.stop(), 0);
assert(seconds_since(begin) < 1, 'it goes on simulating');
console.log('ok      Ctrl-C ends it within a second, whatever it is at');

const token = 'a-token-of-some-length';
const closed = await serve('--token', token);
const headers = {
  'Content-Type': 'application/json',
  'X-Orrery-Token': token
},
      body = JSON.stringify({do: 'catalogue'});
assert.strictEqual((await ask(closed.port, {headers, body})).status, 200);
refused(await ask(closed.port, {headers: {...headers, 'X-Orrery-Token': token + '1'}, body}), 403, /token/);
refused(await ask(closed.port, {body}), 403, /token/);
refused(await ask(closed.port, {path: '/', method: 'GET'}), 403, /token/);
assert.strictEqual((await ask(closed.port, {path: '/?token=' + token, method: 'GET'})).status, 200);
await closed.stop();
console.log('ok      a token is asked for');

assert.match(refused_to_start('--listen', '0.0.0.0'), /without --token/);
assert.match(refused_to_start('--listen', 'everywhere', '--token', token), /in digits/);
assert.match(refused_to_start('--token', 'short'), /at least 16/);
const first = await serve();
assert.match(refused_to_start('--port', String(first.port)), /cannot be listened on/);
await first.stop();
console.log('ok      what it does not serve on');
