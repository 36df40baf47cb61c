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

// Every GPU of the cluster at once: a block is a node, a square in it a GPU, coloured by the place of its rank along one
// dimension. Squares shrink until all have room.
function rank_picture_section() {
  const map = data.rank_map, dimensions = map.dimensions;
  // What the boxes of all nodes show already is not drawn again.
  if (dimensions.length === 0 || map.nodes * map.gpus_per_node <= map.ranks.length) return;
  const rank_of = (gpu) => map.rank_of_gpu ? map.rank_of_gpu[gpu] : gpu;
  const place_of = (rank, d) => Math.floor(rank % d.within / d.cut) % d.size;
  const place = section(
      'all-ranks', map.ranks.length ? 'All ranks' : 'All GPUs',
      'A block is a node, a square in it a GPU: ' + grouped(map.gpus) + ' on ' + grouped(map.nodes) +
          ' nodes. Squares of one colour are at the same place along the chosen dimension; there are ' +
          kPalette.length + ' colours, which then come again.');
  const across = map.gpus_per_node <= 16 ? Math.min(4, map.gpus_per_node) : Math.ceil(Math.sqrt(map.gpus_per_node));
  const down = Math.ceil(map.gpus_per_node / across), gap = 3, tallest = 720;
  let chosen = Math.max(0, dimensions.findIndex((d) => d.name === 'pipeline')), blocks = 1, size = 10;
  const canvas = el('canvas', {role: 'img', className: 'all-ranks'});
  const context = canvas.getContext('2d');
  const draw = () => {
    const width = Math.max(320, place.clientWidth - 2);
    for (size = 16; size > 1; --size) {
      blocks = Math.max(1, Math.floor(width / (across * size + gap)));
      if (Math.ceil(map.nodes / blocks) * (down * size + gap) <= tallest) break;
    }
    const height = Math.ceil(map.nodes / blocks) * (down * size + gap), sharp = devicePixelRatio || 1;
    canvas.width = width * sharp;
    canvas.height = height * sharp;
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    context.scale(sharp, sharp);
    const line = size > 3 ? 1 : 0;
    for (let gpu = 0; gpu < map.gpus; ++gpu) {
      const node = Math.floor(gpu / map.gpus_per_node), within = gpu % map.gpus_per_node, rank = rank_of(gpu);
      context.fillStyle = rank < 0 ? css('line') : kPalette[place_of(rank, dimensions[chosen]) % kPalette.length][0];
      context.fillRect(
          node % blocks * (across * size + gap) + within % across * size,
          Math.floor(node / blocks) * (down * size + gap) + Math.floor(within / across) * size, size - line, size - line);
    }
    canvas.setAttribute(
        'aria-label', grouped(map.gpus) + ' GPUs on ' + grouped(map.nodes) + ' nodes, coloured by ' +
            dimensions[chosen].name + ', which has ' + grouped(dimensions[chosen].size) + ' places');
  };
  canvas.addEventListener('pointermove', (event) => {
    const wide = across * size + gap, tall = down * size + gap;
    const column = Math.floor(event.offsetX / wide), row = Math.floor(event.offsetY / tall);
    const x = Math.floor((event.offsetX - column * wide) / size), y = Math.floor((event.offsetY - row * tall) / size);
    const node = row * blocks + column, gpu = node * map.gpus_per_node + y * across + x;
    const on = column < blocks && x < across && y < down && node < map.nodes && gpu < map.gpus;
    const rank = on ? rank_of(gpu) : -1;
    const told = on ? ['node ' + node, 'GPU ' + gpu].concat(
                          rank < 0                ? ['no rank'] :
                              map.ranks.length ? ['rank ' + rank] :
                                                 [],
                          rank < 0 ? [] : dimensions.map((d) => d.name + ' ' + place_of(rank, d))) : [];
    show_tip(event, told.join(', '));
  });
  canvas.addEventListener('pointerleave', (event) => show_tip(event, ''));
  const choice = el(
      'select', {
        id: 'picture-dimension',
        onchange: (event) => {
          chosen = Number(event.target.value);
          draw();
        }
      },
      dimensions.map((d, i) => el('option', {value: String(i)}, d.name + ' (' + grouped(d.size) + ')')));
  choice.value = String(chosen);
  place.append(
      el('div', {className: 'controls'}, el('label', {htmlFor: 'picture-dimension'}, 'coloured by '), choice), canvas);
  draw();
  redraws.push(draw);
  addEventListener('resize', draw);
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
