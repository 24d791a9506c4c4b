package io.github.taskengine.client;

import java.time.Instant;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A write of a document: {@code DocumentWrite.of(cart).ifVersion(read.version())}. Each method but
 * the accessors returns a copy with one thing changed.
 *
 * @param data encoded as the payload of a {@link Request}, at most 256 KiB; null for none
 * @param ifVersion it is written only if it has this version, and 0 is that there is none; null:
 *     any
 * @param expiresAt from when on it does not exist; null: never
 * @param by who asks; written to the log of the node
 */
public record DocumentWrite(
    @Nullable Object data, @Nullable Long ifVersion, @Nullable Instant expiresAt, String by) {
  /** Checks what is given. */
  public DocumentWrite {
    Objects.requireNonNull(by, "by");
  }

  /**
   * A write of a document, whatever its version is.
   *
   * @param data bytes or a text, which are written as they are, a value that is written as JSON, or
   *     null for none
   * @return the write
   */
  public static DocumentWrite of(@Nullable Object data) {
    return new DocumentWrite(data, null, null, "");
  }

  /**
   * Makes the write only if the document has a version, and throws a ConflictException otherwise.
   *
   * @param ifVersion the version; 0 is that there is no document
   * @return the changed copy
   */
  public DocumentWrite ifVersion(long ifVersion) {
    return new DocumentWrite(data, ifVersion, expiresAt, by);
  }

  /**
   * Has the document expire.
   *
   * @param expiresAt from when on it does not exist
   * @return the changed copy
   */
  public DocumentWrite expiresAt(Instant expiresAt) {
    return new DocumentWrite(data, ifVersion, expiresAt, by);
  }

  /**
   * Says who asks.
   *
   * @param by written to the log of the node
   * @return the changed copy
   */
  public DocumentWrite by(String by) {
    return new DocumentWrite(data, ifVersion, expiresAt, by);
  }
}
