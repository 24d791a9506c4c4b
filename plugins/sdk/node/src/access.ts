// What clients and workers have in common about tokens and addresses.

/**
 * The token that is sent, without the white space around it that a file has; undefined is none. Throws a TypeError for
 * what cannot be sent, with words that do not contain it.
 */
export function tokenOf(given: unknown): string | undefined {
  if (given === undefined || given === null || given === "") return undefined;
  if (typeof given !== "string") throw new TypeError(`the token is of the type ${typeof given}: give a string`);
  const token = given.trim();
  const ask = "give the text that `taskengine token create` prints";
  if (token === "") throw new TypeError(`the token has white space only: ${ask}`);
  if (!/^[!-~]+$/.test(token)) {
    throw new TypeError(
      `the token has a character that no token has, such as a space or a line break between others: ${ask}`,
    );
  }
  return token;
}

/** The addresses in a text such as that of TASKENGINE_ADDRESS, which are separated by commas. */
export function addressesIn(text: string): string[] {
  const addresses = text.split(",").map((address) => address.trim());
  return addresses.filter((address) => address !== "");
}
