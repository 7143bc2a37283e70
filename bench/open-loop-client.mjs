// A process that sends requests at a fixed rate, whatever the answers do (open loop). The latency of a request counts from the
// moment when it should have been sent, so it includes the wait for a connection. Without patience a request without a free connection is dropped, as by a
// load balancer whose pool is full. Without a rate it sends as fast as its connections allow. bench/open-loop.mjs starts it;
// it keeps keys and transactions from one plan to the next.
import { connect } from 'node:net';

const PAYMENT = '{"amount":"100.50","currency":"USD"}';
const TRANSACTION = '{"fromAccount":"A","toAccount":"B","amount":100.5}';
const GENERATE_KEY = '/api/server-generated/generate-key';
/** After the last request was due. What has no answer then is lost. */
const PATIENCE_MS = 20_000;
const SECOND_MS = 1000;

const known = { unpaid: [], paid: [], refused: [], transactions: [], listTag: '' };
let turn = 0;

/** Another one each time, far from the last. */
function anyOf(list) {
  turn += 7919;
  return list[turn % list.length];
}

const KINDS = {
  key: () => ({ text: get(GENERATE_KEY), answered: ({ body }) => known.unpaid.push(copyOf(body.slice(1, -1))) }),
  create: () => ({
    text: post('/api/transactions', '', TRANSACTION),
    answered: ({ body }) => known.transactions.push(JSON.parse(body).transactionId),
  }),
  pay: () => payment(known.unpaid.pop()),
  'pay refused': () => payment(known.refused.pop()),
  repeat: () => ({ text: payText(anyOf(known.paid)) }),
  status: () => ({ text: get('/api/payment-status', `Idempotency-Key: ${anyOf(known.paid)}\r\n`) }),
  read: () => ({ text: get(`/api/transactions/${anyOf(known.transactions)}`) }),
  list: () => ({ text: get('/api/transactions', `If-None-Match: ${known.listTag}\r\n`) }),
  ready: () => ({ text: get('/readyz') }),
};

/** A part of a text keeps the whole of it in memory, here an answer for each key. */
function copyOf(text) {
  return Buffer.from(text, 'latin1').toString('latin1');
}

function payment(key) {
  if (!key) throw new Error('no key is left');
  const answered = ({ status }) => {
    if (status === 200) known.paid.push(key);
    else known.refused.push(key);
  };
  return { text: payText(key), answered };
}

function payText(key) {
  return post('/api/payment', `Idempotency-Key: ${key}\r\n`, PAYMENT);
}

function get(path, headers = '') {
  return `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`;
}

