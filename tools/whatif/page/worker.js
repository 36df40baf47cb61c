// Runs in a worker: one engine, which answers one request at a time. The module comes compiled, so that a second worker
// costs no second compilation.
'use strict';

let engine = null;
const waiting = [];

function answer(text) {
  const bytes = new TextEncoder().encode(text);
  const at = engine._orrery_room(bytes.length);
  engine.HEAPU8.set(bytes, at);
  const size = engine._orrery_answer(at, bytes.length), from = engine._orrery_text();
  return new TextDecoder().decode(engine.HEAPU8.subarray(from, from + size));
}

function serve({id, request}) {
  const before = performance.now();
  let reply;
  try {
    reply = JSON.parse(answer(JSON.stringify(request)));
  } catch (error) {  // a trap of the module: it is in no state to go on
    reply = {bug: String(error), broken: true};
  }
  postMessage({id, reply, ms: performance.now() - before});
}

onmessage = (event) => {
  if (!event.data.module) {
    if (engine)
      serve(event.data);
    else
      waiting.push(event.data);
    return;
  }
  const instantiateWasm = (imports, done) => {
    WebAssembly.instantiate(event.data.module, imports)
        .then((instance) => done(instance, event.data.module), (error) => postMessage({failed: String(error)}));
    return {};
  };
  orrery_module({instantiateWasm}).then((module) => {
    engine = module;
    for (const request of waiting.splice(0)) serve(request);
  }, (error) => postMessage({failed: String(error)}));
};
