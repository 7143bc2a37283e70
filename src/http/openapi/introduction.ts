/** What stands before the operations, in CommonMark. */
export const INTRODUCTION = `**Paying.** Get a key (\`generateKey\`), keep it, and send it with every attempt at one payment (\`pay\`). After 409, 429, 503, 504 or no answer repeat with the **same** key: it is never charged twice. \`getPayment\` shows what became of it.

**Two areas.** Payments and transactions have nothing to do with each other: a payment has an id such as \`TXN1763640000000000000001\`, a transaction a number of 15 digits.

**Errors.** Every error has the body \`{"status", "error", "message"}\`, and the message says what to do. Each operation lists its statuses. \`default\` are those that any request may get. Beside them: a path that is not listed here is answered 404 (\`UnknownPath\`), and a method that its path does not take 405 with \`Allow\` (\`MethodNotAllowed\`).

**Amounts.** Send them as strings. Bodies are judged by their text: a number is never rounded, and a repeated member is refused. A schema cannot say all of it; where it does not, its description does.

**Trying it out.** A request that is sent from the reference page (\`/docs\`) is carried out like any other: a payment is a payment.

**Limits.** With \`RATE_LIMIT_PER_MINUTE\` answers have \`RateLimit-*\`, and 429 beyond the limit.`;
