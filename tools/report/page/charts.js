// The palette with its patterns (told apart in grey too), and Chart.js behind one function.
'use strict';

// Colours of Okabe and Ito, which the colour-blind can tell apart, each with a pattern.
const kPalette = [
  ['#2f7fc1', 'solid'],
  ['#e69f00', 'diagonal'],
  ['#7cc6f2', 'dots'],
  ['#1d9a74', 'back'],
  ['#cc79a7', 'cross'],
  ['#d9c400', 'vertical'],
  ['#a8b0ba', 'light'],
  ['#d55e00', 'horizontal'],
  ['#6b7280', 'grid'],
  ['#8c6bb1', 'dots'],
  ['#b2182b', 'diagonal'],
  ['#4d9221', 'back'],
  ['#8a5a2b', 'cross'],
];

function pattern_tile(colour, pattern) {
  const tile = el('canvas', {width: 8, height: 8}), c = tile.getContext('2d');
  c.fillStyle = colour;
  c.globalAlpha = pattern === 'light' ? 0.45 : 1;
  c.fillRect(0, 0, 8, 8);
  c.globalAlpha = 1;
  c.strokeStyle = c.fillStyle = 'rgba(255,255,255,0.62)';
  c.lineWidth = 1.6;
  const line = (...points) => {
    c.beginPath();
    for (let i = 0; i < points.length; i += 4) {
      c.moveTo(points[i], points[i + 1]);
      c.lineTo(points[i + 2], points[i + 3]);
    }
    c.stroke();
  };
  if (pattern === 'diagonal' || pattern === 'cross') line(-1, 9, 9, -1, -5, 5, 5, -5, 3, 13, 13, 3);
  if (pattern === 'back' || pattern === 'cross') line(-1, -1, 9, 9, -5, 3, 5, 13, 3, -5, 13, 5);
  if (pattern === 'horizontal' || pattern === 'grid') line(0, 4, 8, 4);
  if (pattern === 'vertical' || pattern === 'grid') line(4, 0, 4, 8);
  if (pattern === 'dots') {
    c.beginPath();
    c.arc(4, 4, 1.7, 0, 7);
    c.fill();
  }
  return tile;
}

const fills = new Map();
function fill(colour, pattern) {
  const key = colour + pattern;
  if (!fills.has(key)) {
    const tile = pattern_tile(colour, pattern);
    fills.set(key, {
      paint: document.createElement('canvas').getContext('2d').createPattern(tile, 'repeat'),
      image: 'url(' + tile.toDataURL() + ')'
    });
  }
  return fills.get(key);
}
const paint = (i) => fill(...kPalette[i % kPalette.length]).paint;

function legend(items) {  // of [name, colour, pattern]
  return el(
      'div', {className: 'legend'},
      items.map(([name, colour,
                  pattern]) => el('span', {}, el('i', {style: {backgroundImage: fill(colour, pattern).image}}), name)));
}
const palette_legend = (names) => legend(names.map(([name, i]) => [name, ...kPalette[i % kPalette.length]]));

// ---- Chart.js ----
function defaults() {
  Chart.defaults.color = css('faint');
  Chart.defaults.borderColor = css('grid');
  Chart.defaults.font.family = 'system-ui, "Segoe UI", sans-serif';
  Chart.defaults.font.size = 12;
  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  Chart.defaults.plugins.legend.display = false;
  Chart.defaults.plugins.tooltip.displayColors = false;
}

const axis = (title, options = {}) =>
    ({title: {display: true, text: title, color: css('faint')}, grid: {color: css('grid')}, ...options});

// Labels at 1, 2 and 5 of each decade, without trailing zeros.
const log_ticks = {
  maxRotation: 0,
  callback: (value, index, all) => {
    if (all[all.length - 1].value < 8 * all[0].value) return String(Number(value.toPrecision(3)));
    const first = Math.round(value / Math.pow(10, Math.floor(Math.log10(value) + 1e-9)));
    return first === 1 || first === 2 || first === 5 ? String(Number(value.toPrecision(3))) : '';
  }
};

// Zooms and pans the linear and logarithmic scales of a chart by setting min and max; a double click shows all.
function zoom_chart(chart, canvas) {
  const whole = {};
  const scales = () => Object.values(chart.scales).filter((s) => s.type === 'linear' || s.type === 'logarithmic');
  const change = (scale, map) => {
    const options = chart.options.scales[scale.id], log = scale.type === 'logarithmic';
    whole[scale.id] = whole[scale.id] || [scale.min, scale.max];
    const to = log ? Math.log : (v) => v, back = log ? Math.exp : (v) => v;
    const [from, until] = map(to(scale.min), to(scale.max), (at) => to(scale.getValueForPixel(at)));
    [options.min, options.max] = [back(from), back(until)];
  };
  const zoom = (factor, x, y) => {
    for (const scale of scales()) {
      const at = scale.isHorizontal() ? x : y;
      change(scale, (a, b, value) => {
        const middle = at === undefined ? (a + b) / 2 : value(at);
        return [middle - (middle - a) * factor, middle + (b - middle) * factor];
      });
    }
    chart.update('none');
  };
  const reset = () => {
    for (const [id, [min, max]] of Object.entries(whole)) Object.assign(chart.options.scales[id], {min, max});
    chart.update('none');
  };
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.shiftKey && !event.altKey) return;
    event.preventDefault();
    zoom(Math.exp((event.deltaY || event.deltaX) * 0.0025), event.offsetX, event.offsetY);
  }, {passive: false});
  let last = null;
  canvas.addEventListener('pointerdown', (event) => last = [event.offsetX, event.offsetY]);
  canvas.addEventListener('pointermove', (event) => {
    if (!last || !event.buttons) return;
    for (const scale of scales()) {
      const i = scale.isHorizontal() ? 0 : 1, now = [event.offsetX, event.offsetY][i], before = last[i];
      change(scale, (a, b, value) => [a + value(before) - value(now), b + value(before) - value(now)]);
    }
    last = [event.offsetX, event.offsetY];
    chart.update('none');
  });
  for (const end of ['pointerup', 'pointerleave']) canvas.addEventListener(end, () => last = null);
  canvas.addEventListener('dblclick', reset);
  return {zoom, reset};
}

// A chart with its caption. `config()` is called again when the theme changes.
function add_chart(place, {title, label, height, config, zooms = false, legend: items}) {
  const caption = el('figcaption', {}, el('strong', {}, title));
  const box = el('div', {className: 'canvas', style: {height: height + 'px'}});
  const figure = el('figure', {}, caption, items || null, box);
  place.append(figure);
  let chart = null;
  const out = {
    figure,
    zoom: null,
    get chart() {
      return chart;
    }
  };
  const draw = () => {
    if (chart) chart.destroy();
    const canvas = el('canvas', {role: 'img', 'aria-label': label || title});
    box.replaceChildren(canvas);
    defaults();
    chart = new Chart(canvas, config());
    if (zooms) out.zoom = zoom_chart(chart, canvas);
  };
  out.draw = draw;
  draw();
  redraws.push(draw);
  if (zooms) {
    const button = (text, name, act) =>
        el('button', {type: 'button', title: name, 'aria-label': name, onclick: act}, text);
    caption.append(
        el('span', {className: 'tools'}, button('+', 'zoom in', () => out.zoom.zoom(0.6)),
           button('-', 'zoom out', () => out.zoom.zoom(1 / 0.6)), button('all', 'show all', () => out.zoom.reset())));
  }
  return out;
}
