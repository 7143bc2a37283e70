import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** The part of a start-up message that a pooler passes on. */
const PASSED_ON = new Set(['user', 'database', 'client_encoding']);
const PROTOCOL_3 = 196_608;
const RESET = message('Q', 'RESET ALL\0');

/**
 * A pooler of connections to PostgreSQL at that port of 127.0.0.1, which drops settings of the start-up message. While `losesSettings` is
 * true each transaction also meets a session without the settings of those before it, as in pgbouncer's transaction mode: what the user
 * has by `ALTER ROLE` stays. It supports prepared statements, as poolers in that mode must for Idempay.
 */
export async function startPooler(port: number) {
  const pooler = { losesSettings: false };
  const sockets = new Set<Socket>();
  const listener = createServer({ noDelay: true }, (client) => {
    const server = connect({ host: '127.0.0.1', port, noDelay: true });
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    }
    client.on('close', () => server.destroy());
    server.on('close', () => client.destroy());
    join(client, server, () => pooler.losesSettings);
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const through = (url: string) =>
    url.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${(listener.address() as AddressInfo).port}`);
  return Object.assign(pooler, {
    through,
    async close(): Promise<void> {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  });
}

function join(client: Socket, server: Socket, losesSettings: () => boolean): void {
  let isStarted = false;
  let isBetweenTransactions = false;
  let isResetting = false;
  let held: Buffer[] = [];
  client.on('data', (piece) => {
    if (!isStarted) {
      // The client sends nothing more before the server's answer, so this is the whole message.
      isStarted = true;
      server.write(shortened(piece));
      return;
    }
    if (isBetweenTransactions && losesSettings()) {
      isResetting = true;
      server.write(RESET);
    }
    isBetweenTransactions = false;
    if (isResetting) held.push(piece);
    else server.write(piece);
  });

  let unread = Buffer.alloc(0);
  server.on('data', (piece) => {
    unread = Buffer.concat([unread, piece]);
    while (unread.length >= 5 && unread.length > unread.readInt32BE(1)) {
      const answer = unread.subarray(0, unread.readInt32BE(1) + 1);
      unread = unread.subarray(answer.length);
      pass(answer);
    }
  });

  function pass(answer: Buffer): void {
    const endsTransaction = answer.toString('latin1', 0, 1) === 'Z' && answer.at(-1) === 'I'.charCodeAt(0);
    if (!isResetting) {
      isBetweenTransactions = endsTransaction;
      client.write(answer);
    } else if (endsTransaction) {
      isResetting = false;
      for (const piece of held) server.write(piece);
      held = [];
    }
  }
}

/** The start-up message without settings. Any other first message (a cancellation) as it is. */
function shortened(piece: Buffer): Buffer {
  if (piece.readInt32BE(4) !== PROTOCOL_3) return piece;
  const fields = piece.toString('latin1', 8).split('\0');
  let kept = '';
  for (let at = 0; at + 1 < fields.length; at += 2) {
    if (PASSED_ON.has(fields[at] ?? '')) kept += `${fields[at]}\0${fields[at + 1]}\0`;
  }
  const head = Buffer.alloc(8);
  head.writeInt32BE(8 + kept.length + 1, 0);
  head.writeInt32BE(PROTOCOL_3, 4);
  return Buffer.concat([head, Buffer.from(`${kept}\0`, 'latin1')]);
}

function message(type: string, content: string): Buffer {
  const head = Buffer.from(`${type}\0\0\0\0`);
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, Buffer.from(content, 'latin1')]);
}
