import type { Content } from '../../payments/values/content.js';

/** The content of a charge in its row. The source is a column of its own, which is null once the payment is final. */
export interface ContentColumns {
  readonly source: string | null;
  /** The description and the metadata as one JSON text, so that they are sent exactly as they came. */
  readonly content: string | null;
}

export function contentColumnsOf({ source, description, metadata }: Content = {}): ContentColumns {
  const hasMore = description !== undefined || metadata !== undefined;
  return { source: source ?? null, content: hasMore ? JSON.stringify({ description, metadata }) : null };
}

/** Undefined where the payment has none, as most. */
export function contentOf({ source, content }: ContentColumns): Content | undefined {
  if (source === null && content === null) return undefined;
  const more = (content === null ? {} : JSON.parse(content)) as Content;
  return source === null ? more : { source, ...more };
}
