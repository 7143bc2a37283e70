import { openDistributedPorts } from '../../testkit/protocol/ports.js';
import { describeEveryContract } from './every-contract.js';

describeEveryContract('distributed', openDistributedPorts);
