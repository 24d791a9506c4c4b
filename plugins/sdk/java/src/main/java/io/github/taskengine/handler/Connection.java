package io.github.taskengine.handler;

import io.github.taskengine.internal.Access;
import io.github.taskengine.internal.Address;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * To which nodes a program connects as a worker, and as what. It does not change.
 *
 * <pre>{@code
 * Connection.to("10.0.0.1:7420", "10.0.0.2:7420").token(token)
 * }</pre>
 */
public final class Connection {
  private final List<String> addresses;
  private final String handler;
  private final Map<String, String> labels;
  private final @Nullable String token;
  private final @Nullable Path ca;
  private final @Nullable Path certificate;
  private final @Nullable Path key;

  private Connection(
      List<String> addresses,
      String handler,
      Map<String, String> labels,
      @Nullable String token,
      @Nullable Path ca,
      @Nullable Path certificate,
      @Nullable Path key) {
    this.addresses = addresses;
    this.handler = handler;
    this.labels = labels;
    this.token = token;
    this.ca = ca;
    this.certificate = certificate;
    this.key = key;
  }

  /**
   * Names the nodes. The slots of the program are divided among them.
   *
   * @param addresses of their APIs: host:port, a URL of http or https, or unix: and a path
   * @return the connection
   * @throws IllegalArgumentException if one is no address
   */
  public static Connection to(String... addresses) {
    if (addresses.length == 0) {
      throw new IllegalArgumentException(
          "no address of a node is given: give host:port, a URL of http or https, or unix: and a path");
    }
    for (String address : addresses) {
      Address.of(address);
    }
    return new Connection(
        List.copyOf(Arrays.asList(addresses)), "", Map.of(), null, null, null, null);
  }

  /**
   * Names the handler in the configuration of the nodes, if it is not the only one that fits.
   *
   * @param handler its name
   * @return the connection with it
   */
  public Connection handler(String handler) {
    Objects.requireNonNull(handler, "handler");
    return new Connection(addresses, handler, labels, token, ca, certificate, key);
  }

  /**
   * Labels the worker. The configuration may ask for some.
   *
   * @param labels such as a region
   * @return the connection with them
   */
  public Connection labels(Map<String, String> labels) {
    return new Connection(addresses, handler, Map.copyOf(labels), token, ca, certificate, key);
  }

  /**
   * Has the worker show a token. Nodes may want one with the role {@code work}.
   *
   * @param token of the worker; white space around it is not sent
   * @return the connection with it
   * @throws IllegalArgumentException if it cannot be sent; the message does not contain it
   */
  public Connection token(String token) {
    String sent = Access.tokenOf(Objects.requireNonNull(token, "token"));
    return new Connection(addresses, handler, labels, sent, ca, certificate, key);
  }

  /**
   * Says who signs the certificates of the nodes, if not those whom Java trusts. Connections to
   * host:port are encrypted then, too.
   *
   * @param ca a file in PEM, which is read for each connection
   * @return the connection with it
   */
  public Connection authority(Path ca) {
    Objects.requireNonNull(ca, "ca");
    return new Connection(addresses, handler, labels, token, ca, certificate, key);
  }

  /**
   * Has the worker show a certificate.
   *
   * @param certificate a file in PEM, which is read for each connection
   * @param key a file with its key in PEM, in the format PKCS 8
   * @return the connection with it
   */
  public Connection certificate(Path certificate, Path key) {
    Objects.requireNonNull(certificate, "certificate");
    Objects.requireNonNull(key, "key");
    return new Connection(addresses, handler, labels, token, ca, certificate, key);
  }

  List<String> addresses() {
    return addresses;
  }

  String handler() {
    return handler;
  }

  Map<String, String> labels() {
    return labels;
  }

  Access access() {
    return new Access(token, ca, certificate, key);
  }

  /**
   * Checks what its parts do not show alone.
   *
   * @throws IllegalArgumentException if an address is a URL of http, and there are files of TLS
   */
  Connection checked() {
    addresses.forEach(address -> Address.of(address).isSecure(access()));
    return this;
  }

  /** Whether environment variables name nodes. */
  static boolean isNamed(Map<String, String> environment) {
    return !environment.getOrDefault("TASKENGINE_ADDRESS", "").isEmpty();
  }

  /** The connection that environment variables describe. */
  static Connection fromEnvironment(Map<String, String> environment) {
    String[] addresses =
        Arrays.stream(environment.getOrDefault("TASKENGINE_ADDRESS", "").split(","))
            .map(String::strip)
            .filter(a -> !a.isEmpty())
            .toArray(String[]::new);
    Connection connection =
        to(addresses)
            .handler(environment.getOrDefault("TASKENGINE_WORKER_HANDLER", ""))
            .labels(labelsOf(environment.getOrDefault("TASKENGINE_WORKER_LABELS", "")));
    String token = environment.getOrDefault("TASKENGINE_TOKEN", "");
    if (!token.isEmpty()) {
      connection = connection.token(token);
    }
    String ca = environment.getOrDefault("TASKENGINE_CA", "");
    if (!ca.isEmpty()) {
      connection = connection.authority(Path.of(ca));
    }
    String certificate = environment.getOrDefault("TASKENGINE_CLIENT_CERT", "");
    String key = environment.getOrDefault("TASKENGINE_CLIENT_KEY", "");
    if (certificate.isEmpty() != key.isEmpty()) {
      throw new IllegalArgumentException(
          "TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY belong together: give both");
    }
    if (!certificate.isEmpty()) {
      connection = connection.certificate(Path.of(certificate), Path.of(key));
    }
    return connection.checked();
  }

  /** Labels such as "region=eu,disk=fast". */
  private static Map<String, String> labelsOf(String text) {
    Map<String, String> labels = new LinkedHashMap<>();
    for (String part : text.split(",")) {
      if (part.isBlank()) {
        continue;
      }
      int at = part.indexOf('=');
      String name = at < 0 ? "" : part.substring(0, at).strip();
      if (name.isEmpty()) {
        throw new IllegalArgumentException(
            "TASKENGINE_WORKER_LABELS has \"" + part + "\": give NAME=value, separated by commas");
      }
      labels.put(name, part.substring(at + 1).strip());
    }
    return labels;
  }
}
