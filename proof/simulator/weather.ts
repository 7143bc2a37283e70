import type { Random } from '../../testkit/random.js';
import type { Weather } from './network.js';

export function badWeather(random: Random): Weather {
  const some = () => random.pick([0, 0.1, 0.5]);
  return {
    lostRequest: some(),
    lostReply: some(),
    repeated: some(),
    slow: random.pick([0, 0.2]),
    down: random.below(4) === 0,
    full: false,
  };
}
