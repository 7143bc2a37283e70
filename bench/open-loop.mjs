// The service with its stores, and processes that send to it at a fixed rate.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { markdownTable } from './markdown.mjs';
import { temporaryFolder, watch } from './processes.mjs';
import { startPostgres, startRedis } from './servers.mjs';
import { startServer } from './service.mjs';

/** A client that collects its own garbage answers late, and the service would seem to. Megabytes. */
const COLLECTS_RARELY = ['--initial-old-space-size=1024'];

/**
 * @param {string} module  of another version: its main module by its whole path
 * @returns {Promise<import('./service.mjs').Server & { redis?: import('./servers.mjs').Store, postgres?: import('./servers.mjs').Store, stopAll: () => Promise<void> }>}
 */
export async function startService(deployment = 'embedded', settings = {}, module = 'dist/main.js') {
  const stores = deployment === 'distributed' ? [await startRedis(), await startPostgres()] : [];
  const [redis, postgres] = stores;
  const where = redis
    ? { REDIS_URL: redis.url, DATABASE_URL: postgres.url }
    : { DATA_DIR: join(await temporaryFolder(), 'data') };
  const server = await startServer(module, { ...where, ...settings });
  const stopAll = async () => {
    await server.stop();
    for (const store of stores) await store.stop();
  };
  return { ...server, redis, postgres, stopAll };
}

/** A process that carries out one plan after the other (bench/open-loop-client.mjs). */
export function startClient({ url }, module = 'open-loop-client.mjs') {
  const child = fork(fileURLToPath(new URL(module, import.meta.url)), { execArgv: COLLECTS_RARELY });
  const ended = watch(child).then(() => {
    throw new Error('a client process ended in the middle of its plan');
  });
  ended.catch(() => {});
  const port = Number(new URL(url).port);
  return {
    async run(plan) {
      child.send({ port, ...plan });
      const [result] = await Promise.race([once(child, 'message'), ended]);
      return result;
    },
    stop: () => child.disconnect(),
  };
}

/** What a process has in memory, MB. */
export function memoryMb(pid) {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(kilobytes) / 1024;
}

export function printMarkdown(head, rows) {
  console.log(markdownTable(head, rows));
}

/** Ends with 1 when a sentence is not true of the run. */
export function judge(sentences) {
  for (const [sentence, isTrue] of sentences) {
    console.log(`${isTrue ? 'yes' : 'NO '}  ${sentence}`);
    if (!isTrue) process.exitCode = 1;
  }
}
