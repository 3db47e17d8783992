'use strict';
(() => {
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const said = document.getElementById('said');
let timer;
const say = text => {
  said.textContent = text;
  said.className = 'on';
  clearTimeout(timer);
  timer = setTimeout(() => { said.className = ''; }, 1600);
};

// Theme: what the system says, or what the reader chose; nothing is stored.
const theme = document.getElementById('theme');
const THEMES = ['auto', 'light', 'dark'];
let chosen = 0;
if (theme) theme.onclick = () => {
  chosen = (chosen + 1) % 3;
  const root = document.documentElement;
  if (chosen) root.dataset.theme = THEMES[chosen]; else delete root.dataset.theme;
  theme.textContent = `theme: ${THEMES[chosen]}`;
};

// Copying: a table becomes Markdown, anything else its text.
const cell = c => {
  const words = (c.dataset.copy ?? c.innerText).trim().replace(/\s+/g, ' ');
  return words.replace(/([\\`*_[\]<>|#])/g, '\\$1');
};
const shown = row => [...row.cells].filter(c => !c.hidden);
const markdown = table => {
  const rows = [...table.rows].filter(row => !row.hidden);
  const line = row => `| ${shown(row).flatMap(c => [cell(c), ...Array(c.colSpan - 1).fill('')]).join(' | ')} |`;
  const rule = `|${shown(rows[0]).flatMap(c => Array(c.colSpan).fill(c.classList.contains('l') ? ' --- ' : ' ---: ')).join('|')}|`;
  return [line(rows[0]), rule, ...rows.slice(1).map(line)].join('\n') + '\n';
};
const copied = target => target.tagName === 'TABLE' ? markdown(target) : target.textContent;
// Where the clipboard is refused (an old browser, a page from a file), a selection is copied.
const select = text => {
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
};
for (const button of all('[data-copies]')) button.onclick = async () => {
  const target = document.getElementById(button.dataset.copies), text = copied(target);
  let done = true;
  try { await navigator.clipboard.writeText(text); } catch { done = select(text); button.focus(); }
  const how = target.tagName === 'TABLE' ? 'copied as Markdown' : 'copied';
  say(done ? how : 'the browser did not allow copying');
};

// Sorting: by the number a cell begins with, else by its words; a sum stays last.
const value = (row, i) => {
  const text = (row.cells[i]?.innerText ?? '').trim();
  const number = parseFloat(text.replace(/[≈,+]/g, '').replace('−', '-').replace(/^✗.*/, '-1'));
  return Number.isNaN(number) ? [1, text] : [0, number];
};
const order = (a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0);
const sort = head => {
  const table = head.closest('table'), body = table.tBodies[0], i = head.cellIndex;
  const sign = head.getAttribute('aria-sort') === 'ascending' ? 1 : -1;
  const rows = [...body.rows].filter(row => !row.classList.contains('sum'));
  rows.sort((a, b) => sign * order(value(a, i), value(b, i)));
  for (const row of [...rows, ...all(':scope > tr.sum', body)]) body.append(row);
};
for (const button of all('th button.sort')) button.onclick = () => {
  const head = button.closest('th'), before = head.getAttribute('aria-sort');
  for (const other of all('th[aria-sort]', head.closest('table'))) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', before === 'descending' ? 'ascending' : 'descending');
  sort(head);
};
window.kvcalcPage = { say, markdown, resort: () => all('th[aria-sort]').forEach(sort) };
})();
