// As `crash-at.mjs`, for the steps of `idempay transfer` and of the first start on its target: kills the process at one step of an end of
// the transfer, which `crash-points.ts` writes into CRASH_AT.
import * as nodeModule from 'node:module';
import { isMainThread } from 'node:worker_threads';
import { openLeavingFolder as openFolder } from '#idempay/stores/embedded/file/leaving-folder.js';
import * as state from '#idempay/stores/postgres/transfer-state.js';
import { openTransferTarget as openTarget } from '#idempay/stores/postgres/transfer-target.js';
import * as mark from '#idempay/stores/redis/transfer-mark.js';
import { trapped } from './crash-at.mjs';

const PARENTS = /\/dist\/stores\/(transfer|transferred|distributed)\.js$/;
const REPLACED = [
  './embedded/file/leaving-folder.js',
  './postgres/transfer-state.js',
  './postgres/transfer-target.js',
  './redis/transfer-mark.js',
];

/** For Node.js: the place of a module. Both kinds of hooks take this function, because it does not look at what `next` returns. */
export function resolve(specifier, context, next) {
  const isReplaced = PARENTS.test(context.parentURL ?? '') && REPLACED.includes(specifier);
  return isReplaced ? { url: import.meta.url, shortCircuit: true } : next(specifier, context);
}

export const openLeavingFolder = (...parameters) => trapped('folder', openFolder(...parameters));
export const openTransferTarget = async (...parameters) => trapped('target', await openTarget(...parameters));
export const openTransferRedis = async (...parameters) => trapped('redis', await mark.openTransferRedis(...parameters));
export const createTransferMark = (...parameters) => trapped('redis', mark.createTransferMark(...parameters));
export const { refuseOtherTransfer } = mark;
export const { findStartableTransfer, givenUpTarget, refuseUnstartable } = state;
export const { startTransferred } = trapped('service', { startTransferred: state.startTransferred });

// Node.js loads this file a second time, in a thread of its own, if its hooks run there. They do before Node.js 22.15.
if (isMainThread) {
  if (nodeModule.registerHooks) nodeModule.registerHooks({ resolve });
  else nodeModule.register(import.meta.url);
}
