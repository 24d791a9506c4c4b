package io.github.taskengine.handler;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A write of a document, see {@link Task#writeDocument}. {@link Document#write} makes one that
 * replaces what was read. Each method but the accessors returns a copy with one thing changed:
 * {@code DocumentWrite.of("cart/7", cart).ifVersion(0)}.
 *
 * @param key of the document
 * @param data bytes, text, {@code null} or a value for JSON, at most 256 KiB
 * @param isDeleted whether the document is deleted, whether it exists or not
 * @param ifVersion the version that the document has to have, and 0 is that there is none; null:
 *     any
 * @param expiresAt from when on it does not exist; null: never
 */
public record DocumentWrite(
    String key,
    @Nullable Object data,
    boolean isDeleted,
    @Nullable Long ifVersion,
    @Nullable Instant expiresAt) {
  /** Checks what is given. */
  public DocumentWrite {
    if (key.isEmpty()) {
      throw new IllegalArgumentException("a document needs a key");
    }
    if (isDeleted && (data != null || expiresAt != null)) {
      throw new IllegalArgumentException("a document that is deleted has no data and no time");
    }
  }

  /**
   * A write of a document, whatever its version is.
   *
   * @param key of the document
   * @param data bytes, text, {@code null} or a value for JSON, at most 256 KiB
   * @return the write
   */
  public static DocumentWrite of(String key, @Nullable Object data) {
    return new DocumentWrite(key, data, false, null, null);
  }

  /**
   * A write that deletes a document, whatever its version is, and whether it exists or not.
   *
   * @param key of the document
   * @return the write
   */
  public static DocumentWrite delete(String key) {
    return new DocumentWrite(key, null, true, null, null);
  }

  /**
   * Says which version is replaced.
   *
   * @param ifVersion the version that the document has to have; 0 is that there is none
   * @return the changed copy
   */
  public DocumentWrite ifVersion(long ifVersion) {
    return new DocumentWrite(key, data, isDeleted, ifVersion, expiresAt);
  }

  /**
   * Has the document expire.
   *
   * @param expiresAt from when on it does not exist
   * @return the changed copy
   */
  public DocumentWrite expiresAt(Instant expiresAt) {
    return new DocumentWrite(key, data, isDeleted, ifVersion, expiresAt);
  }
}
