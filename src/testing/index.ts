export type { FakeAnswer, FakeCharge, FakeRequest } from './fake-exchange.js';
export { type FakeFault, FakeIdempay, type FakeIdempayOptions, type FakeOperation } from './fake-idempay.js';
export type { FakeListener } from './fake-listener.js';
export { TestClock } from './test-clock.js';
