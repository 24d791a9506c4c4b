package io.github.taskengine.client;

import io.github.taskengine.internal.Access;
import io.github.taskengine.internal.Address;
import io.github.taskengine.json.Json;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/** The options of a client, which {@link TaskengineClient#to} begins. */
public final class ClientBuilder {
  final List<Address> addresses;
  private @Nullable String token;
  private @Nullable Path authority;
  private @Nullable Path certificate;
  private @Nullable Path key;
  long timeout = Duration.ofSeconds(30).toNanos();
  UnaryOperator<Request> decorate = UnaryOperator.identity();
  Json json = Json.standard();

  ClientBuilder(String... addresses) {
    if (addresses.length == 0) {
      throw Failure.invalid("no address of a node is given; give host:port, unix:PATH or a URL")
          .exception();
    }
    try {
      this.addresses = Arrays.stream(addresses).map(Address::of).toList();
    } catch (IllegalArgumentException e) {
      throw Failure.invalid(String.valueOf(e.getMessage())).exception();
    }
  }

  /** The options that environment variables have. */
  static ClientBuilder from(Map<String, String> environment) {
    String[] addresses =
        Arrays.stream(environment.getOrDefault("TASKENGINE_ADDRESS", "").split(","))
            .map(String::strip)
            .filter(a -> !a.isEmpty())
            .toArray(String[]::new);
    if (addresses.length == 0) {
      throw Failure.invalid("no address of a node is given: TASKENGINE_ADDRESS is not set")
          .exception();
    }
    ClientBuilder options =
        new ClientBuilder(addresses).token(environment.getOrDefault("TASKENGINE_TOKEN", ""));
    String ca = environment.getOrDefault("TASKENGINE_CA", "");
    if (!ca.isEmpty()) {
      options.authority(Path.of(ca));
    }
    String certificate = environment.getOrDefault("TASKENGINE_CLIENT_CERT", "");
    String key = environment.getOrDefault("TASKENGINE_CLIENT_KEY", "");
    if (certificate.isEmpty() != key.isEmpty()) {
      throw Failure.invalid(
              "TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY belong together: give both")
          .exception();
    }
    return certificate.isEmpty()
        ? options
        : options.certificate(Path.of(certificate), Path.of(key));
  }

  Access access() {
    return new Access(token, authority, certificate, key);
  }

  /**
   * Has the client show a token with every call.
   *
   * @param token that a node accepts; white space around it is not sent
   * @return this
   * @throws InvalidException if it cannot be sent; the message does not contain it
   */
  public ClientBuilder token(String token) {
    try {
      this.token = Access.tokenOf(Objects.requireNonNull(token, "token"));
    } catch (IllegalArgumentException e) {
      throw Failure.invalid(String.valueOf(e.getMessage())).exception();
    }
    return this;
  }

  /**
   * Says who signs the certificates of the nodes, if not those whom Java trusts. Connections to
   * host:port are encrypted then, too.
   *
   * @param authority a file in PEM, which is read for each new connection
   * @return this
   */
  public ClientBuilder authority(Path authority) {
    this.authority = Objects.requireNonNull(authority, "authority");
    return this;
  }

  /**
   * Has the client show a certificate. Connections to host:port are encrypted then, too.
   *
   * @param certificate a file in PEM, which is read for each new connection
   * @param key a file with its key in PEM, in the format PKCS 8
   * @return this
   */
  public ClientBuilder certificate(Path certificate, Path key) {
    this.certificate = Objects.requireNonNull(certificate, "certificate");
    this.key = Objects.requireNonNull(key, "key");
    return this;
  }

  /**
   * Says how long a call may take, with its repetitions, if it is given no other time: by default
   * 30 seconds.
   *
   * @param timeout of calls
   * @return this
   */
  public ClientBuilder timeout(Duration timeout) {
    this.timeout = Deadline.nanos(timeout);
    return this;
  }

  /**
   * Has what a function returns submitted in place of each request, for instance the request with
   * one more header. If it throws an exception, the request is an {@link InvalidException}.
   *
   * @param decorate called once for each request, in the thread of the caller
   * @return this
   */
  public ClientBuilder decorate(UnaryOperator<Request> decorate) {
    this.decorate = Objects.requireNonNull(decorate, "decorate");
    return this;
  }

  /**
   * Sets what makes JSON of payloads, and values of results.
   *
   * @param json in place of {@link Json#standard}
   * @return this
   */
  public ClientBuilder json(Json json) {
    this.json = Objects.requireNonNull(json, "json");
    return this;
  }

  /**
   * Makes the client. It connects when it is used first.
   *
   * @return the client, to be closed
   * @throws InvalidException if an address is a URL of http, and there are files of TLS
   */
  public TaskengineClient open() {
    try {
      addresses.forEach(address -> address.isSecure(access()));
    } catch (IllegalArgumentException e) {
      throw Failure.invalid(String.valueOf(e.getMessage())).exception();
    }
    return new TaskengineClient(new Core(this), null);
  }
}
