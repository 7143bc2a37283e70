import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import type { Stores } from '../deployments/deployments.js';
import { runSql } from '../servers/postgres.js';

/** All that the stores of a deployment hold, as text to be searched: files as their bytes, tables and records as their values. */
export async function storedText({ environment }: Pick<Stores, 'environment'>) {
  const { DATA_DIR, REDIS_URL, DATABASE_URL } = environment;
  if (DATA_DIR !== undefined) return { record: await filesText(DATA_DIR), keyValueStore: '' };
  return { record: await tablesText(DATABASE_URL as string), keyValueStore: await redisText(REDIS_URL as string) };
}

async function filesText(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return (await Promise.all(files.map((file) => readFile(file, 'latin1')))).join('\n');
}

async function tablesText(url: string): Promise<string> {
  const names = `SELECT table_name FROM information_schema.tables WHERE table_schema = 'idempay'`;
  const tables = await runSql<{ table_name: string }>(url, names);
  const texts = tables.map(async ({ table_name: name }) => {
    const [row] = await runSql<{ text: string | null }>(
      url,
      `SELECT string_agg(rows::text, E'\\n') AS text FROM idempay.${name} AS rows`,
    );
    return row?.text ?? '';
  });
  return (await Promise.all(texts)).join('\n');
}

async function redisText(url: string): Promise<string> {
  const client = new Redis(url);
  try {
    const texts = (await client.keys('*')).map(async (key) => `${key} ${JSON.stringify(await recordOf(client, key))}`);
    return (await Promise.all(texts)).join('\n');
  } finally {
    client.disconnect();
  }
}

async function recordOf(client: Redis, key: string): Promise<unknown> {
  const type = await client.type(key);
  switch (type) {
    case 'string':
      return client.get(key);
    case 'hash':
      return client.hgetall(key);
    case 'list':
      return client.lrange(key, '0', '-1');
    case 'set':
      return client.smembers(key);
    case 'zset':
      return client.zrange(key, '0', '-1');
    case 'stream':
      return client.xrange(key, '-', '+');
    default:
      throw new Error(`a record of Redis has the type ${type}, which nobody searches`);
  }
}
