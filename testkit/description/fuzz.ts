import { METHODS, maxHeaderSize } from 'node:http';
import { type Answer, ask } from '../client/http-client.js';
import { answerTo } from '../client/raw-http.js';
import { inParallel } from '../concurrency.js';
import type { Random } from '../random.js';
import { patience } from '../time/patience.js';
import { brokenText } from './broken-text.js';
import type { DescribedService } from './described-service.js';
import { type Credentials, type Draft, RequestFuzzer } from './request-fuzzer.js';

/** Clients that send at the same time, each one request after the other. */
const CLIENTS = 8;
/** One request of this number is bytes that no client of HTTP would send. */
const RAW_EVERY = 25;
/** The service refuses a larger body before it has come whole, and ends the connection, which a client may notice first. */
const BODY_LIMIT = 16 * 1024;
const MOST_PROBLEMS = 20;
/** No request waits for longer than a second. */
const ANSWERED_WITHIN_MS = 20_000;
/** A 503 that took this long missed a deadline of a store (900 ms for Redis): the machine was too slow for it. */
const STORE_DEADLINE_MS = 850;

export interface FuzzReport {
  readonly summary: string;
  /** Places of described responses that never came. */
  readonly unseen: readonly string[];
  /** Operations of the description that no answer was about. */
  readonly unasked: readonly string[];
  /** Answers that are not described, each with its request. */
  readonly problems: readonly string[];
  /** Statuses from 500 that have no cause here. */
  readonly refused: readonly string[];
}

export interface FuzzPlan {
  readonly name: string;
  readonly requests: number;
  readonly credentials: Credentials;
  readonly refusals: readonly number[];
  readonly random: Random;
}

/** Sends requests that the description describes, and others, and checks every answer against it. */
export async function fuzz(
  described: DescribedService,
  { url, port }: { readonly url: string; readonly port: number },
  { name, requests, credentials, refusals, random }: FuzzPlan,
): Promise<FuzzReport> {
  const problems: string[] = [];
  const refused: string[] = [];
  const asked = new Set<string>();
  const statuses = new Map<number, number>();
  const perClient = Math.ceil(requests / CLIENTS);

  async function send(draft: Draft, raw: string | undefined): Promise<Answer | undefined> {
    const { purpose, method, target, headers, body } = draft;
    const request =
      raw ??
      `${method} ${target.slice(0, 200)} ${JSON.stringify({ ...headers, Authorization: '' }).slice(0, 500)} ${String(body).slice(0, 200)}`;
    let answer: Answer;
    const sentAt = performance.now();
    try {
      answer = await (raw === undefined
        ? ask(url, {
            ...{ method, path: target, headers, body },
            ...{ signal: AbortSignal.timeout(patience(ANSWERED_WITHIN_MS)) },
          })
        : answerTo(port, raw));
    } catch (error) {
      if (!isCutEarly(body)) problems.push(`no answer (${error}) to ${request}`);
      return undefined;
    }
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
    const told = `${answer.status} ${answer.text.slice(0, 300)} to ${request}`;
    const isTooSlow = answer.status === 503 && performance.now() - sentAt >= STORE_DEADLINE_MS;
    if (answer.status >= 500 && !refusals.includes(answer.status) && !isTooSlow) refused.push(told);
    const found = described.problems(purpose, answer, method === 'HEAD');
    if (raw === undefined) found.push(...formProblems(draft, answer));
    problems.push(...found.map((problem) => `${problem}: ${told}`));
    return answer;
  }

  const clients = Array.from({ length: CLIENTS }, () => random.fork());
  await inParallel(CLIENTS, CLIENTS, async (client) => {
    const choices = clients[client] as Random;
    const fuzzer = new RequestFuzzer(described, choices, credentials);
    // Chance must leave no operation out: each is asked once.
    const once = described.operations.filter((_, index) => index % CLIENTS === client);
    const next = () => {
      const operation = once.pop();
      return operation ? fuzzer.whole(operation) : fuzzer.next();
    };
    for (let sent = 0; sent < perClient && problems.length < MOST_PROBLEMS; sent += 1) {
      const draft = next();
      const raw = sent % RAW_EVERY === RAW_EVERY - 1 ? brokenText(draft, choices) : undefined;
      const answer = await send(draft, raw);
      if (!answer) continue;
      fuzzer.learn(answer);
      if (draft.purpose.kind === 'operation') asked.add(draft.purpose.operation.operationId);
    }
  });

  const counts = [...statuses].sort(([one], [other]) => one - other).map(([status, count]) => `${status}: ${count}`);
  const all = described.responses();
  const unseen = all.filter((pointer) => !described.seen.has(pointer));
  const unasked = described.operations.map(({ operationId }) => operationId).filter((id) => !asked.has(id));
  const summary = `${name}: ${perClient * CLIENTS} requests, ${problems.length} not described; ${counts.join(', ')}; ${all.length - unseen.length} of ${all.length} described responses were seen`;
  return {
    ...{ summary, unseen, unasked },
    ...{ problems: problems.slice(0, MOST_PROBLEMS), refused: refused.slice(0, MOST_PROBLEMS) },
  };
}

/**
 * An error has the form that the request prefers, unless `Accept` was not read: the parser stops at a method that it does not know, at a
 * target that fills all its room, and at too many headers.
 */
function formProblems({ method, target, headers: asked }: Draft, { status, headers }: Answer): string[] {
  const isUnread = status === 431 || (status === 414 && target.length + method.length >= maxHeaderSize - 1);
  if (status < 400 || isUnread || !METHODS.includes(method)) return [];
  const isProblem = headers['content-type'] === 'application/problem+json';
  return isProblem === (asked.Accept !== undefined) ? [] : ['the error does not have the form that was asked for'];
}

function isCutEarly(body: Draft['body']): boolean {
  return body !== undefined && Buffer.byteLength(body) > BODY_LIMIT;
}
