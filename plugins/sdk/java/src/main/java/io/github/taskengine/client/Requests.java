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
  private static final String WORKFLOW = "taskengine.workflow"; // the type of workflows

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
    for (String after : request.after()) {
      message.addAfter(text(request, after));
    }
    message.setAfterAny(request.afterAny());
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

  /**
   * The message of a child, which gets its id from its parent.
   *
   * @throws InvalidException if it cannot be sent
   */
  Api.NewTask child(Request request) {
    Request decorated = decorated(request);
    Api.NewTask message = message(decorated);
    return decorated.id() == null ? message.toBuilder().clearId().build() : message;
  }

  /**
   * The message of a signal.
   *
   * @throws InvalidException if it cannot be sent
   */
  Api.SignalRequest message(Signal signal) {
    Api.SignalRequest.Builder message =
        Api.SignalRequest.newBuilder()
            .setId(text(signal, signal.to()))
            .setType(text(signal, signal.type()))
            .setKey(text(signal, signal.key()))
            .setOrderingKey(text(signal, signal.orderingKey()))
            .setName(text(signal, signal.name()))
            .setKeep(signal.isKept())
            .setRequestId(signal.id() == null ? ids.next("", "", "") : text(signal, signal.id()));
    if (signal.data() != null) {
      message.setData(payload(signal, signal.data()));
    }
    return message.build();
  }

  /**
   * The message of a request for a workflow.
   *
   * @throws InvalidException if it cannot be sent
   */
  Api.SubmitWorkflowRequest message(WorkflowRequest request) {
    Api.SubmitWorkflowRequest.Builder message =
        Api.SubmitWorkflowRequest.newBuilder()
            .setName(text(request, request.name()))
            .setKey(text(request, request.key()))
            .setId(
                request.id() == null
                    ? ids.next(WORKFLOW, request.key(), "")
                    : text(request, request.id()));
    if (request.definition() != null) {
      message.setDefinitionBytes(json(request, request.definition()));
    }
    if (request.input() != null) {
      message.setInputBytes(json(request, request.input()));
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
    request
        .headers()
        .forEach((name, value) -> message.putHeaders(text(request, name), text(request, value)));
    return message.build();
  }

  /**
   * The message of an order of a bulk job.
   *
   * @throws InvalidException if it cannot be sent
   */
  Api.BulkOrder message(BulkOrder order) {
    Api.BulkOrder.Builder message =
        Api.BulkOrder.newBuilder()
            .setVerb(order.verb())
            .setWhere(order.where())
            .addAllTypes(order.types())
            .setReason(order.reason())
            .setJob(order.job());
    if (order.at() != null) {
      message.setAt(Times.timestamp(order.at()));
    }
    if (order.delay() != null) {
      message.setIn(Times.duration(order.delay()));
    }
    if (order.values() != null) {
      message.setValues(message(order.values()));
    }
    return message.build();
  }

  /**
   * The message of new values of a task.
   *
   * @throws InvalidException if it cannot be sent
   */
  Api.TaskValues message(TaskValues values) {
    Api.TaskValues.Builder message =
        Api.TaskValues.newBuilder()
            .putAllHeaders(values.headers())
            .addAllRemoveHeaders(values.removedHeaders());
    if (values.priority() != null) {
      message.setPriority(values.priority());
    }
    if (values.payload() != null) {
      message.setPayload(payload(values, values.payload()));
    }
    return message.build();
  }

  /**
   * The message of a write of a document.
   *
   * @throws InvalidException if it cannot be sent
   */
  Api.SetDocumentRequest message(String key, DocumentWrite write) {
    Api.SetDocumentRequest.Builder message =
        Api.SetDocumentRequest.newBuilder().setKey(text(write, key)).setBy(text(write, write.by()));
    if (write.data() != null) {
      message.setData(payload(write, write.data()));
    }
    if (write.ifVersion() != null) {
      message.setIfVersion(write.ifVersion());
    }
    if (write.expiresAt() != null) {
      message.setExpiresAt(Times.timestamp(write.expiresAt()));
    }
    return message.build();
  }

  private ByteString json(Object of, Object value) {
    ByteString text = payload(of, value);
    if (!text.isValidUtf8()) {
      throw invalid(of, "its definition or input is not UTF-8", null);
    }
    return text;
  }

  /** The bytes of a value. The request that has it is for an error. */
  private ByteString payload(Object of, Object payload) {
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
      throw invalid(of, "its payload is no JSON: " + e.getMessage(), e);
    }
  }

  /** A text, if UTF-8 can represent it. */
  private static String text(Object of, String text) {
    for (int i = 0; i < text.length(); i++) {
      if (Character.isSurrogate(text.charAt(i))) {
        if (StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
          return text;
        }
        throw invalid(of, "its key or another text has half a surrogate pair", null);
      }
    }
    return text;
  }

  /** A request for people. */
  private static String subject(Object request) {
    if (request instanceof Signal signal) {
      return "a signal " + start(signal.name());
    }
    if (request instanceof WorkflowRequest workflow) {
      return ("a workflow " + start(workflow.name())).trim();
    }
    if (request instanceof TaskValues) {
      return "new values of a task";
    }
    if (request instanceof DocumentWrite) {
      return "a write of a document";
    }
    return "a task of type " + start(((Request) request).type());
  }

  private static String start(String name) {
    return name.substring(0, Math.min(40, name.length()));
  }

  private static ClientException invalid(Object of, String why, @Nullable Exception cause) {
    ClientException e = Failure.invalid(subject(of) + ": " + why).exception();
    e.initCause(cause);
    return e;
  }
}
