/** Of rounds: the median, and how far to trust it. */
export function spread(values) {
  return { median: median(values), lowest: Math.min(...values), highest: Math.max(...values) };
}

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
