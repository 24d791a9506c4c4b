package io.github.taskengine.client;

import java.util.Objects;

/** What all exceptions of a client are. */
public class ClientException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The code of the API. */
  private final String code;

  /** The address of the node. */
  private final String address;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public ClientException(String message, String code, String address) {
    super(address.isEmpty() ? message : "the node at " + address + ": " + message);
    this.code = Objects.requireNonNull(code, "code");
    this.address = address;
  }

  /**
   * The code of the API, such as invalid_argument.
   *
   * @return the code; empty if no node has answered
   */
  public final String code() {
    return code;
  }

  /**
   * The address of the node that has answered.
   *
   * @return the address; empty if no node has answered
   */
  public final String address() {
    return address;
  }
}
