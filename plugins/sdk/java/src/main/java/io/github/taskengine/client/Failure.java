package io.github.taskengine.client;

import io.github.taskengine.internal.Causes;
import io.grpc.Metadata;
import io.grpc.Status;
import io.netty.handler.codec.http2.Http2Exception;
import java.io.IOException;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What a node has answered, or why none has.
 *
 * @param kind of the exception
 * @param message for people
 * @param code of the API
 * @param address of the node; empty if none has answered
 * @param isWaited the request has waited for room in a backlog, and may be repeated at once
 */
record Failure(Kind kind, String message, String code, String address, boolean isWaited) {
  private static final Metadata.Key<String> FULL =
      Metadata.Key.of("taskengine-full", Metadata.ASCII_STRING_MARSHALLER);

  private static final Metadata.Key<String> REASON =
      Metadata.Key.of("taskengine-reason", Metadata.ASCII_STRING_MARSHALLER);

  enum Kind {
    INVALID(InvalidException::new),
    LATE(LateException::new),
    NOT_FOUND(NotFoundException::new),
    CONFLICT(ConflictException::new),
    ALREADY_EXISTS(AlreadyExistsException::new),
    NOT_ALLOWED(NotAllowedException::new),
    CHILDREN_CLOSED(ChildrenClosedException::new),
    TASK_ENDED(TaskEndedException::new),
    TOO_MANY_CHILDREN(TooManyChildrenException::new),
    BACKLOG_FULL(BacklogFullException::new),
    TOO_LARGE(TooLargeException::new),
    UNAVAILABLE(UnavailableException::new),
    UNSUPPORTED(UnsupportedException::new),
    INTERNAL(InternalException::new),
    DEADLINE_EXCEEDED(DeadlineExceededException::new),
    CLOSED(ClosedException::new);

    private final Maker maker;

    Kind(Maker maker) {
      this.maker = maker;
    }
  }

  private interface Maker {
    ClientException make(String message, String code, String address);
  }

  private static final Map<String, Kind> KINDS =
      Map.ofEntries(
          Map.entry("invalid_argument", Kind.INVALID),
          Map.entry("out_of_range", Kind.LATE),
          Map.entry("not_found", Kind.NOT_FOUND),
          Map.entry("aborted", Kind.CONFLICT),
          Map.entry("already_exists", Kind.ALREADY_EXISTS),
          Map.entry("failed_precondition", Kind.NOT_ALLOWED),
          Map.entry("permission_denied", Kind.NOT_ALLOWED),
          Map.entry("unauthenticated", Kind.NOT_ALLOWED),
          Map.entry("resource_exhausted", Kind.TOO_LARGE),
          Map.entry("unavailable", Kind.UNAVAILABLE),
          Map.entry("unimplemented", Kind.UNSUPPORTED),
          Map.entry("deadline_exceeded", Kind.DEADLINE_EXCEEDED),
          Map.entry("canceled", Kind.DEADLINE_EXCEEDED)); // by the node, whose clock was first

  /** The kinds of errors that the header reason distinguishes from others with the same code. */
  private static final Map<String, Kind> REASONS =
      Map.of(
          "children_closed",
          Kind.CHILDREN_CLOSED,
          "task_ended",
          Kind.TASK_ENDED,
          "too_many_children",
          Kind.TOO_MANY_CHILDREN);

  /** The failure of an answer. full is what the node says about a backlog. */
  static Failure ofCode(String code, String message, String address, String full) {
    Kind kind = KINDS.getOrDefault(code, Kind.INTERNAL);
    boolean isFull = kind == Kind.TOO_LARGE && !full.isEmpty();
    return new Failure(
        isFull ? Kind.BACKLOG_FULL : kind, message, code, address, full.equals("waited"));
  }

  /** The failure of a call of gRPC. */
  static Failure ofStatus(Status status, @Nullable Metadata trailers, String address) {
    String message = status.getDescription() == null ? "" : status.getDescription();
    String name = status.getCode().name().toLowerCase(Locale.ROOT);
    String code = name.equals("cancelled") ? "canceled" : name;
    Throwable cause = status.getCause(); // of this side: an answer has none
    if (cause instanceof IOException || cause instanceof Http2Exception) {
      code = "unavailable"; // the library calls some broken connections unknown
    }
    if (cause != null && code.equals("unavailable")) {
      message += ": " + Causes.textOf(cause);
    }
    String full = trailers == null ? null : trailers.get(FULL);
    String reason = trailers == null ? null : trailers.get(REASON);
    Kind special = reason == null ? null : REASONS.get(reason);
    return special == null
        ? ofCode(code, message, address, full == null ? "" : full)
        : new Failure(special, message, code, address, false);
  }

  /** A request that cannot be sent. */
  static Failure invalid(String message) {
    return new Failure(Kind.INVALID, message, "invalid_argument", "", false);
  }

  static Failure unavailable(String message, String address) {
    return new Failure(Kind.UNAVAILABLE, message, "unavailable", address, false);
  }

  static Failure late(String message) {
    return new Failure(Kind.DEADLINE_EXCEEDED, message, "deadline_exceeded", "", false);
  }

  static Failure closed(String message) {
    return new Failure(Kind.CLOSED, message, "", "", false);
  }

  /**
   * The failure of a request of several that was refused while the others were done; null if it was
   * not refused.
   */
  static @Nullable Failure ofRefusal(Receipt receipt) {
    return switch (receipt.outcome()) {
      case "rejected" ->
          ofCode(
              "already_exists",
              "task " + receipt.id() + " has the key of the request, and its type rejects that",
              "",
              "");
      case "late" ->
          ofCode(
              "out_of_range",
              "the time of the request lies further in the past than max_lateness of its type",
              "",
              "");
      default -> null;
    };
  }

  /** Whether another try may succeed. */
  boolean mayRepeat() {
    return kind == Kind.UNAVAILABLE || isWaited;
  }

  /** Whether a node has answered. */
  boolean isAnswer() {
    return kind != Kind.UNAVAILABLE && kind != Kind.DEADLINE_EXCEEDED && !code.equals("canceled");
  }

  ClientException exception() {
    return kind.maker.make(message, code, address);
  }
}
