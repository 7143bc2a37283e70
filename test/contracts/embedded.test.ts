import { openEmbeddedPorts } from '../support/ports.js';
import { describeEveryContract } from './every-contract.js';

describeEveryContract('embedded', openEmbeddedPorts);
