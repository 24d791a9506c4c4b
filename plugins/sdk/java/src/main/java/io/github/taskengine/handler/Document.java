package io.github.taskengine.handler;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A small state that tasks share, as it was when a task has read it: {@link Task#readDocument}.
 *
 * @param key of the document
 * @param data of the document; empty if there is none
 * @param version another one, and a greater one, after each write; 0 if there is no document
 * @param createdAt when it was first written; null if there is no document
 * @param updatedAt when it was last written; null if there is no document
 * @param expiresAt from when on it does not exist; null: never
 */
public record Document(
    String key,
    byte[] data,
    long version,
    @Nullable Instant createdAt,
    @Nullable Instant updatedAt,
    @Nullable Instant expiresAt) {
  /**
   * The data as UTF-8 text.
   *
   * @return the text
   */
  public String text() {
    return new String(data, StandardCharsets.UTF_8);
  }

  /**
   * A write that replaces this version, and keeps the time at which the document expires.
   *
   * @param data bytes, text, {@code null} or a value for JSON, at most 256 KiB
   * @return the write
   */
  public DocumentWrite write(@Nullable Object data) {
    return new DocumentWrite(key, data, false, version, expiresAt);
  }

  /**
   * A write that deletes this version.
   *
   * @return the write
   */
  public DocumentWrite delete() {
    return new DocumentWrite(key, null, true, version, null);
  }
}
