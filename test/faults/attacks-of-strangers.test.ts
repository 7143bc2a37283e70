import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Credential, credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { patience } from '../../testkit/time/patience.js';
import { pause } from '../../testkit/time/until.js';

const HEAP = '--max-old-space-size=512';
const QUIET_MS = 15_000;
const ATTACK_MS = 60_000;
/** The time that the processor takes, as a card network does. */
const CHARGE_MS = 300;
const PAYERS = 10;
const PAY_EVERY_MS = 250;
const LOOK_EVERY_MS = 100;
const LIVE_WITHIN_MS = patience(1_000);
/** This process, which sends the attacks, may itself be late to see an answer. */
const LATE_SHARE = 0.01;
const SLOWER_AT_MOST = 3;
const REPEATS = 10;

const UNREAD = 290;
const SILENT = 310;
/** The connections of the payers, the greedy client and the unread answers; most of the silent ones come beyond them. */
const MAX_CONNECTIONS = 700;
/** More than all places of payments. */
const GREEDY = 250;
const SPACES_AT_ONCE = 3;
const MEGABYTE = 1_000_000;
const SHORT_MS = 2_000;

/**
 * Bugs: strangers ended a process over TLS with answers that they did not read, and took the places that are kept for probes. One client
 * took the event loop with white space, or all places of payments. Causes and fixes: `unit/unread-answers`, `http/connection-limits`,
 * `unit/long-texts`, `unit/fair-places`.
 */
describeDeployments(
  'a process with half a gigabyte that strangers and greedy clients attack for a minute',
  (deployment) => {
    let certificates: Awaited<ReturnType<typeof makeCertificates>>;
    let processor: Awaited<ReturnType<typeof startReferenceProcessor>>;
    beforeAll(async () => {
      [certificates, processor] = await Promise.all([
        makeCertificates(),
        startReferenceProcessor({ behaviour: { replyLatencyMs: CHARGE_MS } }),
      ]);
    });
    afterAll(async () => {
      await processor?.close();
      await certificates?.remove();
    });

    test('serves every payer about as fast as before, and is alive', async () => {
      const [stores, folder] = await Promise.all([deployment.open(), mkdtemp(join(tmpdir(), 'idempay-strangers-'))]);
      onTestFinished(async () => {
        await stores.close();
        await rm(folder, { recursive: true });
      });
      const payer = credentialOf('payer', ['payments:write']);
      const greedy = credentialOf('greedy', ['payments:write']);
      const writer = credentialOf('writer', ['transactions:write']);
      const keys = join(folder, 'keys.json');
      await writeFile(keys, keyFileOf(payer, greedy, writer), { mode: 0o600 });
      const { port, pid, ...service } = await stores.start({
        ...{ NODE_OPTIONS: HEAP, AUTH: 'required', API_KEYS_FILE: keys, MAX_CONNECTIONS: `${MAX_CONNECTIONS}` },
        ...{ TLS_CERT_FILE: certificates.certificate, TLS_KEY_FILE: certificates.key, PROCESSOR_URL: processor.url },
      });
      const url = `https://localhost:${port}`;
      const authority = await readFile(certificates.authority);
      const newAgent = (maxSockets: number) => {
        const agent = new Agent({ ca: authority, keepAlive: true, maxSockets });
        onTestFinished(() => agent.destroy());
        return agent;
      };
      const [patient, lavish, wide] = [newAgent(2 * PAYERS), newAgent(GREEDY), newAgent(SPACES_AT_ONCE)];

      /** Until the answer is 200: a payer that is refused repeats the same. */
      const untilServed = async (send: () => Promise<Answer>, repeats: number): Promise<Answer> => {
        for (let time = 1; ; time += 1) {
          const answer = await send();
          if (answer.status === 200 || time > repeats) return answer;
          await pause(Number(answer.headers['retry-after'] ?? 1) * 1_000);
        }
      };
      const payOnce = async ({ headers }: Credential, agent: Agent, repeats: number): Promise<Answer> => {
        const generate = () => ask(`${url}/api/server-generated/generate-key`, { agent, headers });
        const key = await untilServed(generate, repeats);
        if (key.status !== 200) return key;
        const withKey = { ...headers, 'Content-Type': 'application/json', 'Idempotency-Key': key.json<string>() };
        const payment = { method: 'POST', body: '{"amount":"100.50","currency":"USD"}', agent, headers: withKey };
        return untilServed(() => ask(`${url}/api/payment`, payment), repeats);
      };
      const payUntil = async (isOver: () => boolean, took: number[]) => {
        await inParallel(PAYERS, PAYERS, async (index) => {
          await pause((index * PAY_EVERY_MS) / PAYERS);
          for (; !isOver(); await pause(PAY_EVERY_MS)) {
            const begun = performance.now();
            expect((await payOnce(payer, patient, REPEATS)).status).toBe(200);
            took.push(performance.now() - begun);
          }
        });
      };
      const looks: number[] = [];
      const lookUntil = async (isOver: () => boolean) => {
        for (; !isOver(); await pause(LOOK_EVERY_MS)) {
          const begun = performance.now();
          expect((await ask(`${url}/livez`, { agent: patient })).status).toBe(200);
          looks.push(performance.now() - begun);
        }
      };
      const over = (ms: number) => {
        const end = performance.now() + ms;
        return () => performance.now() > end;
      };

      const [quiet, attacked]: [number[], number[]] = [[], []];
      await payUntil(over(QUIET_MS), quiet);
      const isOver = over(ATTACK_MS);
      const keepOpen = (count: number, open: () => Socket) =>
        inParallel(count, count, async () => {
          for (; !isOver(); await pause(LOOK_EVERY_MS)) {
            const socket = open();
            socket.pause();
            while (!socket.closed && !isOver()) await pause(LOOK_EVERY_MS);
            socket.destroy();
          }
        });
      const script = requestText('GET /docs/swagger-ui-bundle.js HTTP/1.1');
      const spaces = `${' '.repeat(MEGABYTE)}{}`;
      await Promise.all([
        payUntil(isOver, attacked),
        lookUntil(isOver),
        keepOpen(UNREAD, () => openConnection(port, script, { authority })),
        keepOpen(SILENT, () => openConnection(port, '')),
        inParallel(GREEDY, GREEDY, async () => {
          // Refused for its connection, or for want of a place.
          while (!isOver()) await payOnce(greedy, lavish, 0).catch(() => pause(LOOK_EVERY_MS));
        }),
        inParallel(SPACES_AT_ONCE, SPACES_AT_ONCE, async () => {
          const headers = { ...writer.headers, 'Content-Type': 'application/json' };
          while (!isOver())
            await ask(`${url}/api/transactions/batch`, { method: 'POST', body: spaces, agent: wide, headers }).catch(
              () => pause(LOOK_EVERY_MS),
            );
        }),
      ]);
      const p99 = (times: readonly number[]) => times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? 0;
      console.log(
        `${quiet.length} quiet payments, p99 ${Math.round(p99(quiet))} ms; ${attacked.length} under attack, p99 ${Math.round(p99(attacked))} ms; /livez at most ${Math.round(Math.max(...looks))} ms`,
      );
      const late = looks.filter((ms) => ms >= LIVE_WITHIN_MS);
      expect.soft(late.length, `late: ${late}`).toBeLessThanOrEqual(LATE_SHARE * looks.length);
      expect.soft(p99(attacked)).toBeLessThan(SLOWER_AT_MOST * Math.max(p99(quiet), SHORT_MS / 2));
      expect((await service.stop()).code).toBe(0);
    });
  },
);
