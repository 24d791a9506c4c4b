package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A token of clients without its secret.
 *
 * @param name of the token
 * @param state valid, expired or revoked
 * @param roles of its clients
 * @param types of tasks; none: all
 * @param createdAt when it was added
 * @param by who added it; empty for one of a file
 * @param expiresAt null: never
 * @param inFile whether it is in the file of the node that was asked, and not kept by the cluster
 * @param rotatedAt when it got its secret; null: when it was added
 * @param rotatedBy who has rotated it
 * @param earlierUntil until when the secret from before the rotation is accepted; null: it is not
 * @param revokedAt null: it was not
 * @param revokedBy who has revoked it
 */
public record Token(
    String name,
    String state,
    List<String> roles,
    List<String> types,
    @Nullable Instant createdAt,
    String by,
    @Nullable Instant expiresAt,
    boolean inFile,
    @Nullable Instant rotatedAt,
    String rotatedBy,
    @Nullable Instant earlierUntil,
    @Nullable Instant revokedAt,
    String revokedBy) {
  /** Makes it, with copies of its lists. */
  public Token {
    roles = List.copyOf(roles);
    types = List.copyOf(types);
  }
}
