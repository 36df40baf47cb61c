// The report of a step of reinforcement learning: facts, where its time goes, engine and trainer over time, the tail.
'use strict';

function parts_of_step() {
  section('parts', 'Where a step\u2019s time goes', 'On the trainer\u2019s line; in the mean over steps.')
      .append(table(
          [{title: 'part'}, {title: 'time', number: true}, {title: 'share', number: true}],
          data.parts.map(([name, value]) => [name, seconds(value), share(value / data.step_s)])));
}

function lines_over_time() {
  const place = section('timeline', 'Over time', `Engine: ${data.engine}. Trainer: ${data.trainer}.`);
  const names = [...new Set(data.spans.map(([, part]) => part))].filter((name) => name !== 'wait');
  const line_of = (engine) => engine ? 'engine' : 'trainer';
  add_chart(place, {
    title: 'What engine and trainer do',
    label: 'What engine and trainer do over time',
    height: 220,
    legend: palette_legend(names.map((name, i) => [name.replace('_', ' '), i])),
    config: () => ({
      type: 'bar',
      data: {
        labels: ['engine', 'trainer'],
        datasets: names.map((name, i) => ({
                              label: name.replace('_', ' '),
                              data: data.spans.filter(([, part]) => part === name)
                                        .map(([, , engine, from, until]) => ({x: [from, until], y: line_of(engine)})),
                              backgroundColor: kPalette[i % kPalette.length][0],
                              grouped: false
                            }))
      },
      options: {indexAxis: 'y', scales: {x: axis('seconds', {min: 0}), y: axis('')}}
    })
  });
}

function tail_section() {
  const place = section('tail', 'The tail', 'Answers of a batch that are through, by the time since they were begun.');
  add_chart(place, {
    title: 'Answers that are through',
    label: 'Answers that are through by time',
    height: 240,
    config: () => ({
      type: 'scatter',
      data: {
        datasets: [{
          label: 'answers',
          data: data.through.map(([x, y]) => ({x, y})),
          showLine: true,
          borderColor: kPalette[0][0],
          backgroundColor: kPalette[0][0],
          pointRadius: 0
        }]
      },
      options: {scales: {x: axis('seconds', {min: 0}), y: axis('%', {min: 0, max: 100})}}
    })
  });
}

begin_page();
tiles(data.facts);
if (data.load) section('load', 'Memory').append(el('p', {}, data.load));
parts_of_step();
lines_over_time();
if (data.through.length) tail_section();
section('assumptions', 'Assumptions').append(el('ul', {}, data.assumptions.map((text) => el('li', {}, text))));
end_page();
