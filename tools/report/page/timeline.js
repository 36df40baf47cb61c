// The pipeline over time: one row per stage, passes above and transfers below, on a time axis that memory and links
// share.
'use strict';

const kBoxes = [
  // name, colour, pattern; in the order of the program's numbers
  ['forward', '#8fc3ee', 'solid'],
  ['backward', '#2463a8', 'solid'],
  ['backward, inputs', '#4f93d2', 'vertical'],
  ['weight gradient', '#1d9a74', 'diagonal'],
  ['optimizer', '#d55e00', 'horizontal'],
  ['data-parallel collective', '#e69f00', 'back'],
  ['message to another stage', '#cc79a7', 'solid'],
];
const kPhases = [['warm-up', '#c9d0d8', 'solid'], ['steady state', '#4a5361', 'solid'], ['drain', '#929ca9', 'solid']];
const kLeft = 74, kAxis = 24;

class Rows {
  constructor({timeline: t, span_s}) {
    this.tick = t.tick_s;
    this.span = span_s;
    this.transfers = t.transfers;
    this.rows = t.rows.map((row) => ({
                             ...row,
                             start: column(row.start, Uint32Array),
                             length: column(row.length, Uint32Array),
                             kind: column(row.kind, Uint8Array),
                             chunk: column(row.chunk, Uint8Array),
                             micro: column(row.micro, Uint16Array)
                           }));
    this.kinds = new Set();
    this.chunks = 0;
    for (const row of this.rows) {
      for (let i = 0; i < row.n; ++i) {
        this.kinds.add(row.kind[i]);
        this.chunks = Math.max(this.chunks, row.chunk[i] + 1);
      }
    }
    this.height = Math.min(46, Math.max(16, Math.round(560 / Math.max(1, this.rows.length))));
  }
  name(row, i) {
    const kind = row.kind[i], pass = kind < 4;
    const chunk = this.chunks > 1 ? ', chunk ' + row.chunk[i] : '';
    return kBoxes[kind][0] + (pass ? ' of micro-batch ' + row.micro[i] + chunk : '');
  }
}

function draw_boxes(c, rows, row, top, height, range, width) {
  const lane = Math.round(height * (rows.transfers ? 0.68 : 0.96)), to_x = width / (range.to - range.from);
  const lit = [[], []];
  for (const transfers of [false, true]) {
    for (let i = 0; i < row.n; ++i) {
      const kind = row.kind[i];
      if ((kind > 4) !== transfers) continue;
      const start = row.start[i] * rows.tick, end = start + row.length[i] * rows.tick;
      if (end < range.from || start > range.to) continue;
      const x = Math.max(kLeft, kLeft + (start - range.from) * to_x);
      const right = Math.min(kLeft + width, kLeft + (end - range.from) * to_x);
      const w = Math.max(0.7, right - x), gap = w > 4 ? 0.8 : 0;
      c.fillStyle = fill(kBoxes[kind][1], kBoxes[kind][2]).paint;
      // Chunks of a stage by shade: the further from the first, the lighter.
      c.globalAlpha = transfers || rows.chunks < 2 ? 1 : 1 - 0.45 * row.chunk[i] / (rows.chunks - 1);
      if (transfers) {
        const low = kind === 5 ? 0 : 1, h = Math.max(2, (height - lane - 2) / 2);
        c.fillRect(x, top + lane + 1 + low * h, w, h - 0.5);
      } else {
        c.fillRect(x, top, w - gap, lane - 1);
        if (w > 30 && lane > 12) lit[kind === 0 ? 0 : 1].push([i, x + w / 2, w]);
      }
    }
  }
  c.globalAlpha = 1;
  c.textAlign = 'center';
  c.textBaseline = 'middle';
  lit.forEach((labels, dark) => {
    c.fillStyle = dark ? '#ffffff' : '#10243a';
    for (const [i, x, w] of labels) {
      if (row.kind[i] > 3 || row.kind[i] === 3) continue;
      const text = rows.chunks > 1 ? row.chunk[i] + '.' + row.micro[i] : String(row.micro[i]);
      if (c.measureText(text).width < w - 4) c.fillText(text, x, top + lane / 2);
    }
  });
}

function draw_phases(c, rows, row, top, range, width) {
  const bounds = [0, row.phases.warm_s, row.phases.steady_s, rows.span];
  for (let i = 0; i < 3; ++i) {
    const x = Math.max(0, (bounds[i] - range.from) / (range.to - range.from) * width);
    const right = Math.min(width, (bounds[i + 1] - range.from) / (range.to - range.from) * width);
    if (right <= x) continue;
    c.fillStyle = fill(kPhases[i][1], kPhases[i][2]).paint;
    c.fillRect(kLeft + x, top, right - x, 4);
  }
}

