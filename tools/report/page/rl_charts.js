// What the report of a step of reinforcement learning and the what-if page draw alike: engine and trainer over time,
// the tail of the answers.
'use strict';

const parts_in = (spans) => [...new Set(spans.map(([, part]) => part))].filter((name) => name !== 'wait');
const part_words = (name) => name.replace('_', ' ');

const lines_config = (spans) => ({
  type: 'bar',
  data: {
    labels: ['engine', 'trainer'],
    datasets: parts_in(spans).map(
        (name, i) => ({
          label: part_words(name),
          data: spans.filter(([, part]) => part === name)
                    .map(([, , engine, from, until]) => ({x: [from, until], y: engine ? 'engine' : 'trainer'})),
          backgroundColor: kPalette[i % kPalette.length][0],
          grouped: false
        }))
  },
  options: {indexAxis: 'y', scales: {x: axis('seconds', {min: 0}), y: axis('')}}
});
const lines_legend = (spans) => palette_legend(parts_in(spans).map((name, i) => [part_words(name), i]));

const tail_config = (through) => ({
  type: 'scatter',
  data: {
    datasets: [{
      label: 'answers',
      data: through.map(([x, y]) => ({x, y})),
      showLine: true,
      borderColor: kPalette[0][0],
      backgroundColor: kPalette[0][0],
      pointRadius: 0
    }]
  },
  options: {scales: {x: axis('seconds', {min: 0}), y: axis('% of the answers', {min: 0, max: 100})}}
});
