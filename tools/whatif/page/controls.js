// The controls of fields.js, each a slider with a number, a menu or a switch. The meaning of each is that of the
// language's own table. A change is a `--set` of the command line.
'use strict';

const controls = new Map();  // path -> {row, show, note}
const id_of = (path) => 'key-' + path.replace(/[^A-Za-z0-9_]+/g, '-');

// "0.5 s" in milliseconds, "90/min" a second: the number that a field shows.
const kUnitsOf = {
  ' ms': {us: 1e-3, ms: 1, s: 1e3, min: 6e4},
  ' s': {ms: 1e-3, s: 1, min: 60, h: 3600}
};
const kRates = {
  '/s': 1,
  '/min': 1 / 60,
  '/h': 1 / 3600
};
function in_unit(value, suffix) {
  const text = String(value ?? ''), number = parseFloat(text);
  if (!suffix || !Number.isFinite(number)) return suffix ? '' : Number(value);
  const unit = text.replace(/^[\d.eE+-]+\s*/, '');
  const factor = suffix === '/s' ? kRates[unit] : kUnitsOf[suffix][unit];
  return factor === undefined ? number : Number((number * factor).toPrecision(12));
}

function words_of(control) {
  if (control.words) return control.words.map((name) => ({name, about: ''}));
  if (control.list) return state.catalogue.lists[control.list];
  const key = key_of(control.path) || {choices: []};
  const choices = control.path === 'precision' ? (key_of('precision.matmul') || key).choices : key.choices;
  return (choices.length ? choices : key.choices).map((name) => ({name, about: ''}));
}

function menu_control(control, id, change) {
  const words = words_of(control);
  const select = el('select', {id}, words.map(({name, about}) => el('option', {value: name, title: about}, name)));
  select.addEventListener('change', () => change(select.value));
  const show = (value) => {
    if (!words.some(({name}) => name === value) && !select.querySelector('option[data-own]'))
      select.prepend(el('option', {value, dataset: {own: 'yes'}}, value || 'own'));
    const own = select.querySelector('option[data-own]');
    if (own && !words.some(({name}) => name === value)) Object.assign(own, {value, textContent: value || 'own'});
    select.value = value;
  };
  return {parts: [select], input: select, show};
}

function switch_control(control, id, change) {
  const box = el('input', {type: 'checkbox', id});
  box.addEventListener('change', () => change(box.checked));
  return {parts: [box], input: box, show: (value) => box.checked = String(value) === 'true'};
}

// A slider over the values that are offered, and a field for any other.
function number_control(control, id, change) {
  const field = el(
      'input', {type: 'number', id, min: 0, step: control.values && !control.suffix ? 1 : 'any', inputMode: 'decimal'});
  const said = (text) => text + (control.suffix || '');
  const take = () => field.value !== '' && change(said(field.value));
  field.addEventListener('input', () => field.dataset.typed = 'yes');  // until it is taken or left
  for (const end of ['change', 'blur']) field.addEventListener(end, () => delete field.dataset.typed);
  field.addEventListener('change', take);
  if (!control.values)
    return {parts: [field], input: field, show: (value) => field.value = in_unit(value, control.suffix)};
  const slider = el('input', {type: 'range', min: 0, step: 1, 'aria-label': control.name + ', slider'});
  let values = [1];
  slider.addEventListener('input', () => {
    field.value = values[slider.value];
    slider.setAttribute('aria-valuetext', field.value);
    change(said(field.value));
  });
  const show = (value) => {
    const at = in_unit(value, control.suffix);
    values = union(control.values(), at);
    slider.max = values.length - 1;
    slider.value = values.indexOf(at);
    slider.setAttribute('aria-valuetext', String(at));
    field.value = at;
  };
  return {parts: [slider, field], input: field, show};
}

function make_control(control, changed) {
  const id = id_of(control.path), key = key_of(control.path) || {meaning: ''};
  const change = (value) => changed(control.path, value);
  const make = control.yes ? switch_control : control.values !== undefined ? number_control : menu_control;
  const note = el('p', {className: 'complaint', id: id + '-note', hidden: true});
  const reset = el('button', {type: 'button', className: 'reset', title: 'as the scenario has it', hidden: true}, '↺');
  reset.setAttribute('aria-label', 'Reset ' + control.name);
  reset.addEventListener('click', () => changed(control.path, null));
  if (control.shown) {
    const shown = el('output', {id, className: 'derived'});
    const row =
        el('div', {className: 'control'}, el('label', {htmlFor: id, title: key.meaning}, control.name), shown, reset,
           note);
    return {control, row, note, reset, input: shown, show: (value) => shown.textContent = value};
  }
  const {parts, input, show} = make(control, id, change);
  input.setAttribute('aria-describedby', id + '-note');
  const label =
      el('label', {htmlFor: id, title: key.meaning}, control.name,
         control.unit ? el('span', {className: 'unit'}, ' ' + control.unit) : null);
  const row =
      el('div',
         {className: 'control ' +
              (control.yes          ? 'switch' :
                   parts.length > 1 ? 'slider' :
                                      '')},
         label, ...parts, reset, note);
  return {control, row, note, reset, input, show};
}

// Those of the kind of question that is asked.
let control_groups = [];
function build_controls(changed, reset_all) {
  const form = document.getElementById('controls');
  controls.clear();
  control_groups = kKinds[state.kind].controls.map(([title, rows]) => {
    const made = rows.map((control) => {
      const one = make_control(control, changed);
      controls.set(control.path, one);
      return one.row;
    });
    const legend = el('legend', {}, typeof title === 'string' ? title : '');
    return {title, legend, rows: made, box: el('fieldset', {}, legend, made)};
  });
  const groups = control_groups.map(({box}) => box);
  const all = el('button', {type: 'button', id: 'reset-all', onclick: reset_all, disabled: true}, 'Reset all changes');
  form.replaceChildren(...groups, all);
}

function show_controls() {
  if (!state.layout) return;
  for (const [path, one] of controls) {
    const {control, row, reset} = one;
    row.hidden = control.when ? !control.when() : state.kind !== 'train' && !(path in state.layout);
    if (!one.input.dataset.typed) one.show(value_of(path));
    reset.hidden = !state.sets.has(path) || state.sets.get(path) === 'null';
    row.classList.toggle('changed', !reset.hidden);
  }
  for (const {title, legend, rows, box} of control_groups) {
    box.hidden = rows.every((row) => row.hidden);
    if (typeof title !== 'string') legend.textContent = title();
  }
  document.getElementById('reset-all').disabled = state.sets.size === 0;
}

// Puts the engine's line beside the control of its key, and says whether there is one.
function show_complaint(error) {
  let found = null;
  for (const [path, {note, input}] of controls) {
    const mine = error.includes(' ' + path + ': ') || error.startsWith(path + ': ');
    note.hidden = !mine;
    note.textContent = mine ? error.slice(error.indexOf(path + ': ') + path.length + 2) : '';
    if (mine)
      input.setAttribute('aria-invalid', 'true');
    else
      input.removeAttribute('aria-invalid');
    if (mine) found = path;
  }
  return found;
}
