export type {
  FakeAnswer,
  FakeCharge,
  FakeListener,
  FakePending,
  FakeRefund,
  FakeRequest,
  FakeScope,
} from './fake-exchange.js';
export type { FakeConnectionFault, FakeFault, FakeOperation, FakeProcessorFault } from './fake-fault.js';
export { FakeIdempay, type FakeIdempayOptions } from './fake-idempay.js';
export { TestClock } from './test-clock.js';
