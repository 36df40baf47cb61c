// The scenario as text, with what may stand where and marks where something is wrong, and files that are opened or
// dropped: a scenario as it is, what other tools write through the importers.
'use strict';

const kMostText = 4 << 20;

// The text: in CodeMirror where the page was built with it, else in a plain field with line numbers beside it. Both
// have value(), set(text), focused(), mark(line, column, message) and go_to(line).
class PlainText {
  constructor(area, changed) {
    this.area = area;
    this.lines = el('pre', {id: 'lines', 'aria-hidden': 'true'});
    this.box = el('div', {className: 'editor'}, this.lines, area);
    area.addEventListener('input', () => {
      this.mark(0);
      changed();
    });
    area.addEventListener('scroll', () => this.lines.scrollTop = area.scrollTop);
  }
  value() {
    return this.area.value;
  }
  set(text) {
    this.area.value = text;
  }
  focused() {
    return document.activeElement === this.area;
  }
  mark(line) {
    const count = this.area.value.split('\n').length;
    this.area.setAttribute('aria-invalid', line ? 'true' : 'false');
    this.lines.replaceChildren();
    for (let i = 1; i <= count; ++i) this.lines.append(el('span', {className: i === line ? 'wrong' : ''}, i + '\n'));
    this.lines.scrollTop = this.area.scrollTop;
  }
  go_to(line) {
    const lines = this.area.value.split('\n');
    const from = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    this.area.focus();
    this.area.setSelectionRange(from, from + (lines[line - 1] || '').length);
    this.area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(this.area).lineHeight));
    this.area.scrollIntoView({block: 'center'});
  }
}

class MarkedText {
  constructor(area, changed) {
    const host = el('div');
    this.box = el('div', {className: 'marked'}, host, el('p', {id: 'key-help', className: 'note'}, kHelpHint));
    this.cm = CodeMirror(host, {
      mode: 'yaml',
      lineNumbers: true,
      inputStyle: 'contenteditable',
      viewportMargin: 60,
      screenReaderLabel: area.getAttribute('aria-label'),
      extraKeys: {'Ctrl-Space': () => this.complete(), Tab: false, 'Shift-Tab': false}
    });
    const field = this.cm.getInputField();
    field.id = 'text';
    field.setAttribute('aria-describedby', 'key-help');
    field.setAttribute('role', 'textbox');
    field.setAttribute('aria-multiline', 'true');
    this.wrong = [];
    this.cm.on('change', (cm, {origin}) => {
      if (origin === 'setValue') return;
      this.mark(0);
      changed();
    });
    this.cm.on('inputRead', (cm, {text}) => /^[\w{]$/.test(text[0]) && this.complete());
    this.cm.on('cursorActivity', () => this.help());
    host.addEventListener('focusin', () => this.cm.refresh());
    // What replaces several lines is not left to the browser: it takes their elements away, which CodeMirror goes on to
    // look for where parts of the old text and the new are the same.
    field.addEventListener('beforeinput', (event) => {
      const {anchor, head} = this.cm.listSelections()[0];
      if (event.inputType !== 'insertText' || !event.data || anchor.line === head.line) return;
      event.preventDefault();
      this.cm.replaceSelection(event.data, 'end', '+input');
    });
    this.field = field;
  }
  value() {
    return this.cm.getValue();
  }
  set(text) {
    if (text !== this.value()) this.cm.setValue(text);
    setTimeout(() => this.cm.refresh(), 0);
  }
  focused() {
    return this.cm.hasFocus();
  }
  around() {
    const at = this.cm.getCursor(), end = this.cm.getLine(at.line);
    return [this.cm.getRange({line: 0, ch: 0}, at), end.slice(at.ch)];
  }
  complete() {
    const hint = () => {
      const {list, typed} = completions_at(this.around()[0]), to = this.cm.getCursor();
      const from = {line: to.line, ch: to.ch - typed.length};
      const found = {list: list.map(({text, show, help}) => ({text, displayText: show, help})), from, to};
      CodeMirror.on(found, 'select', (one) => place('key-help').textContent = one.help || '');
      return found;
    };
    this.cm.showHint({hint, completeSingle: false, extraKeys: {Tab: (cm, handle) => handle.pick()}});
  }
  help() {
    if (!this.cm.state.completionActive) place('key-help').textContent = help_at(...this.around()) || kHelpHint;
  }
  mark(line, column = 1, message = '') {
    for (const undo of this.wrong.splice(0)) undo();
    this.field.setAttribute('aria-invalid', line ? 'true' : 'false');
    const at = line - 1, text = line ? this.cm.getLine(at) : undefined;
    if (text === undefined) return;
    const end = column - 1 + Math.max(1, /^[^\s,}\]]*/.exec(text.slice(column - 1))[0].length);
    const word = this.cm.markText(
        {line: at, ch: column - 1}, {line: at, ch: end}, {className: 'wrong-word', attributes: {title: message}});
    this.cm.addLineClass(at, 'gutter', 'wrong');
    this.wrong.push(() => word.clear(), () => this.cm.removeLineClass(at, 'gutter', 'wrong'));
  }
  go_to(line) {
    this.cm.focus();
    this.cm.setSelection({line: line - 1, ch: 0}, {line: line - 1, ch: this.cm.getLine(line - 1).length});
    this.cm.scrollIntoView(null, 60);
    this.box.scrollIntoView({block: 'center'});
  }
}

const kHelpHint = 'Ctrl and the space bar offer what may stand here; Escape closes the list.';
let written = null;
const go_to_line = (line) => written.go_to(line);

function show_editor() {
  if (!written.focused()) written.set(state.text);
  const found = state.error.startsWith(state.file + ':') ? /:(\d+):(\d+): /.exec(state.error) : null;
  const message = found ? state.error.slice(state.error.indexOf(found[0]) + found[0].length) : '';
  written.mark(found ? Number(found[1]) : 0, found ? Number(found[2]) : 1, message);
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
  const changed = () => {
    clearTimeout(typing);
    typing = setTimeout(() => edit_text(written.value()), 250);
  };
  written = typeof CodeMirror === 'undefined' ? new PlainText(area, changed) : new MarkedText(area, changed);
  written.box.addEventListener('paste', (event) => {
    const text = event.clipboardData.getData('text'), whole = String(getSelection()).length >= written.value().length;
    if (!whole || form_of('', text) === 'scenario') return;
    event.preventDefault();
    event.stopPropagation();
    take_text('pasted', text);
  }, true);
  const copy =
      el('button', {type: 'button', onclick: (event) => copy_text(command_of(state.sets), event.target)}, 'Copy');
  copy.setAttribute('aria-label', 'Copy the command');
  place('editor').replaceChildren(
      el('p', {id: 'remarks', className: 'note'}), written.box, el('h4', {}, 'The same on the command line'),
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