// `drawn`: what it is drawn from, in the form of a run's report.
function pipeline(place, range, drawn = data, title = 'Pipeline') {
  const rows = new Rows(drawn), strip = 7, pitch = rows.height + strip;
  const used = kBoxes.filter((box, kind) => rows.kinds.has(kind));
  const figure =
      el('figure', {},
         el('figcaption', {}, el('strong', {}, title),
            rows.rows.length < drawn.timeline.stages ? 'the first ' + rows.rows.length + ' of ' +
                    drawn.timeline.stages + ' stages; there are too many passes to draw all' :
                                                       'one row per stage, its busiest rank',
            zoom_buttons(range)),
         legend([...used, ...kPhases]));
  place.append(figure);
  const height = rows.rows.length * pitch + kAxis + 4;
  own_canvas(figure, {
    label: 'timeline of the pipeline, one row per stage' + (drawn === data ? '' : ', of ' + title),
    height,
    range,
    left: kLeft,
    right: 8,
    draw: (c, width) => {
      const inner = width - kLeft - 8;
      draw_time_axis(c, range, kLeft, inner, 0, height - kAxis);
      rows.rows.forEach((row, r) => {
        const top = r * pitch + strip;
        draw_phases(c, rows, row, top - 5, range, inner);
        draw_boxes(c, rows, row, top, rows.height, range, inner);
        c.fillStyle = css('faint');
        c.textAlign = 'right';
        c.textBaseline = 'middle';
        c.fillText('stage ' + row.stage, kLeft - 10, top + rows.height / 2);
      });
    },
    at: (x, y) => {
      const row = rows.rows[Math.floor(y / pitch)];
      if (!row || x < kLeft) return '';
      const inner = figure.clientWidth - kLeft - 8;
      const time = range.from + (x - kLeft) / inner * (range.to - range.from), slack = (range.to - range.from) / inner;
      const found = [];
      for (let i = 0; i < row.n; ++i) {
        const start = row.start[i] * rows.tick, end = start + row.length[i] * rows.tick;
        if (time >= start - slack && time <= end + slack)
          found.push(rows.name(row, i) + ': ' + seconds(end - start) + ' from ' + seconds(start));
      }
      return found.length === 0 ? 'stage ' + row.stage + ' idle at ' + seconds(time) : found.slice(0, 6).join('\n');
    }
  });
}

