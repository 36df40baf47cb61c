// The report of a profiler's trace beside its prediction: facts, the parts of the step by difference, and two timelines
// on one axis.
'use strict';

const milliseconds = (s) => (1e3 * s).toFixed(3);

function parts_section() {
  const place = section(
      'parts', 'Where they differ',
      'Parts of the step, the largest difference first. They add up to it: what runs beside computing counts as busy ' +
          'alone. Above 0 the prediction takes longer.');
  place.append(table(
      [
        {title: 'part'}, {title: 'measured, ms', number: true}, {title: 'times', number: true},
        {title: 'busy, ms', number: true}, {title: 'predicted, ms', number: true}, {title: 'times', number: true},
        {title: 'busy, ms', number: true}, {title: 'difference, ms', number: true}
      ],
      data.rows.map((row) => [
        row.part, milliseconds(row.measured_s), digits(row.measured_count), milliseconds(row.measured_busy_s),
        milliseconds(row.predicted_s), digits(row.predicted_count), milliseconds(row.predicted_busy_s),
        (row.difference_s > 0 ? '+' : '') + milliseconds(row.difference_s)
      ])));
}

function difference_chart() {
  const place = section('chart', 'Differences', 'Predicted less measured, of the parts that differ most.');
  const shown = data.rows.slice(0, 16);
  add_chart(place, {
    title: 'Difference by part',
    height: 60 + 24 * shown.length,
    config: () => ({
      type: 'bar',
      data: {
        labels: shown.map((row) => row.part),
        datasets: [{data: shown.map((row) => 1e3 * row.difference_s), backgroundColor: paint(0), maxBarThickness: 18}]
      },
      options: {indexAxis: 'y', scales: {x: axis('difference, ms'), y: {grid: {display: false}}}}
    })
  });
}

// Each lane is [name, [[from, to, colour], ...]] in seconds since the step's first event.
function timelines_section() {
  const place = section(
      'timelines', 'Both steps on one axis',
      'Rank ' + data.rank + ', its first whole step: computing by phase above, collectives below. Drag to move, Ctrl or ' +
          'Shift and the wheel to zoom, double click for the whole step.');
  const range = new Range(0, data.span_s);
  const kinds = [['forward', 0], ['backward', 1], ['optimizer', 7], ['other', 5], ['collectives', 3]];
  const figure = el('figure', {}, el('figcaption', {}, zoom_buttons(range)), palette_legend(kinds));
  place.append(figure);
  const lane = 24, left = 90, right = 8, foot = 34;
  own_canvas(figure, {
    label: 'measured and predicted timelines',
    height: data.lanes.length * lane + foot,
    range,
    left,
    right,
    draw: (c, width) => {
      const inner = width - left - right, scale = inner / (range.to - range.from);
      draw_time_axis(c, range, left, inner, 0, data.lanes.length * lane);
      data.lanes.forEach(([name, spans], row) => {
        const top = row * lane;
        c.fillStyle = css('text');
        c.textAlign = 'left';
        c.textBaseline = 'middle';
        c.fillText(name, 0, top + lane / 2);
        for (const [from, to, colour] of spans) {
          if (to < range.from || from > range.to) continue;
          const x = Math.max(left, left + (from - range.from) * scale);
          const end = Math.min(left + inner, left + (to - range.from) * scale);
          c.fillStyle = paint(colour);
          c.fillRect(x, top + 2, Math.max(0.5, end - x), lane - 4);
        }
      });
    }
  });
}

begin_page();
tiles(data.facts);
difference_chart();
timelines_section();
parts_section();
end_page();
