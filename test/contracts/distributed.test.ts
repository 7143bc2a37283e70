import { openDistributedPorts } from '../support/ports.js';
import { describeEveryContract } from './every-contract.js';

describeEveryContract('distributed', openDistributedPorts);
