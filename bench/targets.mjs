// What the project wants to reach on two quiet processors. A figure that misses it is called missed.

/** Requests a second, of those of a bare Fastify in the same round. */
export const OF_BARE = {
  'first payment': { embedded: 0.52, distributed: 0.28 },
  // The same target twice: once without any call of a processor, once without the CPU time of the processor itself.
  'first payment in two commits': { embedded: 0.36, distributed: 0.2 },
  'first payment over HTTP, its cost apart': { embedded: 0.36, distributed: 0.2 },
  repeat: { embedded: 0.9, distributed: 0.8 },
  'list 304': { embedded: 0.92, distributed: 0.8 },
  'read by id': { embedded: 0.85, distributed: 0.65 },
  'generate-key': { embedded: 0.68, distributed: 0.58 },
};

/** Requests a second, of those of a peer in the same round. */
export const OF_PEERS = {
  'first payment': { 'node-idempotency': { embedded: 2.5, distributed: 1.5 } },
};

/** The 99th percentile at half of the capacity, milliseconds. */
export const P99_AT_HALF_MS = { embedded: 5, distributed: 10 };
