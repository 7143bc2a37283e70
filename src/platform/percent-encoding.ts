/** True if the percent signs of a text encode UTF-8, so that a driver can decode it. */
export function isPercentEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
