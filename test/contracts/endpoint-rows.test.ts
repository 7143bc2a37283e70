import { describe } from 'vitest';
import { openModelledPorts } from '../../proof/simulator/models/distributed.js';
import { openDistributedPorts, openEmbeddedPorts, sharePorts } from '../../testkit/protocol/ports.js';
import { endpointRowsContract } from './endpoint-rows-contract.js';

describe('the endpoint rows contract (embedded)', async () =>
  endpointRowsContract(await sharePorts(openEmbeddedPorts), openEmbeddedPorts));
describe('the endpoint rows contract (distributed)', async () =>
  endpointRowsContract(await sharePorts(openDistributedPorts), openDistributedPorts));
describe('the endpoint rows contract (modelled)', async () =>
  endpointRowsContract(await sharePorts(openModelledPorts), openModelledPorts));
