'use strict';
// Every figure of the page in one state, name for name what kvcalc/report/html_figures.py says.
// Bytes are BigInt: nothing is rounded before it is shown, and nothing is interpolated.
const kvcalcFigures = (() => {
const KIB = 1024n, MIB = KIB * KIB, GIB = MIB * KIB, TIB = GIB * KIB;
const B = BigInt;
const abs = x => x < 0n ? -x : x, min = (a, b) => a < b ? a : b, max = (a, b) => a > b ? a : b;
const cdiv = (a, b) => (a + b - 1n) / b;
const N = n => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
const fixed = (value, unit = 1n, decimals = 2) => {
  const k = 10n ** B(decimals), scaled = (2n * abs(value) * k + unit) / (2n * unit);
  const sign = value < 0n && scaled ? '−' : '';
  return `${sign}${N(scaled / k)}${decimals ? `.${String(scaled % k).padStart(decimals, '0')}` : ''}`;
};
const trimmed = (value, unit) => {
  const text = fixed(value, unit);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
};
const unitOf = value => {
  for (const [name, size] of [['TiB', TIB], ['GiB', GIB], ['MiB', MIB], ['KiB', KIB]]) if (abs(value) >= size) return [name, size];
  return ['B', 1n];
};
const unitFor = value => unitOf(max(value, 1n));
const bytes = value => { const [name, size] = unitOf(value); return `${trimmed(value, size)}\u00a0${name}`; };
const counted = n => n === 1 ? '1 request' : `${N(n)} requests`;
const s = n => n === 1 ? 's' : '';
const share = (part, whole) => {
  const q = max(part, 0n) * 100000n / max(whole, 1n);
  return `${q / 1000n}.${String(q % 1000n).padStart(3, '0')}%`;
};
const roundedUp = value => {
  const [name, unit] = value >= GIB / 10n ? ['GiB', GIB] : ['MiB', MIB];
  return `${fixed(cdiv(value * 100n, unit), 100n)} ${name}`;
};
const ends = (low, high) => low === high ? '' : `${fixed(low, GIB)}–${fixed(high, GIB)}`;
const pick = (values, i) => values.length === 1 ? values[0] : values[i];
const most = values => values.reduce((a, b) => Math.max(a, b), 0);
const UNUSED = new Set(['unused', 'reserve', 'margin']), COMMON = new Set([...UNUSED, 'memory', 'weights', 'kv_pool']);

const look = (data, state) => {
  const plan = data.plans[state.plan], step = plan.steps[state.context];
  const v = { data, state, plan, step, tokens: data.contexts[state.context], n: data.requests[state.requests] };
  v.perReplica = Math.ceil(v.n / plan.replicas);
  v.side = step.sides[pick(step.side_of, state.requests)];
  v.text = plan.texts[pick(step.text_of, state.requests)];
  v.budget = v.side.budget === null ? [] : plan.budgets[v.side.budget];
  v.lines = Object.fromEntries(v.budget.map(line => [line.item, line]));
  v.pool = v.lines.kv_pool ?? null;
  v.full = pick(plan.full_at_tokens, state.context)[state.requests];
  v.kind = data.steps.findIndex(x => x.kv_dtype === plan.kv_dtype);
  v.size = data.sizes[v.kind];
  v.gpus = plan.gpu ? plan.gpu.count : 1;
  v.needed = (held, j, k) => {
    if (held.needed_bytes !== null) return B(k === undefined ? held.needed_bytes[j] : held.needed_bytes[j][k]);
    const of = name => B(k === undefined ? held[name] : held[name][k]);
    return v.perReplica === 1 ? of('first_bytes') : of('fixed_bytes') + B(v.perReplica) * of('each_bytes');
  };
  v.need = v.needed(v.side, state.requests);
  v.fits = step.max_requests === null || step.max_requests >= v.n;
  v.about = step.max_requests_low === step.max_requests_high ? '' : '≈';
  const sum = test => v.budget.filter(test).reduce((a, line) => a - B(line.bytes), 0n);
  v.weights = v.lines.weights ? -B(v.lines.weights.bytes) : 0n;
  v.engine = sum(line => !COMMON.has(line.item));
  v.unused = sum(line => UNUSED.has(line.item));
  v.memory = v.lines.memory ? B(v.lines.memory.bytes) : v.pool ? max(B(v.pool.bytes), 1n) : 0n;
  v.limit = v.memory - v.unused;
  return v;
};

const planWords = v => {
  const format = v.data.weights.format, engine = v.plan.engine;
  const rules = engine.id === 'none' ? 'textbook' : `${engine.id} ${engine.version ?? ''}`.trim();
  const words = [format ? `${v.data.model.name} ${format}` : v.data.model.name];
  if (v.plan.gpu) words.push(v.plan.machine, rules);
  return `${words.join(', ')}, KV cache in ${v.plan.kv_dtype}.`;
};
const second = v => {
  if (!v.pool) return '';
  const { max_requests: many, max_context_tokens: longest, max_requests_low: low, max_requests_high: high } = v.step;
  const maximum = v.data.model.max_context_tokens;
  let text = '';
  if (low !== high) text = ` Between ${N(low)} and ${N(high)} requests of this length fit.`;
  else if (!v.fits && many) text = ` The most that fits is ${counted(many)} of this length.`;
  if (longest === null) return `${text} One request alone has no end.`;
  if (longest === 0) return `${text} Not one request of a single token fits.`;
  if (longest === maximum) return `${text} One request alone may reach the model's maximum of ${N(maximum)} tokens.`;
  return `${text} One request alone may reach ${v.about}${N(longest)}${maximum === null ? '' : ` of ${N(maximum)}`} tokens.`;
};
const verdict = (v, f) => {
  const load = `${counted(v.n)} of ${N(v.tokens)} tokens`, many = v.step.max_requests;
  f['ctx'] = `${N(v.tokens)} tokens`;
  f['req'] = N(v.n);
  f['mark'] = !v.pool ? '' : v.fits ? '✓' : '✗';
  f['verdict.class'] = !v.pool ? '' : v.fits ? 'yes' : 'no';
  if (!v.pool) f['verdict'] = `${load} take${s(v.n)} ${bytes(v.need)} of KV cache`;
  else if (v.fits) {
    const sure = v.step.max_requests_low >= v.n ? '' : ', but not surely';
    const room = many > v.n ? `; room for ${v.about}${N(many - v.n)} more` : '';
    f['verdict'] = `${load} fit${s(v.n)}${sure}${room}`;
  } else {
    const word = v.pool.low_bytes !== v.pool.high_bytes ? '≈' : '';
    f['verdict'] = `${word}${roundedUp(v.need - B(v.pool.bytes))} short${v.gpus > 1 ? ' per GPU' : ''} for ${load}`;
  }
  f['sub'] = planWords(v) + second(v);
};
const tiles = (v, f) => {
  const token = B(v.size.bytes_per_token), per = B(v.side.bytes_per_request);
  const whole = B(v.size.contexts[v.state.context].bytes_per_request);
  f['token'] = bytes(token);
  f['token.s'] = `${N(token)} B`;
  if (v.size.bends.length) f['token.s'] += `, up to ${N(v.size.bends[0].tokens)} tokens`;
  if (v.size.state_bytes_per_request) f['token.s'] += `; and ${bytes(B(v.size.state_bytes_per_request))} a request`;
  f['one'] = bytes(per);
  f['one.s'] = v.gpus > 1 ? `on each GPU; ${bytes(whole)} in all, stored once` : `${N(per)} B`;
  f['load.t'] = counted(v.n);
  f['load'] = bytes(v.need);
  f['load.s'] = v.gpus === 1 ? `${N(v.need)} B` : 'on each GPU';
  f['load.hidden'] = v.n === 1 ? 'hidden' : '';
  for (const key of ['pool', 'pool.s', 'most', 'most.s', 'long', 'long.s']) f[key] = '';
  f['machine.hidden'] = v.pool ? '' : 'hidden';
  if (!v.pool) return;
  const low = B(v.pool.low_bytes), high = B(v.pool.high_bytes);
  f['pool'] = `${low === high ? '' : '≈'}${fixed(B(v.pool.bytes), GIB)} GiB`;
  f['pool.s'] = [v.gpus > 1 ? 'per GPU' : '', ends(low, high)].filter(Boolean).join(', ') || `${N(v.pool.bytes)} B`;
  const { max_requests: many, max_requests_low: least, max_requests_high: best, max_context_tokens: longest } = v.step;
  f['most'] = `${many ? v.about : ''}${N(many)}`;
  f['most.s'] = least !== best ? `between ${N(least)} and ${N(best)}` : 'low and high agree';
  const maximum = v.data.model.max_context_tokens;
  const sign = longest === null || longest === 0 || longest === maximum ? '' : v.about;
  f['long'] = longest === null ? 'no end' : `${sign}${N(longest)}`;
  f['long.s'] = maximum === null ? 'tokens' : `of ${N(maximum)} tokens`;
  if (longest === maximum && longest !== null) f['long.s'] = "tokens, the model's maximum";
};
const bar = (v, f) => {
  const base = v.weights + v.engine, total = max(v.memory, 1n), scale = max(total, min(base + v.need, 2n * total));
  const parts = {
    all: [0n, total], w: [0n, v.weights], e: [v.weights, base], k: [base, min(base + v.need, v.limit)],
    r: v.fits ? [base + v.need, v.limit] : [0n, 0n], x: v.fits ? [0n, 0n] : [max(base, v.limit), base + v.need],
  };
  for (const [name, [from, to]] of Object.entries(parts)) {
    const first = min(from, scale), last = min(max(from, to), scale);
    f[`bar.${name}.x`] = share(first, scale);
    f[`bar.${name}.w`] = share(last - first, scale);
    f[`bar.${name}.named`] = (last - first) * 100n >= 24n * scale ? '' : 'hidden';
  }
  f['bar.limit'] = share(v.limit, scale);
  f['bar.limit.a'] = v.limit * 2n > scale ? 'end' : 'start';
  f['bar.limit.t'] = `limit ${fixed(v.limit, GIB)} GiB`;
  const pool = v.pool ?? { bytes: 0, low_bytes: 0, high_bytes: 0 };
  f['bar.low'] = share(min(v.limit - B(pool.high_bytes), scale), scale);
  f['bar.high'] = share(min(v.limit - B(pool.low_bytes), scale), scale);
  f['bar.spread.hidden'] = pool.low_bytes === pool.high_bytes ? 'hidden' : '';
  f['bar.total'] = `${v.lines.memory ? 'one GPU' : 'the given pool'}, ${fixed(total, GIB)} GiB`;
  const short = v.fits || !v.pool ? 0n : v.need - B(v.pool.bytes), room = v.fits ? v.limit - base - v.need : 0n;
  for (const [name, value] of Object.entries({ w: v.weights, e: v.engine, k: v.need, r: room, o: v.unused })) {
    f[`leg.${name}`] = fixed(value, GIB);
    f[`leg.${name}.hidden`] = value > 0n ? '' : 'hidden';
  }
  f['leg.x'] = short > 0n ? roundedUp(short) : '';
  f['leg.x.hidden'] = short > 0n ? '' : 'hidden';
  f['bar.label'] = `One GPU in GiB: ${f['leg.w']} weights, ${f['leg.e']} engine, ${f['leg.k']} KV cache needed of a pool of ${fixed(B(pool.bytes), GIB)}`;
};
const budget = (v, f, items) => {
  const rows = most(v.data.plans.flatMap(p => p.budgets.map(b => b.length)));
  for (let r = 0; r < rows; r++) {
    const line = v.budget[r];
    f[`b${r}.hidden`] = line ? '' : 'hidden';
    f[`b${r}.class`] = line?.item === 'kv_pool' ? 'sum' : '';
    for (const key of ['item', 'best', 'range', 'basis', 'note']) f[`b${r}.${key}`] = '';
    if (!line) continue;
    const last = line.item === 'kv_pool', low = B(line.low_bytes), high = B(line.high_bytes);
    const name = items[line.item] ?? line.item.replaceAll('_', ' '), weights = line.item === 'weights' && line.note;
    f[`b${r}.item`] = weights ? `${name}, ${line.note}` : name;
    f[`b${r}.best`] = `${last && low !== high ? '≈' : ''}${fixed(B(line.bytes), GIB)}`;
    f[`b${r}.range`] = last && low < 0n ? ends(low, high) : ends(min(abs(low), abs(high)), max(abs(low), abs(high)));
    f[`b${r}.basis`] = line.basis;
    f[`b${r}.note`] = weights ? '' : line.note;
  }
};
const changes = (v, f) => {
  const rows = most(v.data.plans.flatMap(p => p.steps.map(x => x.suggestions.length))), found = v.step.suggestions;
  for (let r = 0; r < rows; r++) {
    const c = found[r];
    f[`c${r}.hidden`] = c ? '' : 'hidden';
    for (const key of ['arg', 'mark', 'most', 'plus', 'long', 'pool']) f[`c${r}.${key}`] = '';
    if (!c) continue;
    const more = c.max_requests - (v.step.max_requests ?? 0);
    f[`c${r}.arg`] = c.argument;
    f[`c${r}.mark`] = c.max_requests >= v.n ? '✓' : '✗';
    f[`c${r}.most`] = N(c.max_requests);
    f[`c${r}.plus`] = more > 0 ? `+${N(more)}` : '';
    f[`c${r}.long`] = c.max_context_tokens === null ? 'no end' : N(c.max_context_tokens);
    f[`c${r}.pool`] = fixed(B(c.kv_pool_bytes), GIB);
  }
  f['changes.hidden'] = found.length ? '' : 'hidden';
  f['changes.lead'] = `From ${v.plan.machine}, ${v.plan.kv_dtype} and ${N(v.tokens)} tokens, each alone. ✓: enough for ${counted(v.n)}.`;
};
const start = (v, f) => {
  const { command, startup_lines: lines, limits } = v.text;
  f['start'] = [command ?? '', ...(lines.length ? [''] : []), ...lines].join('\n');
  f['start.hidden'] = command ? '' : 'hidden';
  f['ask'] = `${v.plan.ask} -c ${v.tokens}${v.n > 1 ? ` -n ${v.n}` : ''}`;
  f['limits'] = limits.map(limit => limit.message).join('; ');
  f['limits.hidden'] = limits.length ? '' : 'hidden';
};

const GRID = 5;
const axisEnd = v => {
  const contexts = v.data.contexts, last = contexts.at(-1);
  if (v.full === null) return last;
  const wanted = Math.max(v.tokens, Math.min(last, Math.floor(v.full * 13 / 10)));
  return contexts.find(c => c >= wanted) ?? last;
};
const gridStep = (top, unit) => {
  for (let power = 1n; ; power *= 10n) for (const first of [20n, 25n, 50n]) if (B(GRID) * first * power * unit >= 100n * top) return first * power;
};
const unit = q => `${q < 0n ? '-' : ''}${abs(q) / 100000n}.${String(abs(q) % 100000n).padStart(5, '0')}`;
const place = (value, top) => unit((2n * top - min(value, 2n * top)) * 100000n / top - 100000n);
const band = (low, high, top) => [share(top - min(high, top), top), share(min(high, top) - min(low, top), top)];
const areas = (points, base, limit, end, top, full) => {
  const along = t => unit(B(t) * 100000n / B(end));
  const area = line => {
    if (line.length < 2) return 'M0 0';
    const foot = place(base, top), body = line.map(([t, b]) => `L${along(t)} ${place(base + b, top)}`).join('');
    return `M${along(line[0][0])} ${foot}${body}L${along(line.at(-1)[0])} ${foot}Z`;
  };
  if (full === null || full >= end) return [area(points), 'M0 0'];
  const at = [full, max(limit - base, 0n)];
  return [area([...points.filter(p => p[0] < full), at]), area([at, ...points.filter(p => p[0] > full)])];
};
const growth = (v, f) => {
  const held = v.plan.growth[v.side.rank], end = axisEnd(v);
  const points = v.data.growth_tokens.map((t, k) => [t, k]).filter(([t]) => t <= end).map(([t, k]) => [t, v.needed(held, v.state.requests, k)]);
  const shown = v.state.weights && v.pool !== null, own = v.weights + v.engine, base = shown ? own : 0n;
  const limit = v.pool === null ? 0n : v.limit - (shown ? 0n : own);
  let highest = max(max(limit * 23n / 20n, base * 11n / 10n), 1n);
  if (v.pool === null) highest = points.reduce((a, [, b]) => max(a, b), 0n) || 1n;
  const [name, size] = unitFor(highest), step = gridStep(highest, size);
  const count = Number(cdiv(100n * highest, step * size)), top = cdiv(step * size * B(count), 100n);
  const decimals = step % 100n === 0n ? 0 : step % 10n === 0n ? 1 : 2;
  for (let n = 0; n <= GRID; n++) {
    f[`g.y${n}`] = n <= count ? share(B(count - n), B(count)) : '0.000%';
    f[`g.y${n}.t`] = n <= count ? fixed(step * B(n), 100n, decimals) : '';
    f[`g.y${n}.hidden`] = n <= count ? '' : 'hidden';
  }
  f['g.unit'] = v.gpus > 1 ? `${name} on one GPU` : name;
  for (let q = 1; q <= 4; q++) f[`g.x${q}`] = N(Math.floor(end * q / 4));
  [f['g.w.y'], f['g.w.h']] = band(0n, shown ? v.weights : 0n, top);
  [f['g.e.y'], f['g.e.h']] = shown ? band(v.weights, base, top) : ['0.000%', '0.000%'];
  const full = v.full;
  [f['g.kv.d'], f['g.no.d']] = areas(points, base, limit, end, top, full);
  f['g.kv.hidden'] = v.state.cache ? '' : 'hidden';
  f['g.limit'] = share(top - min(limit, top), top);
  f['g.limit.t'] = `limit ${fixed(limit, size)}`;
  f['g.full.x'] = share(full === null ? 0n : B(Math.min(full, end)), B(end));
  f['g.full.t'] = full === null ? '' : `full at ${N(full)}`;
  f['g.full.a'] = full !== null && full * 3 > end ? 'end' : 'start';
  f['g.full.hidden'] = full === null || full > end ? 'hidden' : '';
  f['g.now'] = share(B(Math.min(v.tokens, end)), B(end));
  const side = v.n === 1 ? counted(v.n) : `${counted(v.n)} side by side`;
  f['g.lead'] = !v.pool ? `${side}; no machine is given, so nothing limits them.`
    : full === null ? `${side}. Memory holds ${v.n === 1 ? 'it' : 'each'} to the longest context.`
    : full === 0 ? `${side}. Memory is full before the first token.`
    : `${side}. Memory is full when ${v.n === 1 ? 'it has' : 'each has'} ${v.about}${N(full)} tokens.`;
  f['g.label'] = `KV cache of one GPU over tokens in each request: ${f['g.lead']}`;
};
const milestone = m => m.kind === 'decoded' && m.added_bytes !== null ? `${m.label}: + ${bytes(B(m.added_bytes))}` : m.label;
const steps = (v, f) => {
  const found = v.data.steps[v.kind], merged = new Map();
  for (const m of found.milestones) merged.set(m.step, [...(merged.get(m.step) ?? []), m]);
  const prompt = found.prompt_tokens, last = prompt + found.output_tokens, rows = [];
  const [name, size] = unitFor(found.milestones.reduce((a, m) => max(a, B(m.kv_bytes)), 0n));
  let ended = v.full === null || v.full >= last;
  for (const [step, named] of merged) {
    const m = named[0], one = B(m.kv_bytes);
    if (!ended && m.tokens > v.full) {
      const token = v.full + 1;
      rows.push([N(1 + Math.max(token - prompt, 0)), `${v.about}${N(token)}`, '', '', '✗ out of memory']);
      ended = true;
    }
    rows.push([N(step), N(m.tokens), fixed(one, size), fixed(B(v.n) * one, size), named.map(milestone).join('; ')]);
  }
  const total = most(v.data.steps.map(x => new Set(x.milestones.map(m => m.step)).size)) + 1;
  for (let r = 0; r < total; r++) {
    const row = rows[r] ?? ['', '', '', '', ''];
    ['step', 'tokens', 'one', 'all', 'note'].forEach((key, i) => { f[`t${r}.${key}`] = row[i]; });
    f[`t${r}.hidden`] = r < rows.length ? '' : 'hidden';
    f[`t${r}.class`] = row[4].startsWith('✗') ? 'full' : '';
  }
  f['t.one'] = `one request ${name}`;
  f['t.all'] = `${counted(v.n)} ${name}`;
  f['t.lead'] = `A prompt of ${N(prompt)} tokens, then ${N(last - prompt)} decoded one by one; each token stored once over all GPUs.`;
};
const percent = (part, whole) => `${fixed(1000n * part, 10n * max(whole, 1n), 1)}%`;
const wasteLead = (v, found, policies) => {
  if (!found) return `A request given is longer than ${N(v.tokens)} tokens: nothing to reserve.`;
  const lengths = found.lengths.map(N), several = lengths.length > 1;
  const which = several ? `${lengths.slice(0, -1).join(', ')} and ${lengths.at(-1)}` : lengths[0];
  const text = `${several ? 'Requests that used' : 'A request that used'} ${which} tokens, where each may grow to ${N(v.tokens)}.`;
  const naive = policies.find(p => p.policy === 'naive'), slots = v.step.max_requests;
  if (!naive || !slots || !naive.allocated_bytes) return text;
  const work = fixed(B(slots) * B(naive.used_bytes), B(naive.allocated_bytes), 1);
  return `${text} Reserved in full, ${v.about}${N(slots)} slot${slots === 1 ? '' : 's'} of that length do the work of ${v.about}${work}.`;
};
const waste = (v, f) => {
  const found = v.data.allocations.find(a => a.kv_dtype === v.plan.kv_dtype && a.context_tokens === v.tokens);
  const rows = most(v.data.allocations.map(a => a.policies.length)), policies = found?.policies ?? [];
  const top = policies.length ? policies.reduce((a, p) => max(a, B(p.allocated_bytes)), 0n) : 1n, [name, size] = unitFor(top);
  f['w.hidden'] = policies.length ? '' : 'hidden';
  f['w.unit'] = name;
  for (let r = 0; r < rows; r++) {
    const p = policies[r], used = p ? B(p.used_bytes) : 0n, taken = p ? B(p.allocated_bytes) : 0n;
    f[`w${r}.hidden`] = p ? '' : 'hidden';
    f[`w${r}.u`] = share(used, top);
    f[`w${r}.x`] = share(taken - used, top);
    f[`w${r}.name`] = p ? p.policy : '';
    f[`w${r}.size`] = p ? fixed(taken, size) : '';
    f[`w${r}.wasted`] = p ? fixed(B(p.wasted_bytes), size) : '';
    f[`w${r}.share`] = p ? percent(B(p.wasted_bytes), taken) : '';
  }
  f['w.lead'] = wasteLead(v, found, policies);
};
const savings = (v, f) => {
  const found = v.data.savings.find(x => x.kv_dtype === v.plan.kv_dtype && x.context_tokens === v.tokens);
  const rows = most(v.data.savings.map(x => x.techniques.length)), techniques = found?.techniques ?? [];
  const n = B(v.n), baseline = n * B(v.size.contexts[v.state.context].bytes_per_request), [name, size] = unitFor(baseline);
  f['k.unit'] = name;
  f['k.hidden'] = techniques.length ? '' : 'hidden';
  f['k.lead'] = `${counted(v.n)} of ${N(v.tokens)} tokens take${s(v.n)} ${bytes(baseline)}, each token stored once over all GPUs. One technique alone:`;
  for (let r = 0; r < rows; r++) {
    const t = techniques[r];
    f[`k${r}.hidden`] = t ? '' : 'hidden';
    for (const key of ['label', 'size', 'saved', 'factor', 'quality']) f[`k${r}.${key}`] = '';
    f[`k${r}.x`] = '0.000%';
    if (!t) continue;
    const with_ = B(t.fixed_bytes) + n * B(t.each_bytes), before = B(t.before_fixed_bytes) + n * B(t.before_each_bytes);
    f[`k${r}.label`] = t.label;
    f[`k${r}.quality`] = t.quality;
    f[`k${r}.size`] = fixed(with_, size);
    f[`k${r}.saved`] = fixed(before - with_, size);
    f[`k${r}.factor`] = with_ ? `${fixed(before, with_)}×` : '–';
    f[`k${r}.x`] = share(min(with_, baseline), baseline);
  }
};
const KINDS = { sliding_window: 'window', latent: 'MLA latent', chunked: 'chunk', full: 'full' };
const layer = g => {
  const dims = new Set([g.key_dim, g.value_dim].filter(d => d !== null));
  const all = x => x ? N(g.count * x) : '';
  return [
    String(g.count), String(g.variant || (KINDS[g.kind] ?? g.kind)).replaceAll('_', ' '), g.kv_heads === null ? '' : String(g.kv_heads),
    dims.size === 2 ? `${g.key_dim} + ${g.value_dim}` : String(g.key_dim || ''),
    g.window_tokens === null ? '' : N(g.window_tokens), all(g.bytes_per_token), all(g.state_bytes),
  ];
};
const size = (v, f) => {
  const x = v.size;
  f['s.symbols'] = x.formula.symbols;
  f['s.numbers'] = `${x.formula.numbers.split(' = ')[0]} = ${N(x.bytes_per_token)} B`;
  const rows = most(v.data.sizes.map(y => y.layers.length));
  for (let r = 0; r < rows; r++) {
    const g = x.layers[r], texts = g ? layer(g) : ['', '', '', '', '', '', ''];
    f[`s${r}.hidden`] = g ? '' : 'hidden';
    ['count', 'kind', 'heads', 'dim', 'until', 'token', 'state'].forEach((key, i) => { f[`s${r}.${key}`] = texts[i]; });
  }
  const a = x.attention_variants;
  f['v.hidden'] = a ? '' : 'hidden';
  const sizes = a ? [a.mha_bytes_per_token, a.actual_bytes_per_token, a.mqa_bytes_per_token].map(B) : [0n, 0n, 0n];
  const [name, u] = unitFor(sizes[1]);
  ['mha', 'own', 'mqa'].forEach((key, i) => {
    f[`v.${key}`] = `${trimmed(sizes[i], u)} ${name}`;
    f[`v.${key}.x`] = share(sizes[i], sizes[0]);
  });
};
const trace = (v, f) => {
  v.data.simulations.forEach((_, p) => { f[`sim${p}.hidden`] = p === v.state.plan ? '' : 'hidden'; });
};
const ladder = (v, f) => {
  v.data.contexts.forEach((_, i) => {
    f[`z${i}`] = fixed(B(v.size.contexts[i].bytes_per_request), GIB);
    f[`z${i}.class`] = i === v.state.context ? 'row' : '';
    v.data.plans.forEach((_p, p) => { f[`l${p}.${i}`] = i === v.state.context && p === v.state.plan ? 'true' : 'false'; });
  });
};
const figures = (data, state, items) => {
  const v = look(data, state), f = {};
  for (const part of [verdict, tiles, bar]) part(v, f);
  budget(v, f, items);
  for (const part of [changes, start, growth, steps, waste, savings, size, trace, ladder]) part(v, f);
  return f;
};
// What the curve says at one of its listed points.
const readOut = (data, state, k) => {
  const v = look(data, state), held = v.plan.growth[v.side.rank], t = data.growth_tokens[k];
  const all = v.needed(held, state.requests, k), lines = [`${N(t)} tokens in each`];
  lines.push(`${counted(v.n)}: ${fixed(all, GIB)} GiB of KV cache`);
  if (v.pool) {
    const own = v.weights + v.engine;
    lines.push(`with weights and engine ${fixed(own + all, GIB)} of ${fixed(v.limit, GIB)} GiB`);
    if (own + all > v.limit) lines.push(`✗ ${roundedUp(own + all - v.limit)} too much`);
  }
  return lines;
};
return { figures, readOut, axisEnd: (data, state) => axisEnd(look(data, state)), fixed, bytes };
})();
