// The report of a campaign: facts, the median campaign's timeline, where the time goes, causes, checkpoint interval,
// size of the machine, finishing times, what to change first.
'use strict';

function timeline_section() {
  const t = data.timeline;
  const place = section(
      'timeline', 'The median campaign',
      'Seed ' + t.seed + ', ' + long_time(t.wall_s) + ' from left to right: work that counts, work that failures ' +
          'threw away, the time until the next step, and planned stops.' +
          (t.more ? ' ' + t.more + ' later stops are not drawn.' : ''));
  const kinds = [['work that counts', 0], ['work lost', 7], ['down', 1], ['planned', 3]];
  const rows = 8, height = 26, gap = 8;
  const canvas = el('canvas', {role: 'img', 'aria-label': 'timeline of the median campaign'});
  const figure = el('figure', {}, palette_legend(kinds), canvas);
  place.append(figure);
  const draw = () => {
    const width = Math.max(200, figure.clientWidth - 4), ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = rows * (height + gap) * ratio;
    canvas.style.width = width + 'px';
    canvas.style.height = rows * (height + gap) + 'px';
    const c = canvas.getContext('2d');
    c.scale(ratio, ratio);
    const row_s = t.wall_s / rows;
    const bar = (from, to, colour) => {
      for (let row = Math.floor(from / row_s); row < rows && row * row_s < to; ++row) {
        const a = Math.max(from, row * row_s) - row * row_s, b = Math.min(to, (row + 1) * row_s) - row * row_s;
        c.fillStyle = paint(colour);
        c.fillRect(a / row_s * width, row * (height + gap), Math.max(0.6, (b - a) / row_s * width), height);
      }
    };
    bar(0, t.wall_s, 0);
    for (const [at, until, lost, cause] of t.stops) {
      bar(Math.max(0, at - lost), at, 7);
      bar(at, until, cause < 0 ? 3 : 1);
    }
  };
  draw();
  redraws.push(draw);
  window.addEventListener('resize', draw);
}

function shares_section() {
  const place = section('shares', 'Where the time goes', 'Mean over ' + grouped(data.seeds) + ' seeds.');
  const total = data.shares.reduce((sum, s) => sum + s[1], 0);
  place.append(table(
      [{title: 'part'}, {title: 'time', number: true}, {title: 'share', number: true}, {title: 'what it is'}],
      data.shares.filter((s) => s[1] > 0).map(([name, s, meaning]) => [name, long_time(s), share(s / total), meaning])));
  if (!data.causes.length) return;
  const causes = [...data.causes].sort((a, b) => b.count.mean - a.count.mean);
  place.append(table(
      [
        {title: 'cause'}, {title: 'effect'}, {title: 'count', number: true}, {title: 'p5 to p95', number: true},
        {title: 'work lost', number: true}, {title: 'down', number: true}
      ],
      causes.map((cause) => [
        cause.name, cause.effect, digits(cause.count.mean), cause.count.p5 + ' to ' + cause.count.p95,
        long_time(cause.lost_s.mean), long_time(cause.down_s.mean)
      ])));
}

// Points with their 95 % intervals, and marked places across.
function curve(place, title, across, points, marks) {
  const y = points.map((p) => 100 * p[1]);
  add_chart(place, {
    title,
    label: title,
    height: 300,
    legend: palette_legend(marks.map((m, i) => [m[0], i + 1])),
    config: () => ({
      type: 'scatter',
      data: {
        datasets: [
          {
            label: 'goodput',
            data: points.map((p) => ({x: p[0], y: 100 * p[1]})),
            showLine: true,
            borderColor: kPalette[0][0],
            backgroundColor: kPalette[0][0],
            pointRadius: 4
          },
          ...marks.map((m, i) => ({
                         label: m[0],
                         data: [{x: m[1], y: Math.min(...y)}, {x: m[1], y: Math.max(...y)}],
                         showLine: true,
                         borderColor: kPalette[i + 1][0],
                         borderDash: [4 + 2 * i, 4],
                         pointRadius: 0
                       }))
        ]
      },
      options: {
        scales: {
          x: axis(across, {type: 'logarithmic', ticks: log_ticks}),
          y: axis('goodput, %')
        },
        plugins: {
          tooltip: {
            callbacks: {
              label: (item) => item.dataset.label + ': ' + digits(item.raw.x) + ', ' + item.raw.y.toFixed(2) + ' %' +
                  (item.datasetIndex === 0 ? ' ± ' + (100 * points[item.dataIndex][2]).toFixed(2) : '')
            }
          }
        }
      }
    })
  });
}

function studies_section() {
  const interval = data.checkpoint_interval;
  if (interval.tried.length) {
    const place = section(
        'interval', 'Checkpoint interval',
        'Goodput by the steps between two checkpoints, each of which stalls for ' + seconds(interval.stall_s) + '.');
    const inside = ([, x]) => x >= interval.tried[0].interval_steps / 2 &&
        x <= 2 * interval.tried[interval.tried.length - 1].interval_steps;
    curve(
        place, 'Goodput against checkpoint interval', 'steps between checkpoints',
        interval.tried.map((p) => [p.interval_steps, p.goodput, p.error]),
        [
          ['used', interval.used_steps], ['best found', interval.best_steps], ['Daly', interval.daly_steps],
          ['Young', interval.young_steps]
        ].filter(inside));
  }
  if (data.sizes.length && data.causes.length) {
    const place = section(
        'sizes', 'Size of the machine',
        'The same step on more or fewer GPUs, with the failures and communicators of so many (weak scaling).');
    curve(
        place, 'Goodput against GPUs', 'GPUs', data.sizes.map((s) => [s.gpus, s.goodput, s.error]),
        [['this machine', data.gpus]]);
  }
  if (!data.changes.length) return;
  section('changes', 'What to change first', 'Each change alone, with the same failures.')
      .append(table(
          [{title: 'change'}, {title: 'saves', number: true}, {title: 'goodput', number: true}],
          data.changes.map((c) => [c.what, long_time(c.saved_s), share(c.goodput)])));
}

function histogram_section() {
  const h = data.histogram;
  const place = section('finish', h.unit === 'days' ? 'When it ends' : 'How much of the window counts');
  add_chart(place, {
    title: 'Campaigns by ' + (h.unit === 'days' ? 'time to train' : 'goodput'),
    height: 280,
    config: () => ({
      type: 'bar',
      data: {
        labels: h.counts.map((_, i) => digits(h.from + (i + 0.5) * h.width)),
        datasets: [{data: h.counts, backgroundColor: paint(0), barPercentage: 1, categoryPercentage: 0.95}]
      },
      options: {scales: {x: axis(h.unit), y: axis('campaigns')}}
    })
  });
}

begin_page();
tiles(data.facts);
timeline_section();
shares_section();
histogram_section();
studies_section();
if (data.assumptions.length)
  section('assumptions', 'Assumptions').append(el('ul', {}, data.assumptions.map((text) => el('li', {}, text))));
end_page();
