package io.github.taskengine.handler;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.slf4j.event.Level;
import org.slf4j.spi.LoggingEventBuilder;

/** The program by which the host's conformance kit judges this package. */
final class Conformance {
  private Conformance() {}

  public static void main(String[] args) {
    new Handlers()
        .version("conformance")
        .on("noop", task -> null)
        .on("echo", Task::payload)
        .on("json", Conformance::sum)
        .on("describe", Conformance::describe)
        .on("error", Conformance::error)
        .on("throw", Conformance::fail)
        .on("doubt", Conformance::doubt)
        .on("unencodable", task -> Double.NaN)
        .on("snooze", task -> new Snooze(task.json(Delay.class).duration()))
        .on("again", task -> task.json(Time.class).again())
        .on("ended", task -> new Ended())
        .on("rerun", task -> task.json(Rerun.class).again())
        .on("wait", Conformance::await)
        .on("hang", Conformance::hang)
        .on("log", Conformance::log)
        .on("print", Conformance::print)
        .on("progress", Conformance::progress)
        .on("checkpoint", Conformance::checkpoint)
        .on("keep", Conformance::keep)
        .on("await", Conformance::awaitSignal)
        .on("flow", Steps.of(1, Conformance::flow))
        .on("children", Conformance::spawn)
        .on("family", Conformance::family)
        .on("signals", Conformance::signal)
        .on("check", Conformance::check)
        .on("documents", Conformance::documents)
        .on("after", Conformance::after)
        .on("fan", Steps.of(1, Conformance::fan))
        .onBatch("batch", 10, Duration.ofMillis(100), Conformance::batch)
        .on("big", task -> "x".repeat(Integer.parseInt(task.text())))
        .on("exit", Conformance::exit)
        .run();
  }

  record Pair(int a, int b) {}

  record Sum(int sum) {}

  private static Sum sum(Task task) {
    Pair pair = task.json(Pair.class);
    return new Sum(pair.a() + pair.b());
  }

  private static Map<String, Object> describe(Task task) {
    Map<String, Object> seen = new LinkedHashMap<>();
    seen.put("id", task.id().toString());
    seen.put("version", new BigInteger(Long.toUnsignedString(task.version())));
    seen.put("type", task.type());
    seen.put("attempt", task.attempt());
    seen.put("crashes", task.crashes());
    seen.put("priority", task.priority());
    seen.put("key", task.key());
    seen.put("ordering_key", task.orderingKey());
    seen.put("headers", task.headers());
    seen.put("payload", task.payload()); // Jackson writes base64
    seen.put("time_left_us", task.timeLeft().map(Codec::micros).orElse(0L));
    seen.put("checkpoint", task.checkpoint());
    return seen;
  }

  record Failure(
      String message,
      @JsonProperty("class") @Nullable String errorClass,
      @Nullable Boolean permanent,
      @JsonProperty("retry_delay_ms") @Nullable Long retryDelayMs) {}

  private static Object doubt(Task task) {
    throw new InDoubtException(task.text());
  }

  private static Object error(Task task) {
    Failure failure = task.json(Failure.class);
    String errorClass = failure.errorClass() == null ? "" : failure.errorClass();
    if (Boolean.TRUE.equals(failure.permanent())) {
      throw new PermanentException(failure.message(), errorClass);
    }
    if (failure.retryDelayMs() != null) {
      Duration delay = Duration.ofMillis(failure.retryDelayMs());
      throw new RetryInException(delay, failure.message(), errorClass);
    }
    throw new HandlerException(failure.message(), errorClass);
  }

  private static Object fail(Task task) {
    throw new IllegalStateException(task.text());
  }

  record Delay(@JsonProperty("delay_ms") long millis) {
    Duration duration() {
      return Duration.ofMillis(millis);
    }
  }

  record Time(@JsonProperty("at_ms") long millis, String result) {
    Again again() {
      return new Again(Instant.ofEpochMilli(millis), result);
    }
  }

  record Rerun(
      @JsonProperty("at_ms") long millis,
      String result,
      @Nullable String payload,
      @Nullable String checkpoint) {
    Again again() {
      return new Again(Instant.ofEpochMilli(millis), result, payload, checkpoint);
    }
  }

  private static Object await(Task task) throws InterruptedException {
    TimeUnit.DAYS.sleep(1);
    return "not cancelled";
  }

  private static Object hang(Task task) {
    while (true) {
      try {
        TimeUnit.DAYS.sleep(1);
      } catch (InterruptedException e) {
        // as asked
      }
    }
  }

