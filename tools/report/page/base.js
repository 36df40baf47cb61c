// Shared by all reports: the data and the page's skeleton. No network, no storage.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);

const page = document.getElementById('page');
const nav = el('nav', {'aria-label': 'sections'});

function section(id, title, caption) {
  const place = el('section', {id}, el('h2', {}, title), caption ? el('p', {className: 'caption'}, caption) : null);
  page.append(place);
  nav.append(el('a', {href: '#' + id}, title));
  return place;
}

function table(columns, rows) {
  const cell = (tag, text, column) =>
      el(tag === 'th' && !text ? 'td' : tag, {className: column.number ? 'number' : ''}, text);
  const label = 'table of ' + columns.map((c) => c.title).filter(Boolean).join(', ');
  return el(
      'div', {className: 'scroll', tabIndex: 0, role: 'group', 'aria-label': label},
      el('table', {}, el('thead', {}, el('tr', {}, columns.map((c) => cell('th', c.title, c)))),
         el('tbody', {}, rows.map((row) => el('tr', {}, row.map((text, i) => cell('td', text, columns[i])))))));
}

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

// Cards in rows of equal length, as near as their number allows; the last row fills the width too.
function tiles(facts) {
  const kMost = 6, rows = Math.ceil(facts.length / kMost), columns = Math.ceil(facts.length / Math.max(rows, 1));
  const place = el(
      'div', {className: 'tiles'},
      facts.map(
          ([name, value, note]) => el(
              'div', {className: 'tile'}, el('div', {className: 'name'}, name), el('div', {className: 'value'}, value),
              note ? el('div', {className: 'note'}, note) : null)));
  place.style.setProperty('--columns', Math.max(columns, 1));
  page.append(place);
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

// Reports of weeks.
const kDay = 86400;
const long_time = (s) => Math.abs(s) >= 2 * kDay ? digits(s / kDay) + ' days' :
    Math.abs(s) >= 7200                          ? digits(s / 3600) + ' h' :
    Math.abs(s) >= 120                           ? digits(s / 60) + ' min' :
                                                   seconds(s);
const share = (value) => (100 * value).toFixed(2) + ' %';
