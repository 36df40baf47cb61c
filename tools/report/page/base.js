// Shared by all reports: the data, the theme, numbers with units, the page's skeleton. No network, no storage.
'use strict';

const problems = [];
function report(problem) {
  problems.push(String(problem));
  document.documentElement.dataset.errors = JSON.stringify(problems);
}
window.addEventListener('error', (event) => report(event.message));
window.addEventListener('unhandledrejection', (event) => report(event.reason));
const consoleError = console.error;
console.error = (...what) => {
  report(what.join(' '));
  consoleError.apply(console, what);
};
document.documentElement.dataset.errors = '[]';

const data = JSON.parse(document.getElementById('data').textContent);

// ---- elements ----
function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key === 'style' || key === 'dataset')
      Object.assign(element[key], value);
    else if (key in element)
      element[key] = value;
    else
      element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const page = document.getElementById('page');
const nav = el('nav', {'aria-label': 'sections'});

function section(id, title, caption) {
  const place = el('section', {id}, el('h2', {}, title), caption ? el('p', {className: 'caption'}, caption) : null);
  page.append(place);
  nav.append(el('a', {href: '#' + id}, title));
  return place;
}

function table(columns, rows) {
  const cell = (tag, text, column) => el(tag, {className: column.number ? 'number' : ''}, text);
  return el(
      'div', {className: 'scroll'},
      el('table', {}, el('thead', {}, el('tr', {}, columns.map((c) => cell('th', c.title, c)))),
         el('tbody', {}, rows.map((row) => el('tr', {}, row.map((text, i) => cell('td', text, columns[i])))))));
}

// ---- numbers ----
function digits(value, count = 4) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return '0';
  const exponent = Math.floor(Math.log10(Math.abs(value) * 1.00005));
  return value.toFixed(Math.min(12, Math.max(0, count - 1 - exponent)));
}
function si(value, unit, count = 4) {
  const scales = [[1e18, 'E'], [1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];
  const [factor, prefix] = scales.find(([factor]) => Math.abs(value) >= factor * 0.99995) || [1, ''];
  return digits(value / factor, count) + ' ' + prefix + unit;
}
const bytes = (value, count) => si(value, 'B', count);
function seconds(value, count) {
  const size = Math.abs(value);
  if (value === 0) return '0 s';
  if (size >= 0.99995) return digits(value, count) + ' s';
  if (size >= 0.99995e-3) return digits(value * 1e3, count) + ' ms';
  return digits(value * 1e6, count) + ' us';
}
const percent = (value) => (value > 0 ? '+' : '') + value.toFixed(1) + ' %';
const grouped = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ' ');

// ---- columns ----
function column(text, Type) {
  const raw = atob(text), buffer = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) buffer[i] = raw.charCodeAt(i);
  return new Type(buffer.buffer);
}

// ---- theme ----
const redraws = [];  // called when colours change
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
function is_dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}
function set_theme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  for (const redraw of redraws) redraw();
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => redraws.forEach((redraw) => redraw()));

function begin_page() {
  const toggle =
      el('button', {type: 'button', title: 'light or dark', onclick: () => set_theme(!is_dark())}, 'light / dark');
  page.append(
      el('header', {},
         el('div', {}, el('h1', {}, data.title), el('p', {className: 'subtitle'}, data.subtitle || ''),
            data.description ? el('p', {}, data.description) : null),
         toggle),
      nav);
  if (location.hash.includes('dark')) set_theme(true);
  if (location.hash.includes('light')) set_theme(false);
}

function tiles(facts) {
  page.append(
      el('div', {className: 'tiles'},
         facts.map(
             ([name, value, note]) =>
                 el('div', {className: 'tile'}, el('div', {className: 'name'}, name),
                    el('div', {className: 'value'}, value), note ? el('div', {className: 'note'}, note) : null))));
}

// What a test reads: which canvases there are and how much of each is drawn.
function end_page() {
  const finish = () => {
    if (location.hash.includes('check')) {
      for (const canvas of document.querySelectorAll('canvas')) {
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let drawn = 0;
        for (let i = 3; i < pixels.length; i += 4) drawn += pixels[i] > 0;
        canvas.dataset.drawn = drawn;
      }
    }
    const root = document.documentElement;
    root.dataset.overflow = Math.max(0, root.scrollWidth - root.clientWidth);
    root.dataset.ready = 'yes';
  };
  setTimeout(finish, 300);
}
