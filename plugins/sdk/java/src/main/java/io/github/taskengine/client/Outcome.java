package io.github.taskengine.client;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What became of one of several requests: either a receipt or an error.
 *
 * @param receipt of the task; null if there is an error
 * @param error why there is no receipt; null if the task is durable
 */
public record Outcome(@Nullable Receipt receipt, @Nullable ClientException error) {
  /** Checks that there is one of them. */
  public Outcome {
    if ((receipt == null) == (error == null)) {
      throw new IllegalArgumentException("an outcome is either a receipt or an error");
    }
  }

  /**
   * The receipt, or the error as an exception.
   *
   * @return the receipt
   * @throws ClientException if there is none
   */
  public Receipt orThrow() {
    if (error != null) {
      throw error;
    }
    return Objects.requireNonNull(receipt);
  }
}
