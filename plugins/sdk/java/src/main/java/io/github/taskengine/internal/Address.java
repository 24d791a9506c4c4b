package io.github.taskengine.internal;

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
public record Address(String given, String target, boolean isSecure, boolean isPlain) {
  private static final Pattern HOST = Pattern.compile("[^\\s/@:][^\\s/@]*|\\[[^\\s/@]+");

  /**
   * Parses an address.
   *
   * @throws IllegalArgumentException if it is none
   */
  public static Address of(String given) {
    if (given.startsWith("unix:")) {
      if (given.equals("unix:")) {
        throw new IllegalArgumentException("the address unix: has no path");
      }
      return new Address(given, given, false, false);
    }
    if (given.contains("://")) {
      return ofUrl(given);
    }
    if (!HOST.matcher(given).matches()) {
      throw new IllegalArgumentException(
          "\"" + given + "\" is no address; give host:port, unix:PATH or a URL");
    }
    return new Address(given, given, false, false);
  }

  /**
   * Whether connections to it are encrypted.
   *
   * @param access of the program; with files of TLS, connections to host:port are encrypted, too
   * @throws IllegalArgumentException if it is a URL of http, and there are files of TLS
   */
  public boolean isSecure(Access access) {
    if (isPlain && access.needsTls()) {
      throw new IllegalArgumentException(
          "\"" + given + "\" is a URL of http, and there are files of TLS; write https");
    }
    return isSecure || access.needsTls() && !target.startsWith("unix:");
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
    throw new IllegalArgumentException(
        "\"" + given + "\" is no URL of http or https without a path and a user");
  }
}
