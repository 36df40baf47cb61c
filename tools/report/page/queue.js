// The report of a replayed queue: facts, policies, GPUs held over time, waits, where the GPUs' time goes.
'use strict';

const name_of = (row) => row.order + ', ' + row.placement;
// Charts show the best placement of each order, so that lines can be told apart.
const shown = [...new Set(data.policies.map((row) => row.order))].map((order) => {
  const rows = data.policies.map((row, i) => [row, i]).filter(([row]) => row.order === order);
  return rows.reduce((a, b) => b[0].bounded_slowdown < a[0].bounded_slowdown ? b : a)[1];
});

function policies_section() {
  section('policies', 'Policies', 'Which job is next, and which of the free nodes it gets.')
      .append(table(
          [
            {title: 'order'}, {title: 'placement'}, {title: 'used', number: true}, {title: 'mean wait', number: true},
            {title: '95 %', number: true}, {title: 'slow-down', number: true}, {title: 'stretch', number: true},
            {title: 'ends after', number: true}
          ],
          data.policies.map((row) => [
            row.order, row.placement, share(row.utilisation), long_time(row.wait_mean_s), long_time(row.wait_p95_s),
            digits(row.bounded_slowdown), row.stretch.toFixed(4), long_time(row.makespan_s)
          ])));
}

function held_section() {
  const place = section('held', 'GPUs that jobs hold', 'Over the time of the trace, of the best placement of each order.');
  add_chart(place, {
    title: 'GPUs that jobs hold over time',
    label: 'GPUs that jobs hold over time',
    height: 300,
    legend: palette_legend(shown.map((i, c) => [name_of(data.policies[i]), c])),
    config: () => ({
      type: 'scatter',
      data: {
        datasets: shown.map((i, c) => ({
                              label: name_of(data.policies[i]),
                              data: data.held[i].map((held, s) => ({
                                                       x: (s + 0.5) * data.policies[i].makespan_s / kDay /
                                                           data.held[i].length,
                                                       y: held
                                                     })),
                              showLine: true,
                              borderColor: kPalette[c][0],
                              backgroundColor: kPalette[c][0],
                              pointRadius: 0
                            }))
      },
      options: {scales: {x: axis('days'), y: axis('GPUs', {min: 0, suggestedMax: data.gpus})}}
    })
  });
}

function waits_section() {
  const place = section('waits', 'How long jobs wait');
  const below = data.waits.below_s;
  add_chart(place, {
    title: 'Jobs by their wait',
    label: 'Jobs by their wait',
    height: 300,
    legend: palette_legend(shown.map((i, c) => [name_of(data.policies[i]), c])),
    config: () => ({
      type: 'bar',
      data: {
        labels: [...below.map((s) => 'below ' + long_time(s)), 'longer'],
        datasets: shown.map((i, c) => ({
                              label: name_of(data.policies[i]),
                              data: data.waits.counts[i],
                              backgroundColor: kPalette[c][0]
                            }))
      },
      options: {scales: {x: axis('wait'), y: axis('jobs')}}
    })
  });
}

function uses_section() {
  const best = data.policies[data.best];
  section('uses', 'Where the GPUs\u2019 time goes', 'Of ' + name_of(best) + '.')
      .append(table(
          [{title: 'part'}, {title: 'share', number: true}, {title: 'what it is'}],
          data.uses.map(([name, meaning]) => [name, share(best.gpu_time[name]), meaning])));
  if (!data.prices.length) return;
  section(
      'prices', 'What distance costs',
      'A step with nodes dealt out over all units of a span, over the step with all nodes at their best.')
      .append(table(
          [
            {title: 'GPUs', number: true}, {title: 'step', number: true}, {title: 'unit', number: true},
            {title: 'pod', number: true}, {title: 'cluster', number: true}
          ],
          data.prices.map((p) => [
            grouped(p.gpus), seconds(p.step_s), p.unit.toFixed(4), p.pod.toFixed(4), p.cluster.toFixed(4)
          ])));
}

begin_page();
tiles(data.facts);
policies_section();
held_section();
waits_section();
uses_section();
if (data.assumptions.length)
  section('assumptions', 'Assumptions').append(el('ul', {}, data.assumptions.map((text) => el('li', {}, text))));
end_page();
