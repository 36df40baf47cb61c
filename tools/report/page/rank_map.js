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