  record Line(String level, String message, @Nullable Map<String, String> fields) {}

  private static @Nullable Object log(Task task) {
    Line line = task.json(Line.class);
    Level level = Level.valueOf(line.level().toUpperCase(Locale.ROOT));
    LoggingEventBuilder entry = task.log().atLevel(level);
    if (line.fields() != null) {
      line.fields().forEach(entry::addKeyValue);
    }
    entry.log(line.message());
    return null;
  }

  private static @Nullable Object print(Task task) {
    System.out.println(task.text());
    System.err.println(task.text());
    return null;
  }

  record Progress(long done, long total, String message) {}

  private static @Nullable Object progress(Task task) {
    Progress progress = task.json(Progress.class);
    task.progress(progress.done(), progress.total(), progress.message());
    return null;
  }

  private static Object checkpoint(Task task) {
    task.saveCheckpoint(task.payload());
    throw new IllegalStateException("kept");
  }

  private static String keep(Task task) {
    task.saveCheckpoint(task.payload());
    return "stored";
  }

  record Awaits(
      List<String> names,
      @JsonProperty("timeout_ms") @Nullable Long timeoutMs,
      @Nullable String result,
      @Nullable String checkpoint) {}

  private static Object awaitSignal(Task task) {
    if (task.woken().isPresent()) {
      return heard(task.woken().get());
    }
    Awaits asked = task.json(Awaits.class);
    Duration timeout = asked.timeoutMs() == null ? null : Duration.ofMillis(asked.timeoutMs());
    return new WaitFor(asked.names(), timeout, null, asked.result(), null, asked.checkpoint());
  }

  private static Map<String, Object> heard(Woken woken) {
    Map<String, Object> heard = new LinkedHashMap<>();
    heard.put("by", woken.by().name().toLowerCase(Locale.ROOT));
    if (woken.by() == Woken.By.SIGNAL) {
      heard.put("id", String.valueOf(woken.id()));
      heard.put("name", woken.name());
      heard.put("data", woken.data()); // Jackson writes base64
    }
    return heard;
  }

  private static Object flow(StepTask task) throws Exception {
    String began = task.step("begin", String.class, Conformance::process);
    Woken woken = task.waitFor(Duration.ofHours(1), "packed");
    Map<String, Object> heard = heard(woken);
    heard.put("began", began);
    heard.put("ended", task.step("end", String.class, Conformance::process));
    return heard;
  }

  record Family(
      @Nullable String name,
      String type,
      List<String> payloads,
      @Nullable Integer count,
      @JsonProperty("or_failed") @Nullable Boolean orFailed,
      @Nullable String result) {
    List<Child> children() {
      return payloads.stream().map(payload -> Child.of(type).payload(payload)).toList();
    }
  }

  private static List<String> idsOf(int count, IntFunction<UUID> id) {
    return IntStream.range(0, count).mapToObj(id).map(UUID::toString).toList();
  }

  private static Object family(Task task) {
    if (task.woken().isPresent()) {
      Map<String, Object> heard = heard(task.woken().get());
      List<Object> children = new ArrayList<>();
      for (ChildSet set : task.children().values()) {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("name", set.name());
        one.put("added", set.added());
        one.put("done", set.done());
        one.put("failed", set.failed());
        one.put("cancelled", set.cancelled());
        one.put("ids", idsOf(set.added(), set::id));
        children.add(one);
      }
      heard.put("children", children);
      task.parent()
          .ifPresent(
              of ->
                  heard.put(
                      "parent",
                      Map.of("id", of.id().toString(), "name", of.name(), "index", of.number())));
      return heard;
    }
    Family asked = task.json(Family.class);
    String name = String.valueOf(asked.name());
    task.addChildren(name, asked.children());
    ChildrenWait wait = ChildrenWait.all(name).count(asked.count() == null ? 0 : asked.count());
    if (Boolean.TRUE.equals(asked.orFailed())) {
      wait = wait.orFailed();
    }
    return new WaitForChildren(List.of(wait), null, null, asked.result(), null, null);
  }

  record Checked(String name, List<Spawned> children) {}

  private static List<Map<String, Object>> check(Task task) {
    Checked asked = task.json(Checked.class);
    List<Child> children =
        asked.children().stream()
            .map(one -> Child.of(one.type()).key(orEmpty(one.key())).payload(one.payload()))
            .toList();
    List<Refusal> refused =
        asked.name().isEmpty()
            ? task.checkSpawn(children.get(0)).stream().toList()
            : task.checkChildren(asked.name(), children);
    List<Map<String, Object>> heard = new ArrayList<>();
    for (Refusal refusal : refused) {
      Map<String, Object> one = new LinkedHashMap<>();
      one.put("index", refusal.index());
      one.put("reason", refusal.reason().name().toLowerCase(Locale.ROOT));
      one.put("message", refusal.message());
      one.put("id", refusal.id() == null ? "" : refusal.id().toString());
      heard.add(one);
    }
    return heard;
  }

