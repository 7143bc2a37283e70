import { Socket } from 'node:net';

/** Requests of the file system, as Node.js calls them. The second closes a file. */
const OF_FILES = new Set(['FSReqCallback', 'FSReqPromise', 'CloseReq', 'FileHandleCloseReq']);
/** The next piece of an answer comes within this many looks. */
const BETWEEN_PIECES_LOOKS = 20;
/** A connection that is silent for this many looks brings no answer, and time-outs may end. */
const LONGEST_SILENCE_LOOKS = 1_000;

/** True if something of this process waits for a file to be read or written. */
export function waitsForFiles(): boolean {
  return process.getActiveResourcesInfo().some((name) => OF_FILES.has(name));
}

/**
 * True if something of this process waits at a connection that it opened: it connects, or has received nothing, or only a first piece,
 * since it last sent something. An idle connection of a pool does not. Looks count and time does not, because a process that stood still
 * has not seen what arrived meanwhile. The caller looks about once a millisecond.
 */
export function waitsForSockets(): boolean {
  return [...connections].map((each) => each.isAwaitingAnswer()).includes(true);
}

/** The connections that were opened since this module was loaded. */
const connections = new Set<Connection>();
/**
 * Every way to open a connection comes through this method. The channel `net.client.socket` of `node:diagnostics_channel` does not
 * tell of all: on Node.js 20 only `net.connect()` publishes there, and neither `new net.Socket().connect()` nor `tls.connect()` does.
 */
const { connect } = Socket.prototype;
Socket.prototype.connect = function (this: Socket, ...given: unknown[]): Socket {
  const connection = new Connection(this);
  connections.add(connection);
  this.once('close', () => connections.delete(connection));
  return Reflect.apply(connect, this, given);
};

class Connection {
  /** The bytes that had been received when something was sent last. */
  private readBeforeWrite = 0;
  private readBytes = 0;
  private looksSinceRead = BETWEEN_PIECES_LOOKS;
  private looksSinceSent = 0;

  constructor(private readonly socket: Socket) {
    // `connect` itself puts the original `write` back.
    socket.once('connect', () => {
      const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
      socket.write = (...given: unknown[]) => {
        this.readBeforeWrite = socket.bytesRead;
        this.looksSinceSent = 0;
        return write(...given);
      };
    });
  }

  isAwaitingAnswer(): boolean {
    const { connecting, bytesRead, bytesWritten } = this.socket;
    this.looksSinceSent += 1;
    this.looksSinceRead = bytesRead === this.readBytes ? this.looksSinceRead + 1 : 0;
    this.readBytes = bytesRead;
    const isUnanswered = connecting || (bytesWritten > 0 && bytesRead === this.readBeforeWrite);
    return isUnanswered ? this.looksSinceSent < LONGEST_SILENCE_LOOKS : this.looksSinceRead < BETWEEN_PIECES_LOOKS;
  }
}
