// Loaded into the service with `node --import`: kills it (SIGKILL) at one step of a port, which `crash-points.ts` writes into CRASH_AT.
// The service is the one that users run. Only its composition root (`dist/app.js`) gets two functions from this module that it would
// get from its features: they decorate the ports that are handed to the features, and call the real functions with them.
import * as nodeModule from 'node:module';
import { isMainThread } from 'node:worker_threads';
import { createPaymentArea as createArea } from '#idempay/payments/payments.js';
import { decorated } from '#idempay/platform/decorated.js';
import { createTransactions as createFeature } from '#idempay/transactions/transactions.js';

const [side, crashing, operation, nth] = (process.env.CRASH_AT ?? '').split(' ');
const REPLACED = ['./payments/payments.js', './transactions/transactions.js'];

/** For Node.js: the place of a module. Both kinds of hooks take this function, because it does not look at what `next` returns. */
export function resolve(specifier, context, next) {
  const isReplaced = context.parentURL?.endsWith('/dist/app.js') && REPLACED.includes(specifier);
  return isReplaced ? { url: import.meta.url, shortCircuit: true } : next(specifier, context);
}

export const createPaymentArea = ({ keys, ledger, refunds, processor, ...others }) =>
  createArea({
    ...others,
    keys: trapped('keys', keys),
    ledger: trapped('ledger', ledger),
    refunds: trapped('refunds', refunds),
    processor: trapped('processor', processor),
  });

export const createTransactions = (store, cache, ...others) =>
  createFeature(trapped('transactions', store), trapped('transactionCache', cache), ...others);

/** A step that fails does not reach the point after it. */
export function trapped(name, port) {
  if (name !== crashing) return port;
  let left = Number(nth);
  function reach(point) {
    if (point !== side) return;
    left -= 1;
    // The kernel ends a process that signals itself before the call returns: no line after it is run.
    if (left === 0) process.kill(process.pid, 'SIGKILL');
  }
  return decorated(port, {
    [operation]:
      (next) =>
      async (...parameters) => {
        reach('before');
        const result = await next(...parameters);
        reach('after');
        return result;
      },
  });
}

// Node.js loads this file a second time, in a thread of its own, if its hooks run there. They do before Node.js 22.15.
if (isMainThread) {
  if (nodeModule.registerHooks) nodeModule.registerHooks({ resolve });
  else nodeModule.register(import.meta.url);
}
