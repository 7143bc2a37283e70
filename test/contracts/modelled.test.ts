import { openModelledPorts } from '../../proof/simulator/models/distributed.js';
import { describeEveryContract } from './every-contract.js';

describeEveryContract('modelled', openModelledPorts);
