/** The groups of operations, in the order in which the reference page shows them. */
export const TAGS = {
  Payments:
    'Get a key, pay with it, repeat with the same key until the outcome is known. A payment has its own kind of id, `TXN` and digits.',
  'Payment records':
    'Payments as they are kept: by key, as a list, as a daily export, and their resolution by an operator.',
  Transactions:
    'Transactions between accounts, with entity tags. Their ids are numbers of 15 digits and have nothing to do with those of payments.',
  Health: 'The key-value store.',
  Operations: 'Probes and metrics of the process.',
  Description: 'This description, and the page that shows it.',
  Console: "The operator's console, and what it asks first.",
  'Head requests': 'The headers of the answer to GET, without its body.',
} as const;
export type Tag = keyof typeof TAGS;
