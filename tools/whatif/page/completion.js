// What may be typed at a place of a scenario: keys below the mapping that it is in, with what they mean, and values of
// its key. Keys, choices and meanings are the program's own table of the language; names are those that ship. The text
// is read forwards up to the place, blocks by their indents, braces and brackets by themselves. Left out: anchors,
// block texts and keys in quotes, which the language or its users do without.
'use strict';

// What a place is in: {path: of the mapping, key: whose value it is ('' where a key is typed), word: typed so far}.
function place_in_yaml(text) {
  const lines = text.split('\n');
  const blocks = [];  // {indent, key} and {indent, key: '[]'} for items of lists
  let flow = [];      // {key: that it is the value of, list}
  let key = '', word = '';
  const begin_line = (line) => {
    const [, lead, dashes, name, rest] = /^(\s*)((?:-\s+)*)(?:([\w.]+):(?=\s|$))?(.*)$/.exec(line);
    if (line.trim() === '' && line !== lines.at(-1)) return '';
    let indent = lead.length;
    // An item may stand as far left as the key of its list.
    const ends = ({indent: one, key: name}) => one > indent || (one === indent && (!dashes || name === '[]'));
    while (blocks.length && ends(blocks.at(-1))) blocks.pop();
    for (const dash of dashes.match(/-\s+/g) || []) {
      blocks.push({indent, key: '[]'});
      indent += dash.length;
    }
    key = '';
    word = '';
    if (name === undefined) return rest;
    blocks.push({indent, key: name});
    key = name;
    return rest;
  };
  const read = (rest) => {
    for (let i = 0; i < rest.length; ++i) {
      const c = rest[i];
      if (c === '#' && (i === 0 || /\s/.test(rest[i - 1]))) return;
      if (c === '{' || c === '[') {
        flow.push({key, list: c === '['});
        key = word = '';
      } else if (c === '}' || c === ']') {
        flow.pop();
        key = word = '';
      } else if (c === ',') {
        key = word = '';
      } else if (c === ':' && flow.length && /[\s]/.test(rest[i + 1] || ' ')) {
        key = word;
        word = '';
      } else if (/\s/.test(c)) {
        if (word && !flow.length) word += c;
      } else {
        word += c;
      }
    }
  };
  for (const line of lines) read(flow.length ? line : begin_line(line));
  let path = '';
  const into = (name) => path += name === '[]' ? '[]' : (path && name ? '.' : '') + name;
  const value_of_block = !flow.length && key !== '';
  for (const block of value_of_block ? blocks.slice(0, -1) : blocks) into(block.key);
  if (flow.length) {
    flow.forEach((one, i) => {
      if (i > 0) into(one.key);
      if (one.list) into('[]');
    });
  }
  return {path, key, word};
}

const kListsOfKeys = {
  'cluster.device': 'devices',
  'cluster.fabric': 'fabrics',
  'model': 'models',
  'rl.framework': 'rl',
  'rl.rollout.software': 'engines',
  'rl.training.software': 'software',
  'parallelism.schedule': 'schedules',
};

// Rows of the language right below a path; sections within rl have the keys that they have outside of it.
function keys_below(path) {
  const below = (prefix) => state.catalogue.keys.filter(({path: one}) => {
    const rest = one.slice(prefix.length);
    return one.startsWith(prefix) && rest !== '' && !/[.[]/.test(rest);
  });
  const prefix = path ? path + '.' : '';
  const outside = prefix.replace('rl.rollout.pools', 'serving.pools').replace(/^rl\.(rollout|training)\./, '');
  const found = [...below(prefix), ...(outside !== prefix ? below(outside) : [])];
  const last = (one) => one.path.split('.').pop();
  return found.filter((one, i) => found.findIndex((other) => last(other) === last(one)) === i);
}

function values_of_key(path) {
  const list = path === 'software' ? (state.kind === 'serve' ? 'engines' : 'software') : kListsOfKeys[path];
  if (list) return state.catalogue.lists[list];
  const key = key_of(path) || {choices: [], type: ''};
  const words = key.choices.length ? key.choices : key.type === 'boolean' ? ['true', 'false'] : [];
  return words.map((name) => ({name, about: key.meaning}));
}

function meaning_text(key) {
  const more = [key.type, key.unit && 'in ' + key.unit, key.default && key.default !== '-' && 'default ' + key.default];
  return key.path + ': ' + key.meaning + ' (' + more.filter(Boolean).join(', ') + ')';
}

// [{text: to insert, show: in the list, help}] for the text ahead of the place, and how much of it is replaced.
function completions_at(before) {
  const {path, key, word} = place_in_yaml(before);
  const whole = key ? (path ? path + '.' : '') + key : path;
  const offered = key ?
      values_of_key(whole).map(({name, about}) => ({text: name, show: name, help: name + ': ' + about})) :
      keys_below(path).map((row) => {
        const name = row.path.split('.').pop();
        const unit = row.unit ? ' (' + row.unit + ')' : '';
        return {text: name + ': ', show: name + unit, help: meaning_text(row)};
      });
  const typed = word.trimStart();
  const near = offered.filter(({text}) => text.startsWith(typed));
  return {list: near.length ? near : offered.filter(({text}) => text.includes(typed)), typed};
}

// What the key at the place means; '' for a word that is none.
function help_at(before, after) {
  const {path, key, word} = place_in_yaml(before + /^[\w.]*/.exec(after)[0]);
  const row = key_of((path ? path + '.' : '') + (key || word.trim()));
  return row ? meaning_text(row) : '';
}
