// The scenario as text, with line numbers, and files that are opened or dropped: a scenario as it is, what other tools
// write through the importers.
'use strict';

const kMostText = 4 << 20;

function show_line_numbers(line) {
  const area = place('text'), gutter = place('lines');
  const count = area.value.split('\n').length;
  gutter.replaceChildren();
  for (let i = 1; i <= count; ++i) gutter.append(el('span', {className: i === line ? 'wrong' : ''}, i + '\n'));
  gutter.scrollTop = area.scrollTop;
}

function go_to_line(line) {
  const area = place('text'), lines = area.value.split('\n');
  const from = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
  area.focus();
  area.setSelectionRange(from, from + (lines[line - 1] || '').length);
  const height = parseFloat(getComputedStyle(area).lineHeight);
  area.scrollTop = Math.max(0, (line - 4) * height);
  area.scrollIntoView({block: 'center'});
}

function show_editor() {
  const area = place('text');
  if (document.activeElement !== area) area.value = state.text;
  const line = state.error.startsWith(state.file + ':') ? /:(\d+):(\d+): /.exec(state.error) : null;
  area.setAttribute('aria-invalid', line ? 'true' : 'false');
  show_line_numbers(line ? Number(line[1]) : 0);
  place('command').textContent = command_of(state.sets);
  place('remarks').textContent = state.remarks || '';
}

// Which reader a file is for: by its name, and by what stands in it.
function form_of(name, text) {
  if (/\.json$/i.test(name) || /^\s*\{[\s\S]*"(model_type|architectures|hidden_size)"/.test(text)) return 'hf';
  if (/\.(sh|bash|slurm|sbatch)$/i.test(name) || /--(num-layers|tensor-model-parallel-size)\b/.test(text))
    return 'megatron';
  if (/^\s*(tensor_model_parallel_size|micro_batch_size)\s*:/m.test(text)) return 'nemo';
  return 'scenario';
}

// A config.json says what the model is, and no cluster: its model goes into the scenario that is open.
function with_model_of(imported) {
  const model = /^model:\n((?: .*\n?)+)/m.exec(imported);
  if (/^cluster:/m.test(imported) || !model) return imported;
  const rest = state.answer ? state.answer.yaml : state.text;
  const kept =
      rest.split(/\n(?=\S)/).filter((part) => !/^(model|name|id|description|source|measured|evaluation):/.test(part));
  return imported.replace(/\n*$/, '\n') + kept.join('\n').replace(/\n*$/, '\n');
}

async function take_text(name, text) {
  if (text.length > kMostText) {
    state.error = name + ': got more than 4 MiB, expected a scenario';
    return show_all();
  }
  const form = form_of(name, text);
  if (form === 'scenario') return open_text(name || 'scenario.yaml', text);
  const {reply} = await main_engine.ask({do: 'import', form, text, file: name});
  if (reply.yaml === undefined) {
    state.error = reply.error || reply.bug;
    return show_all();
  }
  open_text('imported.yaml', with_model_of(reply.yaml));
}

async function take_file(file) {
  if (file) await take_text(file.name, await file.text());
}

function build_editor() {
  const area = el('textarea', {id: 'text', spellcheck: false, rows: 18, wrap: 'off'});
  area.setAttribute('aria-label', 'The scenario as YAML');
  let typing = 0;
  area.addEventListener('input', () => {
    clearTimeout(typing);
    show_line_numbers(0);
    typing = setTimeout(() => edit_text(area.value), 250);
  });
  area.addEventListener('scroll', () => place('lines').scrollTop = area.scrollTop);
  area.addEventListener('paste', (event) => {
    const text = event.clipboardData.getData('text'),
          all = area.selectionEnd - area.selectionStart >= area.value.length;
    if (!all || form_of('', text) === 'scenario') return;
    event.preventDefault();
    take_text('pasted', text);
  });
  const copy =
      el('button', {type: 'button', onclick: (event) => copy_text(command_of(state.sets), event.target)}, 'Copy');
  copy.setAttribute('aria-label', 'Copy the command');
  place('editor').replaceChildren(
      el('p', {id: 'remarks', className: 'note'}),
      el('div', {className: 'editor'}, el('pre', {id: 'lines', 'aria-hidden': 'true'}), area),
      el('h4', {}, 'The same on the command line'),
      el('div', {className: 'command'}, el('code', {id: 'command'}), copy));
  const picker = place('file');
  place('open-file').addEventListener('click', () => picker.click());
  picker.addEventListener('change', () => {
    take_file(picker.files[0]);
    picker.value = '';
  });
  for (const kind of ['dragenter', 'dragover']) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      document.body.classList.add('dropping');
    });
  }
  document.addEventListener('dragleave', (event) => event.relatedTarget || document.body.classList.remove('dropping'));
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    document.body.classList.remove('dropping');
    const file = event.dataTransfer.files[0], text = event.dataTransfer.getData('text');
    if (file)
      take_file(file);
    else if (text)
      take_text('pasted', text);
  });
}
