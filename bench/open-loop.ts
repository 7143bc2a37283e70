// Processes that send requests to a service at a fixed rate.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Opened } from '../testkit/opened.js';
import { endServer } from '../testkit/servers/server-process.js';
import type { Plan, PlanResult, SlowRequest } from './open-loop-client.js';
import { benchProgram } from './servers.js';

export type { PlanResult, SlowRequest };

/** A client that collects its own garbage answers late, and the service would seem to. Megabytes. */
const COLLECTS_RARELY = ['--initial-old-space-size=1024'];

/** One process that carries out one plan after the other. It keeps keys and transactions from one plan to the next. */
export interface OpenLoopClient {
  run(plan: Omit<Plan, 'port'> & { readonly port?: number }): Promise<PlanResult>;
  stop(): Promise<void>;
}

/** `probed`: the address of `tail-probe.ts` and where it writes. */
export function openClient(
  opened: Opened,
  { port }: { readonly port: number },
  probed?: { readonly probe: string; readonly log: string },
): OpenLoopClient {
  const child = fork(benchProgram('open-loop-client'), {
    execArgv: [...COLLECTS_RARELY, ...(probed ? [`--import=${probed.probe}`] : [])],
    env: { ...process.env, ...(probed && { TAIL_LOG: probed.log }) },
  });
  const ended = once(child, 'exit').then(() => {
    throw new Error('a client process ended in the middle of its plan');
  });
  ended.catch(() => {});
  const stop = () => endServer(child, 'SIGKILL');
  void opened.keep({ close: stop });
  return {
    async run(plan) {
      child.send({ port, ...plan });
      const [result] = await Promise.race([once(child, 'message'), ended]);
      return result as PlanResult;
    },
    stop,
  };
}
