// Puts the page together: what is changed goes to the engine, what comes back to the screen and into the address.
'use strict';

let main_engine = null, latest = null, remembering = 0, waiting = 0;

// The address follows a moment later: browsers allow few changes of it a second.
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(async () => history.replaceState(null, '', await link_text()), 400);
}

function show_all() {
  show_controls();
  show_complaint(state.error);
  show_banner();
  show_editor();
  document.getElementById('results').classList.toggle('stale', state.error !== '');
}

// What only follows from a change is laid over the scenario with it, once; anything else is offered as a button.
function follow(request, reply, more) {
  state.nearest = reply.nearest || null;
  if (reply.nearest && reply.layout && !state.layout) state.layout = reply.layout;
  if (reply.result && !request.follows) state.followed = [];
  if (more || !reply.nearest || !reply.nearest.follows || request.follows) return false;
  state.followed = reply.nearest.set;
  take_nearest(reply.nearest.set, true);
  return true;
}
function take_nearest(sets, follows = false) {
  for (const set of sets) lay(...pair_of(set));
  simulate(follows);
}

// The kind of question is the scenario's to say; controls and sections are those of it.
function take_kind(kind) {
  if (kind === state.kind && controls.size > 0) return show_sections();
  Object.assign(state, {kind, answer: null, layout: null, base: null, base_result: null});
  build_controls(changed, () => replace_all([]));
  show_sections();
}

function take_answer(request, {reply, ms}, more) {
  if (request.text !== state.text) return;  // of what was open before
  clearTimeout(waiting);
  if (reply.kind && reply.kind !== state.kind && !more) take_kind(reply.kind);
  if (follow(request, reply, more)) return;
  state.ms = ms;
  state.error =
      reply.error || (reply.bug ? 'internal error: ' + reply.bug + ', please report this with the scenario' : '');
  if (reply.result) {
    state.answer = reply;
    state.layout = reply.layout;
    if (state.kind === 'train') data = reply.charts;
    if (request.sets.length === 0) {
      state.base = reply.layout;
      state.base_result = reply.result;
    }
    if (!more) show_results();
    if (!more && state.kind === 'train' && !reply.result.memory.fits) find_remedies(reply, request);
  }
  if (!reply.result && !state.answer) place('title').textContent = state.name || state.file;
  if (!more) {
    show_all();
    if (state.kind === 'train') show_sweep_lists();
    document.documentElement.dataset.shown = String(Number(document.documentElement.dataset.shown || 0) + 1);
    document.documentElement.dataset.ready = 'yes';
  }
}

function simulate(follows = false) {
  clearTimeout(waiting);
  waiting = setTimeout(() => place('effort').textContent = 'Simulating ...', 500);
  latest.ask(request_of(state.sets, {charts: true, nearest: true, changed: state.changed, follows}));
  remember();
}

// ---- what is changed ----
function lay(path, value) {
  const known = state.base && path in state.base && String(state.base[path]) === value && path !== 'parallelism.data';
  state.sets.delete(path);
  if (!known) state.sets.set(path, value);
}
// What only went with a change goes with it, where no other change asks for it.
function drop_idle_ties() {
  const needed = new Set();
  for (const [path, value] of state.sets)
    if (value !== 'null') tied(path, value).forEach(([other]) => needed.add(other));
  for (const [path, value] of [...state.sets])
    if (value === 'null' && !needed.has(path)) state.sets.delete(path);
}
function change_all(sets) {
  for (const [path, value] of sets) lay(path, value);
  drop_idle_ties();
  simulate();
}
function replace_all(sets) {
  state.changed = '';
  state.sets = new Map(sets);
  simulate();
}
function changed(path, value) {
  state.changed = path;
  if (value === null) {
    state.sets.delete(path);
    drop_idle_ties();
    return simulate();
  }
  change_all(path in kWhole ? kWhole[path](value) : tied(path, value));
}

