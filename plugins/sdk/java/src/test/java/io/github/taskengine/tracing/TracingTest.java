package io.github.taskengine.tracing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.github.taskengine.client.Request;
import io.github.taskengine.client.Task;
import io.github.taskengine.client.TaskengineClient;
import io.github.taskengine.handler.Handlers;
import io.github.taskengine.handler.PermanentException;
import io.github.taskengine.handler.Snooze;
import io.github.taskengine.testing.TestEngine;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Middleware and spans, with a real node. */
@EnabledIfEnvironmentVariable(named = "TASKENGINE_PROGRAM", matches = ".+")
class TracingTest {
  private final TestEngine engine =
      TestEngine.start(
          Map.of("plain", Map.of("retry", Map.of("max", 1)), "later", Map.of(), "batch", Map.of()));
  private final InMemorySpanExporter exported = InMemorySpanExporter.create();
  private final OpenTelemetrySdk sdk =
      OpenTelemetrySdk.builder()
          .setTracerProvider(
              SdkTracerProvider.builder()
                  .addSpanProcessor(SimpleSpanProcessor.create(exported))
                  .build())
          .build();
  private final Tracing tracing = new Tracing(sdk);

  @AfterEach
  void end() {
    engine.close();
    sdk.close();
  }

  private Map<String, SpanData> spans() {
    return exported.getFinishedSpanItems().stream()
        .collect(Collectors.toMap(SpanData::getName, span -> span));
  }

  @Test
  void aHandlerIsCalledByWhatWrapsIt() {
    List<String> said = new CopyOnWriteArrayList<>();
    Handlers handlers =
        new Handlers()
            .on(
                "plain",
                task -> {
                  throw new IllegalStateException(task.text());
                })
            .onBatch("batch", 2, Duration.ofMillis(1), tasks -> Arrays.asList("done"))
            .wrap(
                (type, next) ->
                    tasks -> {
                      said.add("begin " + type);
                      try {
                        return next.handle(tasks);
                      } finally {
                        said.add("end");
                      }
                    })
            .wrap(
                (type, next) ->
                    tasks -> {
                      try {
                        return next.handle(tasks);
                      } catch (IllegalStateException e) {
                        said.add("failed " + e.getMessage());
                        if (e.getMessage().equals("swallow")) {
                          return Collections.nCopies(tasks.size(), "instead");
                        }
                        throw e;
                      }
                    });
    engine.serve(handlers, "plain", "batch");
    for (Request request :
        List.of(
            Request.of("plain").payload("no".getBytes()),
            Request.of("plain").payload("swallow".getBytes()),
            Request.of("batch"))) {
      engine.client().submit(request);
      engine.settle();
    }
    assertEquals(
        List.of("error", "done", "done"), engine.tasks().stream().map(Task::state).toList());
    assertEquals("instead", new String(engine.tasks().get(1).result()));
    assertEquals(
        List.of(
            "begin plain",
            "failed no",
            "end",
            "begin plain",
            "failed swallow",
            "end",
            "begin batch",
            "end"),
        said);
  }

  @Test
  void aRequestItsTasksAndWhatTheseAddAreOneTrace() {
    try (TaskengineClient client =
        TaskengineClient.to(engine.address()).decorate(tracing::decorate).open()) {
      Handlers handlers =
          new Handlers()
              .on("plain", task -> client.submit(Request.of("later")).id())
              .on(
                  "later",
                  task -> {
                    sdk.getTracer("own").spanBuilder("own").startSpan().end();
                    return null;
                  })
              .wrap(tracing::wrap);
      engine.serve(handlers, "plain", "later");
      Span request = sdk.getTracer("shop").spanBuilder("request").startSpan();
      Scope scope = request.makeCurrent();
      client.submit(Request.of("plain"));
      scope.close();
      request.end();
      engine.settle();
    }
    Map<String, SpanData> all = spans();
    assertEquals(4, all.size());
    assertEquals(1, all.values().stream().map(SpanData::getTraceId).distinct().count());
    assertEquals(all.get("request").getSpanId(), all.get("handle plain").getParentSpanId());
    assertEquals(all.get("handle plain").getSpanId(), all.get("handle later").getParentSpanId());
    assertEquals(all.get("handle later").getSpanId(), all.get("own").getParentSpanId());
    assertEquals(
        engine.only("plain").id(),
        all.get("handle plain")
            .getAttributes()
            .get(AttributeKey.stringKey("messaging.message.id")));
  }

  @Test
  void aSpanSaysHowItsHandlerHasEnded() {
    Queue<Object> ends =
        new ArrayDeque<>(
            List.of(
                new IllegalStateException("no"),
                new PermanentException("never", "funds"),
                new Snooze(Duration.ofMinutes(1))));
    engine.serve(
        new Handlers()
            .on(
                "plain",
                task -> {
                  Object end = ends.remove();
                  if (end instanceof RuntimeException thrown) {
                    throw thrown;
                  }
                  return end;
                })
            .wrap(tracing::wrap),
        "plain");
    for (int i = 0; i < 3; i++) {
      engine.client().submit(Request.of("plain"));
      engine.settle();
    }
    AttributeKey<String> outcome = AttributeKey.stringKey("taskengine.outcome");
    AttributeKey<String> error = AttributeKey.stringKey("error.type");
    List<String> got =
        exported.getFinishedSpanItems().stream()
            .map(
                span ->
                    span.getAttributes().get(outcome)
                        + " "
                        + span.getAttributes().get(error)
                        + " "
                        + span.getStatus().getStatusCode())
            .toList();
    assertEquals(
        List.of("errored IllegalStateException ERROR", "errored funds ERROR", "snoozed null UNSET"),
        got);
  }

  @Test
  void theSpanOfABatchIsLinkedToThoseOfItsTasks() {
    for (int i = 1; i <= 2; i++) {
      String context = String.format("00-%032x-%016x-01", i, i);
      engine.client().submit(Request.of("batch").headers(Map.of("Traceparent", context)));
    }
    engine.serve(
        new Handlers()
            .onBatch("batch", 2, Duration.ofMinutes(1), tasks -> Collections.nCopies(2, null))
            .wrap(tracing::wrap),
        "batch");
    engine.settle();
    SpanData span = spans().get("handle batch");
    assertFalse(span.getParentSpanContext().isValid());
    assertEquals(
        List.of(String.format("%032x", 1), String.format("%032x", 2)),
        span.getLinks().stream().map(link -> link.getSpanContext().getTraceId()).sorted().toList());
  }
}
