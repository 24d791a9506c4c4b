// Times on the wire: microseconds in 64 bits.

const MOST = 9_223_372_036_854_774_000; // of 64 bits, and below the end of them

/**
 * Converts milliseconds to microseconds. It rounds up, because a delay is a minimum; less than a
 * nanosecond is an error of the floating point.
 */
export function micros(milliseconds: number): bigint {
  const exact = Math.max(-MOST, Math.min(milliseconds * 1000, MOST));
  return BigInt(Math.ceil(Number(exact.toFixed(3))));
}
