// The controls: a table of keys of the language, each a slider with a number, a menu or a switch. The meaning of each
// is that of the language's own table. A change is a `--set` of the command line.
'use strict';

const kControls = [
  [
    'Cluster',
    [
      {path: 'cluster.gpus', name: 'GPUs', values: gpu_choices},
      {path: 'cluster.device', name: 'Device', list: 'devices'},
      {path: 'cluster.fabric', name: 'Fabric', list: 'fabrics'},
    ]
  ],
  [
    'Parallelism',
    [
      {path: 'parallelism.tensor', name: 'Tensor', values: () => powers(1, 64)},
      {path: 'parallelism.pipeline', name: 'Pipeline', values: pipeline_choices},
      {path: 'parallelism.virtual_pipeline', name: 'Virtual stages', values: chunk_choices},
      {path: 'parallelism.context', name: 'Context', values: () => powers(1, 64)},
      {
        path: 'parallelism.expert',
        name: 'Expert',
        values: expert_choices,
        when: () => state.layout['model.experts'] > 0
      },
      {path: 'parallelism.data', name: 'Data', shown: true},
      {path: 'parallelism.schedule', name: 'Schedule', list: 'schedules'},
      {path: 'parallelism.sharding', name: 'Sharding', key: true},
      {path: 'parallelism.sequence_parallel', name: 'Sequence parallelism', yes: true},
    ]
  ],
  [
    'Batch',
    [
      {path: 'batch.global', name: 'Global batch', values: () => powers(1, 16384)},
      {path: 'batch.micro', name: 'Micro-batch', values: () => powers(1, 64)},
    ]
  ],
  [
    'Method',
    [
      {path: 'model', name: 'Model', list: 'models'},
      {path: 'model.seq', name: 'Sequence', values: () => powers(512, 131072)},
      {path: 'precision', name: 'Precision', key: true},
      {path: 'recompute', name: 'Recompute', words: ['none', 'selective', 'full']},
      {path: 'software', name: 'Software', list: 'software'},
      {path: 'overlap.tensor', name: 'Overlap tensor', yes: true},
      {path: 'overlap.pipeline', name: 'Overlap pipeline', yes: true},
      {path: 'overlap.gradients', name: 'Overlap gradients', yes: true},
      {path: 'overlap.parameters', name: 'Overlap parameters', yes: true},
    ]
  ],
  [
    'Cost',
    [
      {path: 'cost.price_per_gpu_hour_usd', name: 'GPU price', unit: '$/h', values: null},
      {path: 'training.tokens', name: 'Tokens to train', values: null},
    ]
  ],
];

const controls = new Map();  // path -> {row, show, note}
const id_of = (path) => 'key-' + path.replaceAll('.', '-');

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
  const field = el('input', {type: 'number', id, min: 0, step: control.values ? 1 : 'any', inputMode: 'decimal'});
  const take = () => field.value !== '' && change(field.value);
  field.addEventListener('input', () => field.dataset.typed = 'yes');  // until it is taken or left
  for (const end of ['change', 'blur']) field.addEventListener(end, () => delete field.dataset.typed);
  field.addEventListener('change', take);
  if (!control.values) return {parts: [field], input: field, show: (value) => field.value = value};
  const slider = el('input', {type: 'range', min: 0, step: 1, 'aria-label': control.name + ', slider'});
  let values = [1];
  slider.addEventListener('input', () => {
    field.value = values[slider.value];
    slider.setAttribute('aria-valuetext', field.value);
    change(field.value);
  });
  const show = (value) => {
    const at = Number(value);
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

function build_controls(changed, reset_all) {
  const form = document.getElementById('controls');
  form.addEventListener('submit', (event) => event.preventDefault());
  const groups = kControls.map(([title, rows]) => {
    const made = rows.map((control) => {
      const one = make_control(control, changed);
      controls.set(control.path, one);
      return one.row;
    });
    return el('fieldset', {}, el('legend', {}, title), made);
  });
  const all = el('button', {type: 'button', id: 'reset-all', onclick: reset_all, disabled: true}, 'Reset all changes');
  form.replaceChildren(...groups, all);
}

function show_controls() {
  if (!state.layout) return;
  for (const [path, one] of controls) {
    const {control, row, reset} = one;
    row.hidden = Boolean(control.when && !control.when());
    if (!one.input.dataset.typed) one.show(value_of(path));
    reset.hidden = !state.sets.has(path) || state.sets.get(path) === 'null';
    row.classList.toggle('changed', !reset.hidden);
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
