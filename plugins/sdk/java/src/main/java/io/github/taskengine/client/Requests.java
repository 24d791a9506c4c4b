package io.github.taskengine.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.github.taskengine.client.internal.Api;
import io.github.taskengine.json.Json;
import io.github.taskengine.json.JsonException;
import java.nio.charset.StandardCharsets;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/** Makes messages of requests. Any thread may call it. */
final class Requests {
  private final Json json;
  private final UnaryOperator<Request> decorate;
  private final Ids ids;

  Requests(Json json, UnaryOperator<Request> decorate, Ids ids) {
    this.json = json;
    this.decorate = decorate;
    this.ids = ids;
  }

  /**
   * What is sent in place of a request.
   *
   * @throws InvalidException if there is nothing
   */
  Request decorated(Request request) {
    Request decorated;
    try {
      decorated = decorate.apply(request);
    } catch (ClientException e) {
      throw e;
    } catch (RuntimeException e) {
      throw invalid(request, "decorate: " + e, e);
    }
    if (decorated == null) {
      throw invalid(request, "decorate returned null", null);
    }
    return decorated;
  }

  /**
   * The message of a request that is decorated.
   *
   * @throws InvalidException if it cannot be sent
   */
  Api.NewTask message(Request request) {
    Api.NewTask.Builder message =
        Api.NewTask.newBuilder()
            .setType(text(request, request.type()))
            .setKey(text(request, request.key()))
            .setOrderingKey(text(request, request.orderingKey()));
    String id = request.id();
    message.setId(
        id == null
            ? ids.next(request.type(), request.key(), request.orderingKey())
            : text(request, id));
    if (request.payload() != null) {
      message.setPayload(payload(request, request.payload()));
    }
    if (request.priority() != null) {
      message.setPriority(request.priority());
    }
    if (request.at() != null) {
      message.setAt(Times.timestamp(request.at()));
    }
    if (request.delay() != null) {
      message.setIn(Times.duration(request.delay()));
    }
    if (request.expiresAt() != null) {
      message.setExpiresAt(Times.timestamp(request.expiresAt()));
    }
    request
        .headers()
        .forEach((name, value) -> message.putHeaders(text(request, name), text(request, value)));
    return message.build();
  }

  /**
   * The submission of a request, which waits for so many nanoseconds.
   *
   * @throws InvalidException if it cannot be sent
   */
  Submission submission(Request request, long timeout) {
    Request decorated = decorated(request);
    Api.NewTask message = message(decorated);
    long end = System.nanoTime() + timeout;
    return new Submission(message.toByteArray(), message.getId(), decorated.id() == null, end);
  }

  /** Likewise. If it cannot be sent, it is done, and the flow does not send it. */
  Submission submissionOrFailed(Request request, long timeout) {
    try {
      return submission(request, timeout);
    } catch (ClientException e) {
      Submission failed = new Submission(new byte[0], "", false, System.nanoTime() + timeout);
      failed.completeExceptionally(e);
      return failed;
    }
  }

  private ByteString payload(Request request, Object payload) {
    if (payload instanceof byte[] bytes) {
      return UnsafeByteOperations.unsafeWrap(bytes); // it is encoded before the call returns
    }
    if (payload instanceof CharSequence text) {
      byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
      return UnsafeByteOperations.unsafeWrap(bytes);
    }
    try {
      return UnsafeByteOperations.unsafeWrap(json.encode(payload));
    } catch (JsonException e) {
      throw invalid(request, "its payload is no JSON: " + e.getMessage(), e);
    }
  }

  /** A text, if UTF-8 can represent it. */
  private static String text(Request request, String text) {
    for (int i = 0; i < text.length(); i++) {
      if (Character.isSurrogate(text.charAt(i))) {
        if (StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
          return text;
        }
        throw invalid(request, "its key or a header has half a surrogate pair", null);
      }
    }
    return text;
  }

  private static ClientException invalid(Request request, String why, @Nullable Exception cause) {
    String type = request.type().substring(0, Math.min(40, request.type().length()));
    ClientException e = Failure.invalid("a task of type " + type + ": " + why).exception();
    e.initCause(cause);
    return e;
  }
}