function post(path, headers, body) {
  const describes = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}${describes}\r\n${body}`;
}

/**
 * `mix` is a list of kinds, sent in turn. Ends after `seconds`, or after `count` requests. What was due in the first
 * `unmeasuredSeconds` is sent and not reported. `given` are keys and transactions of before, instead of what it has.
 */
async function run({
  port,
  given = {},
  mix,
  rate,
  seconds = 300,
  count = Number.MAX_SAFE_INTEGER,
  connections,
  unmeasuredSeconds = 0,
  patient = true,
}) {
  Object.assign(known, given);
  const measured = new Map();
  const [free, queue, sockets] = [[], [], new Set()];
  const cpuBefore = process.cpuUsage();
  const beganAt = performance.now();
  const endsAt = beganAt + seconds * SECOND_MS;
  let [due, answers, cut, turnedAway, bytesOut, bytesIn] = [0, 0, 0, 0, 0, 0];
  let finish;
  const finished = new Promise((resolve) => {
    finish = resolve;
  });

  /** As many as are due by now; without a rate one for each free connection. */
  function begin() {
    const now = performance.now();
    const until = Math.min(now, endsAt);
    while (due < count && (rate ? due < ((until - beganAt) * rate) / SECOND_MS : now < endsAt && !isBusy())) {
      const kind = mix[due % mix.length];
      due += 1;
      if (!patient && isBusy()) {
        turnedAway += 1;
        continue;
      }
      queue.push({ kind, dueAt: rate ? beganAt + ((due - 1) * SECOND_MS) / rate : now, ...KINDS[kind]() });
      sendNext();
    }
    if ((now >= endsAt || due >= count) && answers + cut + turnedAway >= due) finish();
    if (now > endsAt + PATIENCE_MS) finish();
  }

  function isBusy() {
    return free.length === 0 && sockets.size >= connections;
  }

  function sendNext() {
    if (queue.length === 0 || isBusy()) return;
    const connection = free.pop() ?? open();
    connection.request = queue.shift();
    connection.socket.write(connection.request.text);
    bytesOut += connection.request.text.length;
  }

  function open() {
    const connection = { socket: connect({ host: '127.0.0.1', port, noDelay: true }), request: undefined, text: '' };
    sockets.add(connection.socket);
    connection.socket.setEncoding('latin1');
    connection.socket.on('data', (text) => read(connection, text));
    connection.socket.on('error', () => {});
    connection.socket.once('close', () => {
      sockets.delete(connection.socket);
      const index = free.indexOf(connection);
      if (index >= 0) free.splice(index, 1);
      if (connection.request) cut += 1;
      connection.request = undefined;
      sendNext();
    });
    return connection;
  }

  function read(connection, text) {
    connection.text += text;
    bytesIn += text.length;
    const headEnd = connection.text.indexOf('\r\n\r\n');
    if (headEnd < 0 || !connection.request) return;
    const bodyLength = Number(/\r\ncontent-length: (\d+)/i.exec(connection.text)?.[1] ?? 0);
    if (connection.text.length < headEnd + 4 + bodyLength) return;
    const status = Number(connection.text.slice(9, 12));
    const { kind, dueAt, answered } = connection.request;
    const now = performance.now();
    note(`${kind} ${status}`, dueAt - beganAt, now - dueAt);
    answered?.({ status, body: connection.text.slice(headEnd + 4) });
    answers += 1;
    const isLast = /\r\nconnection: close/i.test(connection.text.slice(0, headEnd + 2));
    connection.request = undefined;
    connection.text = '';
    if (!isLast) free.push(connection);
    sendNext();
    if (!rate) begin();
  }

  function note(name, atMs, ms) {
    if (atMs < unmeasuredSeconds * SECOND_MS) return;
    if (!measured.has(name)) measured.set(name, { dueMs: [], tookMs: [] });
    const { dueMs, tookMs } = measured.get(name);
    // Numbers alone: to collect an object for each would take milliseconds, and all that is answered then would seem late.
    dueMs.push(atMs);
    tookMs.push(ms);
  }

  const timer = setInterval(begin, 1);
  begin();
  await finished;
  clearInterval(timer);
  for (const socket of sockets) socket.destroy();
  const elapsed = (Math.min(performance.now(), endsAt) - beganAt) / SECOND_MS;
  const { user, system } = process.cpuUsage(cpuBefore);
  const counts = { due, turnedAway, lost: due - answers - turnedAway, perSecond: answers / elapsed, bytesOut, bytesIn };
  return { ...counts, clientCpuUs: (user + system) / answers, ...summary(measured) };
}

/** Of each kind and status, and of all answers together. */
function summary(measured) {
  const all = Array.from(measured.values());
  const together = { dueMs: all.flatMap(({ dueMs }) => dueMs), tookMs: all.flatMap(({ tookMs }) => tookMs) };
  return {
    ...latenciesOf(together),
    answers: Object.fromEntries(Array.from(measured, ([name, samples]) => [name, latenciesOf(samples)])),
  };
}

function latenciesOf({ dueMs, tookMs }) {
  const bySecond = [];
  for (const [index, atMs] of dueMs.entries()) {
    const second = Math.floor(atMs / SECOND_MS);
    bySecond[second] ??= [];
    bySecond[second].push(tookMs[index]);
  }
  const sorted = tookMs.toSorted((a, b) => a - b);
  return {
    count: sorted.length,
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    p999Ms: quantile(sorted, 0.999),
    p99MsBySecond: Array.from(bySecond, (values = []) =>
      quantile(
        values.toSorted((a, b) => a - b),
        0.99,
      ),
    ),
  };
}

function quantile(sorted, part) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

process.on('message', (plan) => run(plan).then((result) => process.send(result)));
process.once('disconnect', () => process.exit());
