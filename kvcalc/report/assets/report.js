'use strict';
(() => {
const { data, page } = JSON.parse(document.getElementById('data').textContent);
const { figures, readOut, axisEnd } = kvcalcFigures;
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const $ = id => document.getElementById(id);
const state = { plan: page.state[0], context: page.state[1], requests: page.state[2], weights: true, cache: true };

// Places that figures go to, as the page was written.
const texts = all('[data-f]').map(el => [el, el.dataset.f]);
const attributes = all('[data-a]').flatMap(el => el.dataset.a.split(';').map(pair => {
  const [name, key] = pair.split(':');
  return [el, name, key];
}));
const hiders = all('[data-h]').map(el => [el, el.dataset.h]);
// Control and direction marks are spelled out, as the page was written.
const HIDDEN = /(?![ \n\u00a0\u202f\u2009])[\p{C}\p{Z}]/gu;
const spelled = c => {
  const code = c.codePointAt(0), hex = code.toString(16);
  return code < 256 ? `\\x${hex.padStart(2, '0')}` : code < 65536 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
};
const put = raw => {
  const f = Object.fromEntries(Object.entries(raw).map(([key, text]) => [key, text.replace(HIDDEN, spelled)]));
  for (const [el, key] of texts) if (el.textContent !== f[key]) el.textContent = f[key];
  for (const [el, name, key] of attributes) if (el.getAttribute(name) !== f[key]) el.setAttribute(name, f[key]);
  for (const [el, key] of hiders) el.toggleAttribute('hidden', f[key] === 'hidden');
};
const draw = () => {
  const f = figures(data, state, page.items);
  put(f);
  $('ctx').value = state.context;
  $('req').value = state.requests;
  const plan = data.plans[state.plan];
  for (const [name, value] of [['kv', plan.kv_dtype], ['gpu', plan.machine]])
    for (const radio of all(`[name=${name}]`)) radio.checked = radio.value === value;
  $('said-mark').textContent = f.mark === '' ? '' : f.mark === '✓' ? 'yes: ' : 'no: ';
  kvcalcPage.resort();
  hide();
};

$('ctx').oninput = event => { state.context = +event.target.value; draw(); };
$('req').oninput = event => { state.requests = +event.target.value; draw(); };
// The plan with both choices; where it could not be made, one with the choice just taken.
const choose = (field, value) => {
  const now = data.plans[state.plan], other = field === 'kv_dtype' ? 'machine' : 'kv_dtype';
  const having = data.plans.map((p, i) => [p, i]).filter(([p]) => p[field] === value);
  state.plan = (having.find(([p]) => p[other] === now[other]) ?? having[0])[1];
  draw();
};
for (const radio of all('[name=kv]')) radio.onchange = () => choose('kv_dtype', radio.value);
for (const radio of all('[name=gpu]')) radio.onchange = () => choose('machine', radio.value);
for (const button of all('[data-pick]')) button.onclick = () => {
  const [plan, context] = button.dataset.pick.split(',').map(Number);
  Object.assign(state, { plan, context });
  const most = data.requests.indexOf(data.plans[plan].steps[context].max_requests);
  if (most >= 0) state.requests = most;
  draw();
};
for (const button of all('[data-series]')) button.onclick = () => {
  const name = button.dataset.series;
  state[name] = !state[name];
  button.setAttribute('aria-pressed', state[name]);
  draw();
};

// Read-outs of the curve, at its listed points alone.
const plot = document.querySelector('.plot'), tip = $('tip'), cursor = $('cursor');
let at = null;
const points = () => { const end = axisEnd(data, state); return data.growth_tokens.filter(t => t <= end).length; };
const hide = () => { tip.hidden = true; cursor.setAttribute('hidden', ''); at = null; };
const show = k => {
  at = Math.max(0, Math.min(points() - 1, k));
  const x = data.growth_tokens[at] / axisEnd(data, state), wide = plot.clientWidth;
  cursor.removeAttribute('hidden');
  for (const name of ['x1', 'x2']) cursor.setAttribute(name, `${100 * x}%`);
  tip.replaceChildren(...readOut(data, state, at).map((line, i) => {
    const el = document.createElement(i ? 'div' : 'b');
    el.textContent = line;
    return el;
  }));
  tip.hidden = false;
  tip.style.left = `${Math.max(0, Math.min(x * wide + 10, wide - tip.offsetWidth))}px`;
};
const nearest = x => {
  const end = axisEnd(data, state), wanted = x * end;
  let best = 0;
  data.growth_tokens.forEach((t, k) => { if (t <= end && Math.abs(t - wanted) < Math.abs(data.growth_tokens[best] - wanted)) best = k; });
  return best;
};
plot.onpointermove = event => { const box = plot.getBoundingClientRect(); show(nearest((event.clientX - box.left) / box.width)); };
plot.onpointerleave = hide;
plot.onblur = hide;
plot.onkeydown = event => {
  const moves = { ArrowRight: 1, ArrowLeft: -1, PageUp: 8, PageDown: -8 };
  if (event.key in moves) show((at ?? nearest(data.contexts[state.context] / axisEnd(data, state))) + moves[event.key]);
  else if (event.key === 'Home') show(0);
  else if (event.key === 'End') show(points() - 1);
  else if (event.key === 'Escape') hide();
  else return;
  event.preventDefault();
};
draw();
})();
