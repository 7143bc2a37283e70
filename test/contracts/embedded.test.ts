import { openEmbeddedPorts } from '../../testkit/protocol/ports.js';
import { describeEveryContract } from './every-contract.js';

describeEveryContract('embedded', openEmbeddedPorts);
