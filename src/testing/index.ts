export type { FakeAnswer, FakeCharge, FakeListener, FakePending, FakeRequest } from './fake-exchange.js';
export { type FakeFault, FakeIdempay, type FakeIdempayOptions, type FakeOperation } from './fake-idempay.js';
export { TestClock } from './test-clock.js';
