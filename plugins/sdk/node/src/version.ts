/** The version of this package, which is sent to the host. */
export const VERSION = "0.1.0";
