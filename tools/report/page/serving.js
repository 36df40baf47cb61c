// The report of requests served: facts, latencies, what runs and waits over time, where time goes.
'use strict';

function latencies_section() {
  section('latencies', 'Latencies')
      .append(table(
          [
            {title: ''}, {title: 'mean', number: true}, {title: 'p50', number: true}, {title: 'p90', number: true},
            {title: 'p95', number: true}, {title: 'p99', number: true}
          ],
          data.latencies.map(
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

function timeline_section() {
  const place = section('timeline', 'Over time', 'Of the first replica.');
  add_chart(place, {
    title: 'Requests that run and wait',
    label: 'Requests that run and wait over time',
    height: 260,
    legend: under_way_legend(),
    config: () => under_way_config(data.timeline)
  });
  add_chart(
      place,
      {title: 'Cache in use', label: 'Cache in use over time', height: 200, config: () => cache_config(data.timeline)});
}

function parts_section() {
  const whole = data.request_parts.reduce((sum, [, value]) => sum + value, 0) || 1;
  section('requests', 'Where a request\u2019s time goes', 'In the mean.')
      .append(table(
          [{title: 'part'}, {title: 'time', number: true}, {title: 'share', number: true}],
          data.request_parts.map(([name, value]) => [name, seconds(value), share(value / whole)])));
  section('gpus', 'Where the GPUs\u2019 time goes')
      .append(table(
          [{title: 'part'}, {title: 'share', number: true}],
          data.gpu_parts.map(([name, value]) => [name, share(value)])));
}

begin_page();
tiles(data.facts);
if (data.load) section('load', 'Load').append(el('p', {}, data.load));
latencies_section();
const spread = section('spread', 'Requests by latency');
spread_chart(spread, 'Time to first token', data.ttft);
spread_chart(spread, 'Time a token', data.tpot);
timeline_section();
parts_section();
section('assumptions', 'Assumptions').append(el('ul', {}, data.assumptions.map((text) => el('li', {}, text))));
end_page();
