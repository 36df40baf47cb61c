// Canvases that the reports draw themselves: sharp on any screen, redrawn when size or theme change, zoomed and panned
// by the same rules as the charts.
'use strict';

const tip = el('div', {className: 'tip', role: 'status'});
document.body.append(tip);
function show_tip(event, text) {
  tip.style.display = text ? 'block' : 'none';
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top =
      (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + 'px';
}

// A range [from, to] within [low, high], shared by all canvases that show the same axis.
class Range {
  constructor(low, high) {
    Object.assign(this, {low, high, from: low, to: high, listeners: []});
  }
  set(from, to) {
    const least = (this.high - this.low) * 1e-6, width = Math.min(this.high - this.low, Math.max(least, to - from));
    this.from = Math.min(Math.max(from, this.low), this.high - width);
    this.to = this.from + width;
    this.listeners.forEach((listener) => listener());
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  pan(share) {
    this.set(this.from + share * (this.to - this.from), this.to + share * (this.to - this.from));
  }
  reset() {
    this.set(this.low, this.high);
  }
}

function zoom_buttons(range) {
  const button = (text, title, act) => el('button', {type: 'button', title, 'aria-label': title, onclick: act}, text);
  return el(
      'span', {className: 'tools'}, button('+', 'zoom in', () => range.zoom(0.5)),
      button('-', 'zoom out', () => range.zoom(2)), button('<', 'earlier', () => range.pan(-0.4)),
      button('>', 'later', () => range.pan(0.4)), button('all', 'all of the step', () => range.reset()));
}

// Wheel with Ctrl (or a pinch) zooms at the pointer, dragging pans, a double click shows all.
function zoomable(canvas, range, x_to_share) {
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.shiftKey && !event.altKey) return;
    event.preventDefault();
    const turn = event.deltaY || event.deltaX;
    range.zoom(Math.exp(turn * 0.0025), range.from + x_to_share(event.offsetX) * (range.to - range.from));
  }, {passive: false});
  let last = null;
  canvas.addEventListener('pointerdown', (event) => {
    last = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (last === null) return;
    range.pan(x_to_share(last) - x_to_share(event.offsetX));
    last = event.offsetX;
  });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => last = null);
  canvas.addEventListener('dblclick', () => range.reset());
}

// A canvas of this height across its place. `draw(context, width, height)`; `at(x, y)` says what the pointer is on.
function own_canvas(place, {label, height, draw, at, range, left = 0, right = 0}) {
  const canvas = el('canvas', {role: 'img', 'aria-label': label, tabIndex: 0});
  const box = el('div', {className: 'canvas', style: {height: height + 'px'}}, canvas);
  place.append(box);
  const redraw = () => {
    const width = box.clientWidth, scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    Object.assign(canvas.style, {width: width + 'px', height: height + 'px'});
    const context = canvas.getContext('2d');
    context.scale(scale, scale);
    context.font = '12px system-ui, sans-serif';
    draw(context, width, height);
  };
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      redraw();
    });
  };
  redraws.push(later);
  new ResizeObserver(later).observe(box);
  if (range) {
    range.listeners.push(later);
    zoomable(canvas, range, (x) => (x - left) / Math.max(1, box.clientWidth - left - right));
    canvas.addEventListener('keydown', (event) => {
      const acts = {
        '+': () => range.zoom(0.5),
        '-': () => range.zoom(2),
        'ArrowLeft': () => range.pan(-0.2),
        'ArrowRight': () => range.pan(0.2),
        '0': () => range.reset()
      };
      if (!acts[event.key]) return;
      acts[event.key]();
      event.preventDefault();
    });
  }
  if (at) {
    canvas.addEventListener('pointermove', (event) => show_tip(event, at(event.offsetX, event.offsetY)));
    canvas.addEventListener('pointerleave', () => show_tip(null, ''));
  }
  redraw();
  return later;
}

// Round steps for an axis of about `count` ticks.
function ticks(from, to, count) {
  const rough = (to - from) / count, power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || 10 * power;
  const out = [];
  for (let i = Math.ceil(from / step); i * step <= to * (1 + 1e-12); ++i) out.push(i * step);
  return {values: out, step};
}
function draw_time_axis(context, range, left, width, top, bottom) {
  const scale = (range.to - range.from) < 1e-3 ? [1e6, 'us'] : (range.to - range.from) < 1 ? [1e3, 'ms'] : [1, 's'];
  const {values, step} = ticks(range.from * scale[0], range.to * scale[0], Math.max(2, width / 110));
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  context.textAlign = 'center';
  context.textBaseline = 'top';
  for (const value of values) {
    const x = left + (value / scale[0] - range.from) / (range.to - range.from) * width;
    context.fillStyle = css('grid');
    context.fillRect(Math.round(x), top, 1, bottom - top);
    context.fillStyle = css('faint');
    const text = value.toFixed(places) + ' ' + scale[1], half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(left + width - half, Math.max(left + half - 8, x)), bottom + 4);
  }
}
