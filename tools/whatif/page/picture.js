// Pictures of the charts, and files that the page writes. PNG: the canvases below each other. SVG: the same numbers as
// shapes, so that they stay sharp in a paper.
'use strict';

function save(name, type, content) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
  const link = el('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function copy_text(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {  // without leave for the clipboard, as pages from a file may be
    const area = el('textarea', {value: text});
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  button.textContent = 'Copied';
  setTimeout(() => button.textContent = before, 1500);
}

const file_name = () => (state.answer.result.scenario || 'scenario').replace(/[^A-Za-z0-9._-]+/g, '-');

const kPictures = ['breakdown', 'memory', 'under-way', 'cache', 'rl-lines', 'tail', 'timeline'];
const heading_of = (id) => place(id).closest('section').querySelector('h3').textContent;
const headline = () => place('title').textContent + ': ' + kKinds[state.kind].short(state.answer.result);
function save_png() {
  const ids = kPictures.filter((id) => !place(id).closest('section').hidden), scale = window.devicePixelRatio || 1,
        pad = 16 * scale;
  const shown = ids.flatMap((id) => [...place(id).querySelectorAll('canvas')].map((canvas) => [id, canvas]));
  const width = Math.max(...shown.map(([, canvas]) => canvas.width)) + 2 * pad;
  const line = 26 * scale, height = shown.reduce((sum, [, c]) => sum + c.height + line + pad, line * 2 + pad);
  const picture = el('canvas', {width, height}), c = picture.getContext('2d');
  c.fillStyle = css('card');
  c.fillRect(0, 0, width, height);
  c.fillStyle = css('text');
  c.font = 'bold ' + 17 * scale + 'px system-ui, sans-serif';
  c.fillText(headline(), pad, line * 1.3);
  let y = line * 2;
  for (const [id, canvas] of shown) {
    c.font = 14 * scale + 'px system-ui, sans-serif';
    c.fillText(heading_of(id), pad, y + line * 0.7);
    c.drawImage(canvas, pad, y + line);
    y += line + canvas.height + pad;
  }
  picture.toBlob((blob) => save(file_name() + '.png', 'image/png', blob));
}

