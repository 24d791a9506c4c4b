package io.github.taskengine.client;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.regex.Pattern;

/**
 * Where a node is.
 *
 * @param given by the user
 * @param target host:port, or unix: and a path
 * @param isSecure it begins with https://
 * @param isPlain it begins with http://
 */
record Address(String given, String target, boolean isSecure, boolean isPlain) {
  private static final Pattern HOST = Pattern.compile("[^\\s/@:][^\\s/@]*|\\[[^\\s/@]+");

  /**
   * Parses an address.
   *
   * @throws InvalidException if it is none
   */
  static Address of(String given) {
    if (given.startsWith("unix:")) {
      if (given.equals("unix:")) {
        throw Failure.invalid("the address unix: has no path").exception();
      }
      return new Address(given, given, false, false);
    }
    if (given.contains("://")) {
      return ofUrl(given);
    }
    if (!HOST.matcher(given).matches()) {
      throw Failure.invalid("\"" + given + "\" is no address; give host:port, unix:PATH or a URL")
          .exception();
    }
    return new Address(given, given, false, false);
  }

  private static Address ofUrl(String given) {
    try {
      URI url = new URI(given);
      boolean isSecure = "https".equals(url.getScheme());
      boolean isWhole =
          url.getHost() != null
              && url.getUserInfo() == null
              && url.getQuery() == null
              && url.getFragment() == null
              && (url.getPath().isEmpty() || url.getPath().equals("/"));
      if (isWhole && (isSecure || "http".equals(url.getScheme()))) {
        int port = url.getPort() >= 0 ? url.getPort() : isSecure ? 443 : 80;
        return new Address(given, url.getHost() + ":" + port, isSecure, !isSecure);
      }
    } catch (URISyntaxException e) {
      // it is none
    }
    throw Failure.invalid("\"" + given + "\" is no URL of http or https without a path and a user")
        .exception();
  }
}
