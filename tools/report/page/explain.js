// What an answer hangs on and how sure it is, of `orrery run --explain`, in the report of one step.
'use strict';

const kInputsShown = 16;

function sure_text(e) {
  const [low68, high68] = e.iteration_time_68_s, [low90, high90] = e.iteration_time_90_s;
  const like = e.like_rows ?
      ' Of published rows like this one (nearest: ' + e.like_rows.nearest.join(', ') + ') 68 % were measured at ' +
          digits(e.like_rows.factor_68[0]) + ' to ' + digits(e.like_rows.factor_68[1]) + ' of the prediction.' :
      '';
  return 'Step: 68 % from ' + seconds(low68) + ' to ' + seconds(high68) + ', 90 % from ' + seconds(low90) + ' to ' +
      seconds(high90) + '.' + like;
}

function elasticity_chart(place, inputs) {
  add_chart(place, {
    title: 'Elasticities: per cent of the step for one per cent of the input',
    height: 70 + inputs.length * 22,
    config: () => ({
      type: 'bar',
      data: {
        labels: inputs.map((input) => input.key),
        datasets: [{
          data: inputs.map((input) => input.elasticity),
          backgroundColor: inputs.map(
              (input) => input.elasticity < 0 ? fill('#1d9a74', 'back').paint : fill('#d55e00', 'diagonal').paint),
          maxBarThickness: 18
        }]
      },
      options: {
        indexAxis: 'y',
        scales: {x: axis('%'), y: {grid: {display: false}}},
        plugins: {tooltip: {callbacks: {label: (item) => inputs[item.dataIndex].meaning || digits(item.raw) + ' %'}}}
      }
    })
  });
}

function explain_section() {
  const e = data.explain;
  if (!e) return;
  const place = section(
      'explain', 'How sure it is, and what it hangs on',
      'Each of ' + grouped(e.inputs_tried) + ' inputs moved by ' + digits(100 * e.moved_by) + ' % up and down, ' +
          grouped(e.inputs.length) + ' of which move the step.');
  place.append(el('p', {}, sure_text(e)));
  if (e.inputs.length > 0) elasticity_chart(place, e.inputs.slice(0, kInputsShown));
  place.append(table(
      [
        {title: 'input'}, {title: 'value', number: true}, {title: 'elasticity', number: true},
        {title: 'may be off', number: true}, {title: 'moves the step', number: true}
      ],
      e.inputs.slice(0, kInputsShown)
          .map(
              (input) =>
                  [el('code', {}, input.key), String(input.value),
                   input.elasticity.toFixed(3) + (input.one_sided ? '*' : ''),
                   input.spread > 0 ? (100 * input.spread).toFixed(0) + ' %' : '-',
                   input.spread > 0 ? (100 * input.spread * Math.abs(input.elasticity)).toFixed(2) + ' %' : '-'])));
  if (e.features.length > 0) {
    place.append(
        el('h3', {}, 'What the software\'s features are worth'),
        table(
            [{title: 'without'}, {title: 'step', number: true}, {title: 'change', number: true}, {title: 'what it is'}],
            e.features.slice(0, kInputsShown)
                .map(
                    (one) =>
                        [el('code', {}, one.name), seconds(one.step_without_s), one.change_pct.toFixed(2) + ' %',
                         one.meaning])));
  }
}