// ---- memory over time ----
function memory_over_time(place, range) {
  const series = data.stages.map((stage) => ({
                                   stage: stage.stage,
                                   n: stage.over_time.n,
                                   at: column(stage.over_time.at, Uint32Array),
                                   gb: column(stage.over_time.gb, Float32Array)
                                 }));
  const most = Math.max(data.capacity_gb, ...series.map((s) => s.gb.reduce((a, b) => Math.max(a, b), 0)));
  // First, middle and last stage are drawn strong: between them the others follow.
  const strong = new Map();
  const count = series.length;
  [0, Math.floor((count - 1) / 2), count - 1].forEach((i, n) => strong.has(i) || strong.set(i, n));
  const looks = [['#2f7fc1', []], ['#1d9a74', [6, 3]], ['#d55e00', [2, 2]]];
  const caption =
      el('figcaption', {}, el('strong', {}, 'Memory over time'), 'GB per GPU of every stage', zoom_buttons(range));
  const names = [...strong].map(
      ([i, n]) =>
          ['stage ' + series[i].stage, looks[n][0],
           n === 0     ? 'solid' :
               n === 1 ? 'vertical' :
                         'dots']);
  const figure = el('figure', {}, caption, legend([...names, ['limit of the device', '#b3261e', 'horizontal']]));
  place.append(figure);
  const height = 220;
  own_canvas(figure, {
    label: 'memory of each stage over the step',
    height,
    range,
    left: kLeft,
    right: 8,
    draw: (c, width) => {
      const inner = width - kLeft - 8, bottom = height - kAxis;
      const y = (gb) => bottom - gb / (most * 1.06) * (bottom - 8);
      draw_time_axis(c, range, kLeft, inner, 0, bottom);
      for (const gb of ticks(0, most, 5).values) {
        c.fillStyle = css('grid');
        c.fillRect(kLeft, Math.round(y(gb)), inner, 1);
        c.fillStyle = css('faint');
        c.textAlign = 'right';
        c.textBaseline = 'middle';
        c.fillText(gb + ' GB', kLeft - 8, y(gb));
      }
      c.save();
      c.beginPath();
      c.rect(kLeft, 0, inner, bottom);
      c.clip();
      const line = (s) => {
        c.beginPath();
        for (let i = 0; i < s.n; ++i) {
          const x = kLeft + (s.at[i] * data.timeline.tick_s - range.from) / (range.to - range.from) * inner;
          if (i > 0) c.lineTo(x, y(s.gb[i - 1]));
          c.lineTo(x, y(s.gb[i]));
        }
        c.lineTo(kLeft + (data.span_s - range.from) / (range.to - range.from) * inner, y(s.gb[s.n - 1]));
        c.stroke();
      };
      series.forEach((s, i) => {
        if (strong.has(i)) return;
        c.strokeStyle = css('line');
        c.lineWidth = 1;
        line(s);
      });
      for (const [i, n] of strong) {
        c.strokeStyle = looks[n][0];
        c.setLineDash(looks[n][1]);
        c.lineWidth = 1.6;
        line(series[i]);
      }
      c.setLineDash([8, 4]);
      c.strokeStyle = '#c5372c';
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(kLeft, y(data.capacity_gb));
      c.lineTo(kLeft + inner, y(data.capacity_gb));
      c.stroke();
      c.restore();
    },
    at: (x) => {
      const inner = figure.clientWidth - kLeft - 8;
      const time = range.from + (x - kLeft) / inner * (range.to - range.from);
      if (x < kLeft) return '';
      return 'at ' + seconds(time) + '\n' +
          series.slice(0, 12)
              .map((s) => {
                let i = 0;
                while (i + 1 < s.n && s.at[i + 1] * data.timeline.tick_s <= time) ++i;
                return 'stage ' + s.stage + ': ' + digits(s.gb[i]) + ' GB';
              })
              .join('\n');
    }
  });
}

// ---- load of the busiest links ----
function link_load(place, range) {
  const links = data.links.map((link) => ({...link, load: column(link.load, Float32Array)}));
  const pitch = 39, height = links.length * pitch + kAxis, left = kLeft;
  const figure =
      el('figure', {},
         el('figcaption', {}, el('strong', {}, 'Load of the busiest links'),
            'share of capacity: the higher and darker, the fuller', zoom_buttons(range)));
  place.append(figure);
  own_canvas(figure, {
    label: 'load of the busiest links over the step',
    height,
    range,
    left,
    right: 8,
    draw: (c, width) => {
      const inner = width - left - 8;
      links.forEach((link, r) => {
        const top = r * pitch + 18;
        for (let i = 0; i < link.load.length; ++i) {
          const from = i / link.load.length * data.span_s, to = (i + 1) / link.load.length * data.span_s;
          if (to < range.from || from > range.to || link.load[i] <= 0.002) continue;
          const x = left + Math.max(0, (from - range.from) / (range.to - range.from) * inner);
          const end = left + Math.min(inner, (to - range.from) / (range.to - range.from) * inner);
          const load = Math.min(1, link.load[i]);
          c.fillStyle = css('accent');
          c.globalAlpha = 0.12 + 0.88 * load;
          c.fillRect(
              x, top + 2 + 18 * (1 - Math.max(0.15, load)), Math.max(0.8, end - x + 0.4), 18 * Math.max(0.15, load));
        }
        c.globalAlpha = 1;
        c.fillStyle = css('grid');
        c.fillRect(left, top + 20, inner, 1);
        c.fillStyle = css('faint');
        c.textAlign = 'left';
        c.textBaseline = 'middle';
        c.fillText(link.name, left, top - 7);
        c.textAlign = 'right';
        c.fillText(link.tier, left - 10, top + 11);
      });
      draw_time_axis(c, range, left, inner, 0, height - kAxis);
    },
    at: (x, y) => {
      const link = links[Math.floor(y / pitch)];
      if (!link) return '';
      const inner = figure.clientWidth - left - 8;
      const time = range.from + Math.max(0, x - left) / inner * (range.to - range.from);
      const bin = Math.min(link.load.length - 1, Math.floor(time / data.span_s * link.load.length));
      return link.name + '\n' + digits(link.capacity_gbs) + ' GB/s, ' + digits(link.gb) + ' GB per step\n' +
          (100 * link.load[bin]).toFixed(0) + ' % full at ' + seconds(time);
    }
  });
}