  record Written(
      String key,
      @Nullable String data,
      @Nullable Boolean delete,
      @JsonProperty("expires_ms") @Nullable Long expires) {
    DocumentWrite write() {
      if (Boolean.TRUE.equals(delete)) {
        return DocumentWrite.delete(key);
      }
      DocumentWrite write = DocumentWrite.of(key, data);
      return expires == null ? write : write.expiresAt(Instant.ofEpochMilli(expires));
    }
  }

  record Used(@Nullable String read, @Nullable String append, @Nullable List<Written> write) {}

  private static Map<String, Object> documents(Task task) {
    Used asked = task.json(Used.class);
    Map<String, Object> heard = new LinkedHashMap<>();
    if (asked.read() != null) {
      Document document = task.readDocument(asked.read());
      Instant expires = document.expiresAt();
      heard.put("data", document.text());
      heard.put("version", String.valueOf(document.version()));
      heard.put("expires_ms", expires == null ? 0 : expires.toEpochMilli());
      if (asked.append() != null) {
        task.writeDocument(document.write(document.text() + asked.append()));
      }
    }
    if (asked.write() != null) {
      asked.write().forEach(written -> task.writeDocument(written.write()));
    }
    return heard;
  }

  record Late(String type, @Nullable String payload, List<UUID> after, @Nullable Boolean any) {}

  private static Object after(Task task) {
    Late asked = task.json(Late.class);
    UUID[] ids = asked.after().toArray(new UUID[0]);
    Child child = Child.of(asked.type()).payload(asked.payload());
    task.spawn(Boolean.TRUE.equals(asked.any()) ? child.afterAny(ids) : child.after(ids));
    return "spawned";
  }

  record Sent(
      String name,
      @Nullable String to,
      @Nullable String type,
      @Nullable String key,
      @JsonProperty("ordering_key") @Nullable String orderingKey,
      @Nullable String id,
      @Nullable String data,
      @Nullable Boolean keep) {}

  private static Object signal(Task task) {
    Sent sent = task.json(Sent.class);
    UUID to = sent.to() == null ? null : UUID.fromString(sent.to());
    UUID id = sent.id() == null ? null : UUID.fromString(sent.id());
    boolean keep = Boolean.TRUE.equals(sent.keep());
    String order = orEmpty(sent.orderingKey());
    task.sendSignal(
        new Signal(
            sent.name(),
            to,
            orEmpty(sent.type()),
            orEmpty(sent.key()),
            order,
            id,
            sent.data(),
            keep));
    return "sent";
  }

  private static String orEmpty(@Nullable String text) {
    return text == null ? "" : text;
  }

  private static Object fan(StepTask task) throws Exception {
    Map<String, Object> heard = new LinkedHashMap<>();
    heard.put("began", task.step("begin", String.class, Conformance::process));
    EndedChildren pages = task.runChildren("page", task.json(Family.class).children());
    heard.put("ended", task.step("end", String.class, Conformance::process));
    heard.put("count", pages.count());
    heard.put("done", pages.done());
    heard.put("failed", pages.failed());
    heard.put("cancelled", pages.cancelled());
    heard.put("ids", idsOf(pages.count(), pages::id));
    return heard;
  }

  private static String process() {
    return String.valueOf(ProcessHandle.current().pid());
  }

  record Spawned(String type, @Nullable String key, @Nullable String payload) {}

  private static String spawn(Task task) {
    Spawned spawned = task.json(Spawned.class);
    String key = spawned.key() == null ? "" : spawned.key();
    task.spawn(Child.of(spawned.type()).key(key).payload(spawned.payload()));
    return "spawned";
  }

  private static List<Object> batch(List<Task> tasks) {
    Object count = String.valueOf(tasks.size());
    List<Object> outcomes = new ArrayList<>(Collections.nCopies(tasks.size(), count));
    for (int i = 0; i < tasks.size(); i++) {
      if (tasks.get(i).text().equals("fail")) {
        outcomes.set(i, new IllegalStateException("asked to"));
      }
    }
    return outcomes;
  }

  private static Object exit(Task task) {
    Runtime.getRuntime().halt(Integer.parseInt(task.text()));
    return "never";
  }
}
