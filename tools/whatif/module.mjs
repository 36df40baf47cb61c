// The engine's module in node, as the page's worker runs it: for tests, and for what is asked of it at build time.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';

// {answer(request)}: of a request as tools/whatif/engine.h has them.
export async function load_engine(folder) {
  const make = createRequire(import.meta.url)(resolve(join(folder, 'engine.js')));
  // Emscripten 3.1 would fetch the file, which node cannot.
  const engine = await make({wasmBinary: readFileSync(join(folder, 'engine.wasm'))});
  return {
    answer(request) {
      const bytes = new TextEncoder().encode(JSON.stringify(request));
      const at = engine._orrery_room(bytes.length);
      engine.HEAPU8.set(bytes, at);
      const size = engine._orrery_answer(at, bytes.length), from = engine._orrery_text();
      return JSON.parse(new TextDecoder().decode(engine.HEAPU8.subarray(from, from + size)));
    },
  };
}
