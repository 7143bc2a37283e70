/** How many values fell up to each bound and above the one before; one count more than bounds, of all above. */
export interface Buckets {
  readonly bounds: readonly number[];
  readonly counts: readonly number[];
}
