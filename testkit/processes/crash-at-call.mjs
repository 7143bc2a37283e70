// Loaded into a command with `node --import`: kills it before the call number CRASH_AT_CALL, of those that write a file or send a
// request. So a test can end it between each two steps that leave something behind. Without the variable it kills nothing.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const crashAt = Number(process.env.CRASH_AT_CALL);
let calls = 0;

function counted(work) {
  return (...parameters) => {
    calls += 1;
    if (calls === crashAt) process.kill(process.pid, 'SIGKILL');
    return work(...parameters);
  };
}

for (const name of ['writeSync', 'fsyncSync', 'linkSync', 'closeSync', 'rmSync']) fs[name] = counted(fs[name]);
syncBuiltinESMExports();

const { fetch } = globalThis;
globalThis.fetch = counted(async (...parameters) => {
  const answer = await fetch(...parameters);
  // Between the service's answer and the command that reads it.
  counted(() => {})();
  return answer;
});
