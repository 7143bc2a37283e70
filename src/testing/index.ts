export type { FakeAnswer, FakeCharge, FakeListener, FakePending, FakeRefund, FakeRequest } from './fake-exchange.js';
export { type FakeFault, FakeIdempay, type FakeIdempayOptions, type FakeOperation } from './fake-idempay.js';
export { TestClock } from './test-clock.js';