// ---- SVG ----
const xml = (text) =>
    String(text).replace(/[&<>"]/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]);
const svg_box = (x, y, w, h, colour, title) => '<rect x="' + x.toFixed(2) + '" y="' + y.toFixed(2) + '" width="' +
    Math.max(0, w).toFixed(2) + '" height="' + Math.max(0, h).toFixed(2) + '" fill="' + colour + '"><title>' +
    xml(title) + '</title></rect>';
const svg_text = (x, y, text, more = '') =>
    '<text x="' + x.toFixed(1) + '" y="' + y.toFixed(1) + '" ' + more + '>' + xml(text) + '</text>';

function svg_legend(items, y) {
  let x = 80;
  return items
      .map(([name, colour]) => {
        const one = svg_box(x, y - 10, 14, 11, colour, name) + svg_text(x + 19, y, name);
        x += 34 + 7 * name.length;
        return one;
      })
      .join('');
}

function svg_breakdown(y, width) {
  const {value, total, text} = parts_of_kind(), rows = compared(), parts = used_parts(rows);
  const most = Math.max(...rows.map(({result}) => total(result))), colour = (key) => kPalette[part_index(key)][0];
  const bars = rows.map(({name, result}, r) => {
    let x = 80;
    return svg_text(72, y + 34 + 26 * r, name, 'text-anchor="end"') +
        parts
            .map(([key, part]) => {
              const w = value(result, key) / most * (width - 180), at = x;
              x += w;
              return svg_box(at, y + 20 + 26 * r, w, 20, colour(key), part + ' ' + text(value(result, key)));
            })
            .join('') +
        svg_text(x + 6, y + 34 + 26 * r, text(total(result)));
  });
  return [svg_legend(parts.map(([key, name]) => [name, colour(key)]), y + 10) + bars.join(''), 34 + 26 * rows.length];
}

function svg_memory(y, width) {
  const {bars, held, limit} = memory_now(), tall = 180, inner = width - 100;
  const most = Math.max(limit, ...bars.map(([, parts]) => bar_total(held, parts))) * 1.05;
  const pitch = Math.min(160, inner / bars.length);
  const boxes = bars.map(([name, parts], s) => {
    let top = y + 20 + tall;
    return held.map((key, i) => {
                 const h = parts[key] / most * tall;
                 top -= h;
                 return svg_box(
                     80 + s * pitch + 0.05 * pitch, top, 0.9 * pitch, h, kPalette[i][0],
                     name + ' ' + key + ' ' + bytes(parts[key], 3));
               })
               .join('') +
        (pitch > 14 ?
             svg_text(80 + (s + 0.5) * pitch, y + 36 + tall, bars.length > 1 ? s : name, 'text-anchor="middle"') :
             '');
  });
  const at = y + 20 + tall - limit / most * tall;
  return [
    svg_legend(held.map((key, i) => [key, kPalette[i][0]]), y + 10) + boxes.join('') + '<path d="M80 ' + at.toFixed(1) +
        'H' + (width - 20) + '" stroke="#b3261e" stroke-width="2" stroke-dasharray="6 4"/>' +
        svg_text(72, at + 4, bytes(limit, 3), 'text-anchor="end"'),
    tall + 44
  ];
}

function svg_timeline(y, width) {
  const rows = new Rows(data), pitch = 22, inner = width - 100,
        used = kBoxes.filter((box, kind) => rows.kinds.has(kind));
  const boxes = rows.rows.map((row, r) => {
    let out = svg_text(72, y + 34 + r * pitch, 'stage ' + row.stage, 'text-anchor="end"');
    for (let i = 0; i < row.n && i < 20000; ++i) {
      const transfer = row.kind[i] > 4;
      out += svg_box(
          80 + row.start[i] * rows.tick / data.span_s * inner, y + 20 + r * pitch + (transfer ? 14 : 0),
          Math.max(0.2, row.length[i] * rows.tick / data.span_s * inner), transfer ? 4 : 13, kBoxes[row.kind[i]][1],
          rows.name(row, i));
    }
    return out;
  });
  return [
    svg_legend(used.map(([name, colour]) => [name, colour]), y + 10) + boxes.join('') +
        svg_text(80, y + 36 + pitch * rows.rows.length, '0 s') +
        svg_text(80 + inner, y + 36 + pitch * rows.rows.length, seconds(data.span_s), 'text-anchor="end"'),
    46 + pitch * rows.rows.length
  ];
}

function svg_of_page() {
  const width = 1000, parts = [svg_text(20, 30, headline(), 'font-size="18" font-weight="600"')];
  const drawn = [['breakdown', svg_breakdown]];
  if (kKinds[state.kind].memory) drawn.push(['memory', svg_memory]);
  if (state.kind === 'train') drawn.push(['timeline', svg_timeline]);
  let y = 60;
  for (const [id, draw] of drawn) {
    parts.push(svg_text(20, y, heading_of(id), 'font-weight="600"'));
    const [text, height] = draw(y + 16, width);
    parts.push(text);
    y += height + 46;
  }
  return '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ' + width + ' ' + y +
      '" font-family="system-ui, sans-serif" font-size="12" fill="#1b1f24">' +
      '<rect width="100%" height="100%" fill="#ffffff"/>' + parts.join('\n') + '</svg>\n';
}

function export_as(kind, button) {
  if (!state.answer) return;
  const name = file_name();
  if (kind === 'yaml') save(name + '.yaml', 'text/yaml', state.answer.yaml);
  if (kind === 'json') save(name + '.json', 'application/json', JSON.stringify(state.answer.result, null, 2) + '\n');
  if (kind === 'csv') save(name + '.csv', 'text/csv', variants_csv());
  if (kind === 'png') save_png();
  if (kind === 'svg') save(name + '.svg', 'image/svg+xml', svg_of_page());
  if (kind === 'command') copy_text(command_of(state.sets), button);
}
