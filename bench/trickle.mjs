// Good clients beside 2,000 connections that trickle heads and bodies: calm, under attack, calm again.
//
//   npm run bench -- trickle [embedded|distributed]
import { setTimeout as delay } from 'node:timers/promises';
import { markdownTable } from './markdown.mjs';
import { judge, memoryMb, startClient, startService } from './open-loop.mjs';
import { deploymentOf } from './options.mjs';
import { writeResults } from './results.mjs';

const TRICKLING_CONNECTIONS = 2000;
const GOOD_MIX = ['pay', 'repeat', 'read', 'status'];
const GOOD = { mix: GOOD_MIX, rate: 200, connections: 64 };
const CALM_SECONDS = 20;
/** Longer than a body may take (30 s), after all have connected. */
const ATTACK_SECONDS = 50;
const CONNECTING_SECONDS = 6;
const MOST_WORSE = 5;
/** 20 kB each is what `connection-limits.ts` reckons with; the rest is garbage that was not collected yet. */
const MOST_GROWTH_MB = 100;

const deployment = deploymentOf(process.argv[3]);
const service = await startService(deployment);
try {
  const rows = [await measure(service)];
  console.log(`Written to ${await writeResults({ kind: 'trickle', deployment, rows })}`);
} finally {
  await service.stopAll();
}

async function measure(service) {
  const good = startClient(service);
  const keys = GOOD.rate * (2 * CALM_SECONDS + ATTACK_SECONDS);
  await good.run({ mix: ['key'], count: keys, connections: 8 });
  await good.run({ mix: ['create'], count: 100, connections: 8 });
  await good.run({ mix: ['pay'], count: 1000, connections: 8 });

  const calm = await watched(service, good, CALM_SECONDS);
  const bad = startClient(service, 'trickling-clients.mjs');
  const attack = bad.run({ connections: TRICKLING_CONNECTIONS, seconds: CONNECTING_SECONDS + ATTACK_SECONDS });
  await delay(CONNECTING_SECONDS * 1000);
  const attacked = await watched(service, good, ATTACK_SECONDS);
  const { most, cutHeads, cutBodies } = await attack;
  bad.stop();
  const after = await watched(service, good, CALM_SECONDS);
  good.stop();

  const phases = { calm, 'under attack': attacked, 'calm again': after };
  const table = markdownTable(
    ['phase', 'requests', 'p50 ms', 'p99 ms', 'p99 of calm', 'without a 200', 'RSS MB at most'],
    Object.entries(phases).map(([name, phase]) => [
      name,
      phase.due,
      phase.p50Ms,
      phase.p99Ms,
      phase.p99Ms / calm.p99Ms,
      failuresOf(phase),
      phase.memoryMb,
    ]),
  );
  const cut = Object.entries({ Heads: cutHeads, Bodies: cutBodies }).map(
    ([what, { count, medianSeconds, longestSeconds }]) =>
      `${what} were cut ${count} times, after ${medianSeconds?.toFixed(1)} s (longest ${longestSeconds?.toFixed(1)} s).`,
  );
  console.log(`${table}\n\n${cut.join(' ')}\n`);
  judge([
    [`${most} of ${TRICKLING_CONNECTIONS} trickling connections were open at once`, most === TRICKLING_CONNECTIONS],
    ['every good request was answered with 200', Object.values(phases).every((phase) => failuresOf(phase) === 0)],
    [`p99 stayed under ${MOST_WORSE} times its calm value`, attacked.p99Ms < MOST_WORSE * calm.p99Ms],
    [`memory grew by less than ${MOST_GROWTH_MB} MB`, attacked.memoryMb < calm.memoryMb + MOST_GROWTH_MB],
    ['slow heads and slow bodies were cut', cutHeads.count > 0 && cutBodies.count > 0],
  ]);
  return { name: 'trickle', measuredAt: new Date(), title: cut.join(' '), table };
}

async function watched({ pid }, good, seconds) {
  let most = 0;
  const sample = () => {
    most = Math.max(most, memoryMb(pid));
  };
  const timer = setInterval(sample, 500);
  const result = await good.run({ ...GOOD, seconds });
  clearInterval(timer);
  sample();
  return { ...result, memoryMb: most };
}

function failuresOf({ due, answers }) {
  const answered = Object.entries(answers).filter(([name]) => name.endsWith(' 200'));
  return due - answered.reduce((sum, [, { count }]) => sum + count, 0);
}
