package io.github.taskengine.tracing;

import io.github.taskengine.client.Request;
import io.github.taskengine.handler.BatchHandler;
import io.github.taskengine.handler.Ended;
import io.github.taskengine.handler.HandlerException;
import io.github.taskengine.handler.Snooze;
import io.github.taskengine.handler.Task;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Makes spans of OpenTelemetry, so that a request, the tasks that it adds, their handlers, and what
 * these add are one trace.
 *
 * <pre>{@code
 * Tracing tracing = new Tracing(openTelemetry);
 * TaskengineClient client =
 *     TaskengineClient.to("10.0.0.1:7420").decorate(tracing::decorate).open();
 * new Handlers().on("mail", task -> send(task)).wrap(tracing::wrap).run();
 * }</pre>
 *
 * <p>It needs {@code io.opentelemetry:opentelemetry-api}, which is an optional dependency of this
 * package. Any thread may call it.
 */
public final class Tracing {
  private static final W3CTraceContextPropagator PROPAGATOR =
      W3CTraceContextPropagator.getInstance();
  private static final TextMapGetter<Map<String, String>> HEADERS =
      new TextMapGetter<>() {
        @Override
        @SuppressWarnings("deprecation") // it is to be implemented all the same
        public Iterable<String> keys(Map<String, String> headers) {
          return headers.keySet();
        }

        @Override
        public @Nullable String get(@Nullable Map<String, String> headers, String name) {
          if (headers == null) {
            return null;
          }
          return headers.entrySet().stream()
              .filter(header -> header.getKey().equalsIgnoreCase(name))
              .map(Map.Entry::getValue)
              .findFirst()
              .orElse(null);
        }
      };

  private final Tracer tracer;

  /** Makes spans by the tracers of some OpenTelemetry. */
  public Tracing(OpenTelemetry openTelemetry) {
    tracer = openTelemetry.getTracer("taskengine");
  }

  /**
   * Returns a handler that makes a span of each call, which is current meanwhile. It is a child of
   * the trace context in the headers of the task. The span of a batch is linked to those of its
   * tasks. It is for {@code Handlers.wrap}.
   *
   * @param type of the tasks
   * @param next the handler
   */
  public BatchHandler wrap(String type, BatchHandler next) {
    return tasks -> {
      Span span = begin(type, tasks);
      Scope scope = span.makeCurrent();
      try {
        List<? extends @Nullable Object> outcomes = next.handle(tasks);
        if (outcomes.size() == 1) {
          note(span, outcomes.get(0));
        } else {
          span.setAttribute("taskengine.outcome", "completed");
        }
        return outcomes;
      } catch (Throwable thrown) {
        note(span, thrown);
        throw thrown;
      } finally {
        scope.close();
        span.end();
      }
    };
  }

  /**
   * Returns a request with the trace context of the current span in its headers. One that has a
   * trace context keeps it. It is for {@code ClientBuilder.decorate}.
   *
   * @param request for a task
   * @return the request with it
   */
  public Request decorate(Request request) {
    if (HEADERS.get(request.headers(), "traceparent") != null) {
      return request;
    }
    Map<String, String> headers = new HashMap<>(request.headers());
    PROPAGATOR.inject(Context.current(), headers, Map::put);
    return request.headers(headers);
  }

  private Span begin(String type, List<Task> tasks) {
    SpanBuilder span =
        tracer
            .spanBuilder("handle " + type)
            .setSpanKind(SpanKind.CONSUMER)
            .setAttribute("messaging.system", "taskengine")
            .setAttribute("messaging.operation.type", "process")
            .setAttribute("messaging.destination.name", type);
    if (tasks.size() == 1) {
      Task task = tasks.get(0);
      return span.setParent(contextOf(task))
          .setAttribute("messaging.message.id", task.id().toString())
          .setAttribute("taskengine.attempt", task.attempt())
          .startSpan();
    }
    span.setNoParent().setAttribute("messaging.batch.message_count", tasks.size());
    for (Task task : tasks) {
      span.addLink(Span.fromContext(contextOf(task)).getSpanContext());
    }
    return span.startSpan();
  }

  private static Context contextOf(Task task) {
    return PROPAGATOR.extract(Context.root(), task.headers(), HEADERS);
  }

  private static void note(Span span, @Nullable Object outcome) {
    if (outcome instanceof Throwable thrown) {
      String named = thrown instanceof HandlerException known ? known.errorClass() : "";
      span.setAttribute("taskengine.outcome", "errored")
          .setAttribute("error.type", named.isEmpty() ? thrown.getClass().getSimpleName() : named)
          .setStatus(StatusCode.ERROR, String.valueOf(thrown.getMessage()))
          .recordException(thrown);
    } else {
      String how =
          outcome instanceof Snooze ? "snoozed" : outcome instanceof Ended ? "ended" : "completed";
      span.setAttribute("taskengine.outcome", how);
    }
  }
}
