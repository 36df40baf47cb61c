// Where answers come from: workers that run the engine as WebAssembly, or the program that serves this page. Both take
// the same requests (tools/whatif/engine.h).
'use strict';

const embedded = (id) => document.getElementById(id);

async function unpacked(id) {
  if (typeof DecompressionStream === 'undefined')
    throw new Error('this browser cannot unpack the engine: Chromium 80, Firefox 113 or Safari 16.4 can');
  const packed = column(embedded(id).textContent.trim(), Uint8Array);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

// Requests answered by a worker of its own, in order.
class Worked {
  constructor(start) {
    this.start = start;
    this.answers = new Map();
    this.next = 0;
    this.begin();
  }
  async begin() {
    this.worker = null;
    const {url, module} = await this.start;
    this.worker = new Worker(url);
    this.worker.onmessage = ({data}) => this.take(data);
    this.worker.onerror = (event) => this.take({failed: event.message || 'the worker failed'});
    this.worker.postMessage({module});
    for (const [id, {request}] of this.answers) this.worker.postMessage({id, request});
  }
  take({id, reply, ms, failed}) {
    if (failed) {
      for (const {done} of this.answers.values()) done({reply: {bug: failed}, ms: 0});
      this.answers.clear();
      return;
    }
    const {done} = this.answers.get(id) || {};
    this.answers.delete(id);
    if (reply.broken) this.restart();
    if (done) done({reply, ms});
  }
  ask(request) {
    return new Promise((done) => {
      const id = this.next++;
      this.answers.set(id, {request, done});
      if (this.worker) this.worker.postMessage({id, request});
    });
  }
  // What is under way is given up: nobody hears of it.
  restart() {
    this.stop();
    this.begin();
  }
  stop() {
    if (this.worker) this.worker.terminate();
    this.answers.clear();
  }
}

// Requests answered by the program that served the page. The token of its address goes with each.
class Served {
  constructor() {
    this.token = new URLSearchParams(location.search).get('token') || '';
  }
  async ask(request) {
    const before = performance.now();
    try {
      const headers = {'Content-Type': 'application/json', 'X-Orrery-Token': this.token};
      const response = await fetch('answer', {method: 'POST', headers, body: JSON.stringify(request)});
      const text = await response.text();
      const reply = response.ok ? JSON.parse(text) : {error: text.trim()};
      return {reply, ms: performance.now() - before};
    } catch (error) {
      return {reply: {error: 'the program that serves this page does not answer: ' + error.message}, ms: 0};
    }
  }
  restart() {}
  stop() {}
}

const serves = () => embedded('engine-wasm') === null;

async function start_engine() {
  const [wasm, glue] = await Promise.all([unpacked('engine-wasm'), unpacked('engine-code')]);
  const code = [new TextDecoder().decode(glue), embedded('engine-worker').textContent];
  const url = URL.createObjectURL(new Blob(code, {type: 'text/javascript'}));
  return {url, module: await WebAssembly.compile(wasm)};
}
let started = null;

function new_engine() {
  if (serves()) return new Served();
  started = started || start_engine();
  return new Worked(started);
}

// One request at a time, the latest first: what was asked for in between is never answered.
class Latest {
  constructor(engine, take) {
    Object.assign(this, {engine, take, busy: false, next: null});
  }
  async ask(request) {
    this.next = request;
    if (this.busy) return;
    this.busy = true;
    while (this.next) {
      const asked = this.next;
      this.next = null;
      const answer = await this.engine.ask(asked);
      this.take(asked, answer, this.next !== null);
    }
    this.busy = false;
  }
}