function open_text(file, text, sets = []) {
  Object.assign(state, {name: '', file: file.replace(/[^A-Za-z0-9._-]+/g, '-') || 'scenario.yaml', text});
  place('scenario').value = '';
  open_scenario(sets);
}
function open_shipped(name, sets = []) {
  Object.assign(state, {name, file: name + '.yaml', text: shipped(name).text});
  place('scenario').value = name;
  open_scenario(sets);
}
// What the text alone comes to is asked for first: controls and figures are measured against it.
async function ask_base() {
  Object.assign(state, {base: null, base_result: null});
  if (state.sets.size === 0) return;  // the step itself says it
  const {reply} = await main_engine.ask(request_of([]));
  if (reply.result) Object.assign(state, {base: reply.layout, base_result: reply.result});
  if (reply.result && !state.layout) state.layout = reply.layout;  // of a link to what cannot run
}
async function open_scenario(sets) {
  take_kind(state.name ? shipped(state.name).kind : kind_of_text(state.text));
  Object.assign(state, {sets: new Map(sets), layout: null, error: '', changed: '', nearest: null, followed: []});
  clear_sweep();
  await ask_base();
  simulate();
}
async function edit_text(text) {
  Object.assign(state, {name: '', text, changed: ''});
  place('scenario').value = '';
  await ask_base();
  simulate();
}

// Another kind of question: what was open there last, else its first scenario. What is open now is kept.
function choose_kind(kind) {
  const {name, file, text, sets, pins} = state;
  state.kept[state.kind] = {name, file, text, sets, pins};
  const before = state.kept[kind];
  state.pins = before ? before.pins : [];
  if (before && !before.name)
    open_text(before.file, before.text, before.sets);
  else
    open_shipped(before ? before.name : kKinds[kind].first, before ? before.sets : []);
  show_variants();
}

// ---- begin ----
function build_header() {
  const own = el('option', {value: ''}, 'a text of your own');
  const of_kind = (kind) => state.catalogue.scenarios.filter((one) => one.kind === kind)
                                .map(({name, about}) => el('option', {value: name, title: about}, name));
  place('scenario')
      .replaceChildren(
          own, ...Object.entries(kKinds).map(([kind, {name}]) => el('optgroup', {label: name}, of_kind(kind))));
  for (const radio of document.querySelectorAll('input[name="kind"]'))
    radio.addEventListener('change', () => choose_kind(radio.value));
  place('scenario').addEventListener('change', () => {
    if (place('scenario').value) open_shipped(place('scenario').value);
  });
  place('pin').addEventListener('click', pin_now);
  place('share').addEventListener('click', async (event) => {
    const address = location.href.split('#')[0] + await link_text();
    copy_text(address, event.target);
  });
  place('theme').addEventListener('click', () => set_theme(!is_dark()));
  for (const button of place('export').querySelectorAll('button'))
    button.addEventListener('click', () => export_as(button.dataset.export, button));
  document.addEventListener(
      'click', (event) => place('export').contains(event.target) || (place('export').open = false));
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !place('export').open) return;
    place('export').open = false;
    place('export').querySelector('summary').focus();
  });
}

// What ships: put into the page when it was built, else asked for.
async function read_catalogue() {
  if (embedded('catalogue')) return JSON.parse(embedded('catalogue').textContent);
  const {reply} = await main_engine.ask({do: 'catalogue'});
  if (!reply.scenarios) throw new Error(reply.error || reply.bug);
  return reply;
}

async function begin() {
  main_engine = new_engine();
  latest = new Latest(main_engine, take_answer);
  state.catalogue = await read_catalogue();
  build_header();
  take_kind('train');
  build_sweep();
  build_loads();
  build_splits();
  build_editor();
  build_advice();
  show_variants();
  await open_link(location.hash);
  window.addEventListener('hashchange', () => open_link(location.hash));
}

// A link, else a scenario of one stage on 64 GPUs, most of whose changes run.
async function open_link(hash) {
  let kept = null;
  try {
    kept = await read_link(hash);
  } catch (error) {
    state.remarks = 'The address holds no scenario that can be read: ' + error.message + '.';
  }
  if (!kept && state.text) return;
  state.pins = kept ? kept.p.map(([name, sets]) => ({name: String(name), sets, result: null})) : [];
  if (kept && typeof kept.t === 'string')
    open_text(String(kept.f || 'scenario.yaml'), kept.t, kept.s);
  else
    open_shipped(kept && shipped(kept.n) ? kept.n : kKinds.train.first, kept ? kept.s : []);
  if (state.pins.length > 0) simulate_pins(main_engine);
}

begin().catch((error) => {
  place('title').textContent = 'The engine did not start';
  place('banner').hidden = false;
  place('banner').className = 'banner bad';
  place('banner').textContent = error.message;
});
