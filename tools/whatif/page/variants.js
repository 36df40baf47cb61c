// Variants that were pinned, side by side. Each is a list of changes over the same scenario, so that a link carries
// them.
'use strict';

// What tells a variant from the scenario, in as few words as say it.
function changes_text(sets) {
  const told = sets.filter(([, value]) => value !== 'null');
  return told.length === 0 ? 'as the scenario is' :
                             told.map(([path, value]) => {
                                   const short = path.startsWith('model.') ? path : path.split('.').pop();
                                   return short + ' ' + value;
                                 })
                                 .join(', ');
}

function pin_now() {
  if (!state.answer || state.error) return;
  const sets = [...state.sets];
  const same = state.pins.some((pin) => JSON.stringify(pin.sets) === JSON.stringify(sets));
  if (same) return;
  state.pins.push({name: 'variant ' + (1 + state.pins.length), sets, result: state.answer.result});
  after_pins();
}

function after_pins() {
  show_variants();
  if (state.answer) {
    show_breakdown();
    show_figures(state.answer.result, state.answer.layout);
  }
  remember();
}

// Results of variants that came with a link.
async function simulate_pins(engine) {
  for (const pin of state.pins) {
    if (pin.result) continue;
    const {reply} = await engine.ask(request_of(pin.sets));
    if (reply.result) pin.result = reply.result;
  }
  state.pins = state.pins.filter((pin) => pin.result);
  if (state.pins.length > 0) after_pins();
}

function variant_cells(result, first) {
  return kKinds[state.kind].columns.map(([, value, text, more]) => {
    const now = value(result), change = first ? change_text(now, value(first), more) : null;
    return el(
        'td', {className: 'number'}, text(now),
        change ? el('div', {className: change.good ? 'good' : 'bad'}, change.text) : null);
  });
}

function variant_row(pin, at) {
  const name = el('input', {value: pin.name, 'aria-label': 'Name of variant ' + (at + 1), maxLength: 60});
  name.addEventListener('change', () => {
    pin.name = name.value || 'variant ' + (at + 1);
    after_pins();
  });
  const use = el('button', {type: 'button', onclick: () => replace_all(pin.sets)}, 'Use');
  use.setAttribute('aria-label', 'Use ' + pin.name);
  const drop = el('button', {type: 'button'}, 'Remove');
  drop.setAttribute('aria-label', 'Remove ' + pin.name);
  drop.addEventListener('click', () => {
    state.pins.splice(at, 1);
    after_pins();
    place('pin').focus();
  });
  return el(
      'tr', {}, el('th', {scope: 'row'}, name, el('div', {className: 'note'}, changes_text(pin.sets))),
      ...variant_cells(pin.result, at > 0 ? state.pins[0].result : null),
      el('td', {}, kKinds[state.kind].fits(pin.result) ? 'fits' : el('span', {className: 'bad'}, 'out of memory')),
      el('td', {className: 'acts'}, use, ' ', drop));
}

function show_variants() {
  const pins = state.pins.filter((pin) => pin.result);
  if (pins.length === 0) {
    place('variants').replaceChildren(el('p', {className: 'note'}, 'None is pinned.'));
    return;
  }
  const titles = ['Variant', ...kKinds[state.kind].columns.map(([title]) => title), 'Fits', ''];
  const head = titles.map(
      (title, i) =>
          el(title ? 'th' : 'td',
             title ? {scope: 'col', className: i > 0 && i < titles.length - 2 ? 'number' : ''} : {}, title));
  place('variants')
      .replaceChildren(
          el('div', {className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'table of variants'},
             el('table', {className: 'variants'}, el('thead', {}, el('tr', {}, head)),
                el('tbody', {}, pins.map((pin) => variant_row(pin, state.pins.indexOf(pin)))))));
}

// ---- CSV, as RFC 4180 has it ----
const csv_cell = (value) =>
    /[",\n]/.test(String(value)) ? '"' + String(value).replaceAll('"', '""') + '"' : String(value);
const csv_text = (rows) => rows.map((row) => row.map(csv_cell).join(',') + '\r\n').join('');

function variants_csv() {
  const all = [...state.pins, {name: 'now', sets: [...state.sets], result: state.answer.result}];
  const rows = all.filter((pin) => pin.result)
                   .map(
                       ({name, sets, result}) => [
                           ['name', name], ['changes', set_texts(sets).join(' ')], ...kKinds[state.kind].csv(result)]);
  return csv_text([rows.at(-1).map(([title]) => title), ...rows.map((row) => row.map(([, value]) => value))]);
}
