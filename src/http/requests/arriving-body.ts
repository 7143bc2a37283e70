import type { BodyBudget } from '../../limits/byte-budget.js';
import { publicErrors } from '../errors/catalogue.js';
import type { PublicError } from '../errors/public-error.js';

const NOTHING = Buffer.alloc(0);
/** The first buffer for a body that comes in several chunks. Few bodies are longer, and it costs less than the connection. */
const FIRST_BYTES = 1024;

/** The sender of a body, and the part of the budget that the body counts for. */
interface Sender {
  readonly isPayment: boolean;
  readonly limitBytes: number;
  /** Asked for only if the client counts. */
  client(): string;
}

/**
 * A body while it arrives, in one buffer: as a list of chunks, of which each costs some 400 bytes, a body of a million chunks would
 * take 400 MB. Its bytes count for the budget from their arrival until `release`.
 */
export class ArrivingBody {
  private bytes: Buffer = NOTHING;
  private length = 0;
  private paymentBytes = 0;
  private otherBytes = 0;
  private client = '';

  constructor(
    private readonly budget: BodyBudget,
    private readonly sender: Sender,
  ) {}

  /** Keeps the chunk, or returns the error of a refusal. */
  add(chunk: Buffer): PublicError | undefined {
    const length = this.length + chunk.length;
    if (length > this.sender.limitBytes) return publicErrors.bodyTooLarge(this.sender.limitBytes);
    if (!this.take(chunk.length)) return publicErrors.tooManyBodies();
    // Nearly every body is one chunk, which Node makes for us alone.
    if (this.length === 0) this.bytes = chunk;
    else {
      if (length > this.bytes.length) this.grow(length);
      chunk.copy(this.bytes, this.length);
    }
    this.length = length;
    return undefined;
  }

  /** The bytes, which are forgotten: they go on to count, for the values that are read out of them. */
  content(): Buffer {
    const content = this.bytes.length === this.length ? this.bytes : this.bytes.subarray(0, this.length);
    this.bytes = NOTHING;
    return content;
  }

  /** Its request is answered, or will never be whole. May be called again. */
  release(): void {
    this.bytes = NOTHING;
    if (this.paymentBytes > 0) this.budget.payments.giveBack(this.paymentBytes);
    if (this.otherBytes > 0) this.budget.others.giveBack(this.otherBytes, this.client);
    this.paymentBytes = 0;
    this.otherBytes = 0;
  }

  private take(bytes: number): boolean {
    if (this.sender.isPayment && this.budget.payments.take(bytes)) {
      this.paymentBytes += bytes;
      return true;
    }
    if (this.otherBytes === 0) this.client = this.sender.client();
    if (!this.budget.others.take(bytes, this.client)) return false;
    this.otherBytes += bytes;
    return true;
  }

  /** Doubles, so that no byte is copied more than twice. */
  private grow(length: number): void {
    const grown = Buffer.allocUnsafe(Math.min(this.sender.limitBytes, Math.max(FIRST_BYTES, 2 * length)));
    this.bytes.copy(grown, 0, 0, this.length);
    this.bytes = grown;
  }
}
