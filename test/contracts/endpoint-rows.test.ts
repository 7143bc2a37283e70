import { describe } from 'vitest';
import { openDistributedPorts, openEmbeddedPorts, sharePorts } from '../../testkit/protocol/ports.js';
import { endpointRowsContract } from './endpoint-rows-contract.js';

// Not on the modelled server: it knows the statements of payments and transactions only.
describe('the endpoint rows contract (embedded)', async () =>
  endpointRowsContract(await sharePorts(openEmbeddedPorts)));
describe('the endpoint rows contract (distributed)', async () =>
  endpointRowsContract(await sharePorts(openDistributedPorts)));
