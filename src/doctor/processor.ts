import { randomUUID } from 'node:crypto';
import { CONTRACT_OF_ENDINGS, type LookUpResult } from '../payments/ports/processor.js';
import { createExchanges } from '../payments/processors/exchange.js';
import {
  addressed,
  contractIn,
  doubtIn,
  isStillAtWork,
  lookUpQuestion,
  lookUpResultOf,
  NOTHING_CARRIED,
  namesReference,
  readsContent,
  whereToLook,
} from '../payments/processors/messages.js';
import { type ProcessorLocation, readProcessorUrl } from '../payments/processors/processor-url.js';
import { type Finding, milliseconds, verdictOf } from '../platform/finding.js';
import { isLoopback } from '../platform/loopback.js';
import { pageAt } from '../platform/manual.js';

/** The doctor waits no longer than this, even if payments do. */
const LIMIT_MS = 5_000;

/** Looks up a reference that nobody ever charged, as a takeover does (docs/reference/processor.md). Charges nothing. */
export async function examineProcessor(settings: {
  url: string;
  ca?: string | undefined;
  timeoutMs: number;
  /** The key of a payment that was completed at it. Undefined if none is known. */
  charged?: string | undefined;
}): Promise<readonly Finding[]> {
  // The configuration was read, so the URL has its form.
  const location = readProcessorUrl(settings.url) as ProcessorLocation;
  const exchanges = createExchanges(location.origin, Math.min(settings.timeoutMs, LIMIT_MS), 1, { ca: settings.ca });
  const startedAt = performance.now();
  const key = randomUUID();
  const reply = await exchanges.ask(addressed(location, lookUpQuestion(key)));
  const tookMs = performance.now() - startedAt;
  const known = settings.charged && (await exchanges.ask(addressed(location, lookUpQuestion(settings.charged))));
  await exchanges.close();
  const doubt = doubtIn('a look-up', reply, { key }, NOTHING_CARRIED);
  const result = lookUpResultOf(reply, doubt);
  const lookAt = whereToLook('a look-up', reply, doubt);
  const { protocol, hostname } = new URL(settings.url);
  const isOpen = protocol === 'http:' && !isLoopback(hostname);
  return [
    {
      // An adapter may need time until it is certain, and one that never is looks the same.
      verdict: verdictOf(result.state !== 'no record' && !isStillAtWork(reply), isStillAtWork(reply)),
      what: 'Processor look-up',
      found:
        result.state === 'no record'
          ? `no record, in ${milliseconds(tookMs)}`
          : 'cause' in result
            ? [result.cause, ...(lookAt === undefined ? [] : [lookAt])].join(': ')
            : `${result.state}, for a reference that was never charged`,
      wanted: '404 with a JSON object for a random reference',
      why: `a takeover looks up before it charges; ${pageAt('docs/reference/processor.md')} is the contract`,
    },
    ...(result.state === 'no record'
      ? [judgeContract(contractIn(reply)), judgeContent(readsContent(reply)), judgeNames(namesReference(reply, key))]
      : []),
    ...(known ? judgeAmounts(lookUpResultOf(known, undefined)) : []),
    {
      verdict: verdictOf(false, isOpen),
      what: 'Processor TLS',
      found: protocol === 'https:' ? 'yes' : 'none',
      wanted: 'https, unless on this machine',
      why: 'credentials and payments can be read on the way',
    },
  ];
}

/** An adapter of an earlier contract is asked for nothing that it does not know, so an earlier contract may be intended. */
function judgeContract(contract: number): Finding {
  return {
    verdict: verdictOf(false, contract < CONTRACT_OF_ENDINGS),
    what: 'Processor contract',
    found: contract === 0 ? 'the adapter names none' : `${contract}`,
    wanted: `Idempay-Contract: ${CONTRACT_OF_ENDINGS} in its replies`,
    why: 'without it no payment waits for a payer who must confirm, and none that is under way can be cancelled',
  };
}

/** The content of a payment is sent to every adapter; one of the first contract ignores it. */
function judgeContent(isRead: boolean): Finding {
  return {
    verdict: verdictOf(false, !isRead),
    what: 'Processor content',
    found: isRead ? 'read' : 'the adapter does not say that it reads it',
    wanted: 'Idempay-Contract: 2 in its replies',
    why: 'without it the source of a payment, who pays, does not arrive at the processor',
  };
}

function judgeAmounts(found: LookUpResult): Finding[] {
  if (found.state !== 'succeeded') return [];
  const areTold = found.charged !== undefined;
  return [
    {
      verdict: verdictOf(false, !areTold),
      what: 'Processor amounts',
      found: areTold ? 'told' : 'the look-up of a charge does not say what was charged',
      wanted: 'amount and currency in the look-up of a charge',
      why: 'after a failover or a restore that loses rows, each payment that was charged and lost waits for an operator',
    },
  ];
}

/** A copy of another reply, or the page of an ingress, cannot be told from an adapter's reply that names nothing. */
function judgeNames(isNamed: boolean): Finding {
  return {
    verdict: verdictOf(false, !isNamed),
    what: 'Processor names',
    found: isNamed ? 'the reference' : 'the reply does not name the reference that was asked for',
    wanted: 'reference in each reply, also in a 404',
    why: 'without it a reply about another charge is taken for the outcome of this one',
  };
}
