// Which rank runs on which GPU: a square for each GPU of the first nodes, coloured by its place along one dimension.
'use strict';

function rank_map_section() {
  const map = data.rank_map, dimensions = map.dimensions;
  if (dimensions.length === 0) return;
  const shown = Math.ceil(map.ranks.length / map.gpus_per_node);
  const place = section(
      'ranks', 'Ranks on nodes',
      'A box is a node, a square a GPU with its rank. Squares of one colour are at the same place along the chosen ' +
          'dimension; the number below is that place.' +
          (shown < map.nodes ? ' The first ' + shown + ' of ' + grouped(map.nodes) + ' nodes are drawn.' : ''));
  const boxes = el('div', {className: 'nodes', role: 'img'});
  const draw = (chosen) => {
    boxes.setAttribute('aria-label', 'Ranks on nodes, coloured by ' + dimensions[chosen].name);
    boxes.replaceChildren();
    for (let node = 0; node < shown; ++node) {
      const box = el('div', {className: 'node', title: 'node ' + node});
      for (let i = node * map.gpus_per_node; i < Math.min(map.ranks.length, (node + 1) * map.gpus_per_node); ++i) {
        const [rank, ...places] = map.ranks[i];
        const where = dimensions.map((d, k) => d.name + ' ' + places[k]).join(', ');
        const square = el(
            'div', {className: 'gpu', title: rank < 0 ? 'no rank' : 'rank ' + rank + ': ' + where},
            el('b', {}, rank < 0 ? '' : String(rank)), el('span', {}, rank < 0 ? '' : String(places[chosen])));
        if (rank >= 0) square.style.borderTopColor = kPalette[places[chosen] % kPalette.length][0];
        box.append(square);
      }
      boxes.append(box);
    }
  };
  const choice = el(
      'select', {id: 'rank-dimension', onchange: (event) => draw(Number(event.target.value))},
      dimensions.map((d, i) => el('option', {value: String(i)}, d.name + ' (' + d.size + ')')));
  const first = Math.max(0, dimensions.findIndex((d) => d.name === 'pipeline'));
  choice.value = String(first);
  place.append(
      el('div', {className: 'controls'}, el('label', {htmlFor: 'rank-dimension'}, 'coloured by '), choice), boxes,
      table(
          [{title: 'dimension'}, {title: 'ranks of a group', number: true}, {title: 'nodes that it spans', number: true}],
          dimensions.map((d) => [d.name, grouped(d.size), grouped(d.nodes)])));
  draw(first);
}

// The layout as a grid: a column is a pipeline stage, a row a replica, a box the ranks that share one stage's layers of
// one replica, by tensor, then by context. The first and the last of many are drawn.
function rank_grid_section() {
  const size = {tensor: 1, pipeline: 1, data: 1, context: 1}, stride = {tensor: 0, pipeline: 0, data: 0, context: 0};
  for (const d of data.rank_map.dimensions) {
    if (!(d.name in size)) continue;
    size[d.name] = d.size;
    stride[d.name] = d.stride;
  }
  if (size.tensor * size.pipeline * size.data * size.context < 2) return;
  const some = (count, most) => count <= most ? [...Array(count).keys()] :
                                                [...Array(most - 2).keys(), null, count - 1];
  const replicas = some(size.data, 6), stages = some(size.pipeline, 12), shards = some(size.tensor * size.context, 8);
  const rank = (d, p, s) => d * stride.data + p * stride.pipeline + (s % size.tensor) * stride.tensor +
      Math.floor(s / size.tensor) * stride.context;
  const told = ['tensor', 'context', 'pipeline', 'data'].filter((name) => size[name] > 1 || name !== 'context')
                   .map((name) => name + ' ' + size[name]).join(' x ');
  const place = section(
      'grid', 'The grid of ranks',
      told + ': a row is a replica, a column a pipeline stage, a box the ranks that share the layers of one stage.');
  const cells = (d, p) => el(
      'div', {className: 'node'},
      shards.map((s) => {
        if (s === null) return el('div', {className: 'gpu'}, el('b', {}, '…'));
        const square = el(
            'div', {className: 'gpu', title: 'rank ' + rank(d, p, s)}, el('b', {}, String(rank(d, p, s))),
            el('span', {}, 't' + s % size.tensor));
        square.style.borderTopColor = kPalette[p % kPalette.length][0];
        return square;
      }));
  const head = ['', ...stages.map((p) => p === null ? '…' : 'stage ' + p)];
  place.append(el(
      'div', {className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'grid of ranks'},
      el('table', {className: 'rank-grid'},
         el('thead', {}, el('tr', {}, head.map((title) => el(title ? 'th' : 'td', title ? {scope: 'col'} : {}, title)))),
         el('tbody', {},
            replicas.map(
                (d) => el(
                    'tr', {}, el('th', {scope: 'row'}, d === null ? '…' : 'replica ' + d),
                    stages.map((p) => el('td', {}, d === null || p === null ? '…' : cells(d, p)))))))));
}
