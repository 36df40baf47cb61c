// What to change, as `orrery advise` finds it around the scenario on the screen: each suggestion simulated, and taken
// by one click. Asked for by a button, since it takes a second or two. What cannot be advised on has the command.
'use strict';

let advice_asked = 0;

function clear_advice() {
  ++advice_asked;
  if (place('advice-rows')) place('advice-rows').replaceChildren();
}

function suggestion_row({kind, set: changes, saved_pct, iteration_time_s, peak_bytes, reason}) {
  const set = Object.entries(changes).map(([path, value]) => path + '=' + value);
  const take = el(
      'button', {type: 'button', onclick: () => take_nearest(set)}, set.map((one) => one.replace('=', ' ')).join(', '));
  take.setAttribute('aria-label', 'Take: ' + kind);
  const cells = [seconds(iteration_time_s), bytes(peak_bytes, 3), reason];
  return el(
      'tr', {}, el('th', {scope: 'row'}, kind, el('div', {}, take)),
      el('td', {className: 'number ' + (saved_pct > 0 ? 'good' : 'bad')}, saved_pct.toFixed(1) + ' %'),
      cells.map((text, i) => el('td', {className: i < 2 ? 'number' : ''}, text)));
}

// Of a served scenario: what a change does to the promise, the rate and the latencies.
function served_suggestion({change, set, kept_pct, gpus, output_tokens_per_s_per_gpu: rate, ttft_s, tpot_s, gains}) {
  const take = el(
      'button', {type: 'button', onclick: () => take_nearest(set)}, set.map((one) => one.replace('=', ' ')).join(', '));
  take.setAttribute('aria-label', 'Take: ' + change);
  return [
    el('span', {}, change, el('div', {}, take)),
    el('span', {className: gains ? 'good' : 'bad'}, gains ? 'gains' : 'costs'),
    kept_pct === null ? '–' : kept_pct.toFixed(1) + ' %', gpus, digits(rate), seconds(ttft_s), seconds(tpot_s)
  ];
}
function show_served_advice({now, rows: all}) {
  const titles = ['change', '', 'promise kept', 'GPUs', 'tokens/s per GPU', 'first token', 'each token'];
  const before = [
    'as it is', '', now.kept_pct === null ? '–' : now.kept_pct.toFixed(1) + ' %', now.gpus,
    digits(now.output_tokens_per_s_per_gpu), seconds(now.ttft_s), seconds(now.tpot_s)
  ];
  place('advice-rows').replaceChildren(plain_table('what to change', titles, [
    before, ...all.slice(0, 12).map(served_suggestion)
  ]));
}

async function ask_advice(button) {
  const mine = ++advice_asked, rows = place('advice-rows');
  button.disabled = true;
  rows.replaceChildren(el('p', {className: 'note'}, 'Trying changes ...'));
  state.side = state.side || new_engine();
  const {reply} = await state.side.ask({...request_of(state.sets), do: 'advise'});
  button.disabled = false;
  if (mine !== advice_asked) return;
  if (reply.rows) return show_served_advice(reply);
  if (!reply.suggestions) {
    const command = command_of(state.sets).replace(/^orrery \w+/, 'orrery advise');
    rows.replaceChildren(el('p', {className: 'note'}, (reply.error || reply.bug) + ': ', el('code', {}, command)));
    return;
  }
  if (reply.suggestions.length === 0) {
    rows.replaceChildren(el('p', {}, 'Nothing tried saves a thousandth of the step.'));
    return;
  }
  const head = ['change', 'saves', 'step', 'memory', 'why'];
  rows.replaceChildren(
      el('div', {className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'what to change'},
         el('table', {},
            el('thead', {},
               el('tr', {},
                  head.map((title, i) => el('th', {scope: 'col', className: i > 0 && i < 4 ? 'number' : ''}, title)))),
            el('tbody', {}, reply.suggestions.map(suggestion_row)))));
}

function build_advice() {
  const button = el('button', {type: 'button', id: 'advise'}, 'Look for what would be better');
  button.addEventListener('click', () => ask_advice(button));
  place('advice').replaceChildren(button, el('div', {id: 'advice-rows', 'aria-live': 'polite'}));
}
