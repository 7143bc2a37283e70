import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Question } from '../../payments/processors/exchange.js';

export interface Loss {
  /** The time from the end of the request until the connection is closed. */
  readonly afterMs: number;
  /** It is closed earlier, with the first byte of a reply. Else the reply is discarded until the time is over. */
  readonly isCutAtReply: boolean;
  /** For connecting and sending. */
  readonly timeoutMs: number;
}

export interface LostReply {
  /** The whole request was handed to the connection. */
  readonly isSent: boolean;
  /** The head of a reply had come when the connection was closed. */
  readonly isAnswered: boolean;
}

/** Sends a question on a connection of its own, and closes it without taking the reply. Never rejects, and always ends. */
export function sendAndLoseReply(origin: string, question: Question, loss: Loss): Promise<LostReply> {
  const { method, path, headers, body } = question;
  const send = origin.startsWith('https:') ? httpsRequest : httpRequest;
  return new Promise((resolve) => {
    let [isSent, isAnswered] = [false, false];
    const request = send(`${origin}${path}`, { method, headers, agent: false });
    const end = () => {
      clearTimeout(timer);
      request.destroy();
      resolve({ isSent, isAnswered });
    };
    let timer = setTimeout(end, loss.timeoutMs);
    request.on('finish', () => {
      isSent = true;
      clearTimeout(timer);
      timer = setTimeout(end, loss.afterMs);
    });
    request.on('response', (response) => {
      isAnswered = true;
      response.on('error', () => {});
      if (loss.isCutAtReply) end();
      else response.resume();
    });
    request.on('upgrade', end);
    request.on('error', end);
    request.end(body);
  });
}
