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
  add_chart(place, {
    title: 'What engine and trainer do',
    label: 'What engine and trainer do over time',
    height: 220,
    legend: lines_legend(data.spans),
    config: () => lines_config(data.spans)
  });
}

function tail_section() {
  const place = section('tail', 'The tail', 'Answers of a batch that are through, by the time since they were begun.');
  add_chart(place, {
    title: 'Answers that are through',
    label: 'Answers that are through by time',
    height: 240,
    config: () => tail_config(data.through)
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
