// The report of requests served: facts, latencies, what runs and waits over time, where time goes; of several models on
// one cluster each in turn.
'use strict';

function latencies_section(served, part) {
  part('latencies', 'Latencies')
      .append(table(
          [
            {title: ''}, {title: 'mean', number: true}, {title: 'p50', number: true}, {title: 'p90', number: true},
            {title: 'p95', number: true}, {title: 'p99', number: true}
          ],
          served.latencies.map(
              (row) =>
                  [row.name, seconds(row.mean), seconds(row.p50), seconds(row.p90), seconds(row.p95),
                   seconds(row.p99)])));
}

function spread_chart(place, title, histogram) {
  if (!histogram.counts.length) return;
  add_chart(place, {
    title,
    label: title,
    height: 240,
    config: () => ({
      type: 'bar',
      data: {
        labels: histogram.edges.map((s) => seconds(s, 2)),
        datasets: [{label: 'requests', data: histogram.counts, backgroundColor: kPalette[0][0]}]
      },
      options: {scales: {x: axis(''), y: axis('requests', {min: 0})}}
    })
  });
}

function timeline_section(served, part) {
  const place = part('timeline', 'Over time', 'Of the first replica.');
  add_chart(place, {
    title: 'Requests that run and wait',
    label: 'Requests that run and wait over time',
    height: 260,
    legend: under_way_legend(),
    config: () => under_way_config(served.timeline)
  });
  add_chart(
      place,
      {title: 'Cache in use', label: 'Cache in use over time', height: 200, config: () => cache_config(served.timeline)});
}

function parts_section(served, part) {
  const whole = served.request_parts.reduce((sum, [, value]) => sum + value, 0) || 1;
  part('requests', 'Where a request\u2019s time goes', 'In the mean.')
      .append(table(
          [{title: 'part'}, {title: 'time', number: true}, {title: 'share', number: true}],
          served.request_parts.map(([name, value]) => [name, seconds(value), share(value / whole)])));
  part('gpus', 'Where the GPUs\u2019 time goes')
      .append(table(
          [{title: 'part'}, {title: 'share', number: true}],
          served.gpu_parts.map(([name, value]) => [name, share(value)])));
}

function served_sections(served, part) {
  if (served.load) part('load', 'Load').append(el('p', {}, served.load));
  latencies_section(served, part);
  const spread = part('spread', 'Requests by latency');
  spread_chart(spread, 'Time to first token', served.ttft);
  spread_chart(spread, 'Time a token', served.tpot);
  timeline_section(served, part);
  parts_section(served, part);
  part('assumptions', 'Assumptions').append(el('ul', {}, served.assumptions.map((text) => el('li', {}, text))));
}

function models_section() {
  const numbers = ['GPUs', 'requests/s', 'tokens/s', 'TTFT, p99', 'TPOT, p99', 'promise kept for'];
  section('models', 'Models')
      .append(table(
          [{title: 'model'}, ...numbers.map((title) => ({title, number: true}))], data.models.map((one) => one.row)));
}

begin_page();
tiles(data.facts);
if (data.models) {
  models_section();
  data.models.forEach(
      (one, i) => served_sections(one, (id, title, note) => section(`${id}-${i}`, `${one.name}: ${title}`, note)));
} else {
  served_sections(data, section);
}
end_page();
