import { openDistributedPorts } from '../../testkit/protocol/ports.js';
import { describeEveryContract } from './every-contract.js';

/** As in a service: the first claim of an order finds no mark of AUTH, and writes it. */
describeEveryContract('distributed', (settings) => openDistributedPorts({ access: 'none', ...settings }));
