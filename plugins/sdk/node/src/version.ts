/** The version of this package, as the host gets to know it. */
export const VERSION = "0.1.0";
