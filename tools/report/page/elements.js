// Shared by all pages: what went wrong, elements, numbers with units, columns and the theme. No network, no storage.
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

// The sign of a legend, in its colour; the words beside it keep that of text.
const sign = (glyph, color) => el('span', {style: {color}, 'aria-hidden': 'true'}, glyph);

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
