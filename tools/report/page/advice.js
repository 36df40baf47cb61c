// What to change about a job: suggestions of `orrery advise`, in the report of one step.
'use strict';

const kSure = {
  unknown: 'no published rows tell',
  within: 'within the error of such predictions',
  likely: 'beyond the error of two in three such predictions',
  beyond: 'beyond the error of nine in ten such predictions'
};

function suggestion_rows(list) {
  return list.map((s) => {
    const needs = s.needs ? el('div', {className: 'note'}, 'Needs a framework that has ' + s.needs + '.') : null;
    const numerics = s.changes_numerics ?
        el('div', {className: 'note'}, 'Changes what training computes: whether it converges is not modelled.') :
        null;
    return [
      el('span', {}, el('strong', {}, s.kind), el('div', {}, el('code', {}, s.command)), needs, numerics),
      el('span', {className: s.saved_pct > 0 ? 'good' : 'bad'}, s.saved_pct.toFixed(1) + ' %'),
      seconds(s.iteration_time_s), bytes(s.peak_bytes), s.reason, kSure[s.confidence]
    ];
  });
}

function advice_section() {
  const advice = data.advice;
  if (!advice) return;
  const place = section(
      'advice', 'What to change',
      (data.fits ? 'Changes around this layout that save time, ' : 'Changes with which the step fits the memory, ') +
          'each simulated alone or in a pair, the best first. ' + grouped(advice.tried) + ' were looked at, ' +
          grouped(advice.simulated) + ' simulated; ' + grouped(advice.out_of_memory) + ' do not fit the memory.');
  const columns = [
    {title: 'change'}, {title: 'saves', number: true}, {title: 'step', number: true}, {title: 'memory', number: true},
    {title: 'why'}, {title: 'how sure'}
  ];
  if (advice.suggestions.length > 0)
    place.append(table(columns, suggestion_rows(advice.suggestions)));
  else
    place.append(el('p', {}, data.fits ? 'Nothing tried saves a thousandth of the step.' : 'Nothing tried fits.'));
  if (advice.numerics.length > 0)
    place.append(el('h3', {}, 'With other numerics'), table(columns, suggestion_rows(advice.numerics)));
  if (!advice.error_of_ratios) return;
  place.append(
      el('p', {className: 'caption'},
         'Ratios of two steps like these were predicted within ' + digits(advice.error_of_ratios.pct_68, 2) +
             ' % in two of three published pairs, and within ' + digits(advice.error_of_ratios.pct_90, 2) +
             ' % in nine of ten.'));
}
