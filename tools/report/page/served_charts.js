// What the report of requests served and the what-if page draw alike: requests that run and wait, the cache in use.
'use strict';

const kUnderWay = [['running', 1, 0], ['waiting', 2, 1]];

function stepped_line(timeline, label, column, colour) {
  return {
    label,
    data: timeline.map((row) => ({x: row[0], y: row[column]})),
    showLine: true,
    stepped: true,
    borderColor: kPalette[colour][0],
    backgroundColor: kPalette[colour][0],
    pointRadius: 0
  };
}

const under_way_config = (timeline) => ({
  type: 'scatter',
  data: {datasets: kUnderWay.map(([name, column, colour]) => stepped_line(timeline, name, column, colour))},
  options: {scales: {x: axis('seconds'), y: axis('requests', {min: 0})}}
});
const under_way_legend = () => palette_legend(kUnderWay.map(([name, , colour]) => [name, colour]));

const cache_config = (timeline) => ({
  type: 'scatter',
  data: {datasets: [stepped_line(timeline, 'cache', 3, 2)]},
  options: {scales: {x: axis('seconds'), y: axis('% of the cache', {min: 0, max: 100})}}
});
