package io.github.taskengine.client;

import java.util.List;

/** There is a task with the key, and its type rejects other requests with it. */
public final class AlreadyExistsException extends ClientException {
  private static final long serialVersionUID = 1L;

  /** Of all requests of a submitAll. */
  private final List<Receipt> receipts;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public AlreadyExistsException(String message, String code, String address) {
    this(message, code, address, List.of());
  }

  /**
   * Makes the exception of a {@code submitAll}.
   *
   * @param message for people
   * @param code of the API
   * @param address of the node; empty if no node has answered
   * @param receipts of all its requests
   */
  public AlreadyExistsException(
      String message, String code, String address, List<Receipt> receipts) {
    super(message, code, address);
    this.receipts = List.copyOf(receipts);
  }

  /**
   * The receipts of all requests of a {@code submitAll}.
   *
   * @return them; empty after another call
   */
  public List<Receipt> receipts() {
    return receipts;
  }
}
