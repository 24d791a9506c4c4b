package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A small state that tasks share.
 *
 * @param key of the document
 * @param data of the document; empty in lists
 * @param size of the data, in bytes; 0 if it cannot be decoded
 * @param version another one, and a greater one, after each write
 * @param createdAt when it was first written
 * @param updatedAt when it was last written
 * @param expiresAt from when on it does not exist; null: never
 */
public record Document(
    String key,
    byte[] data,
    int size,
    long version,
    @Nullable Instant createdAt,
    @Nullable Instant updatedAt,
    @Nullable Instant expiresAt) {}
