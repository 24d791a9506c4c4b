package io.github.taskengine.handler;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.json.Json;
import io.github.taskengine.json.JsonException;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** The steps of one attempt. */
final class Flow implements StepTask {
  private final Task task;
  private final Json json;
  private final int code; // the version of the code
  private final StepRecord log;

  // Owned by the thread of the handler, and others that it has run steps.
  private volatile int next;
  private volatile boolean running;
  private @Nullable JsonObject failed; // the step that was last; kept when another one begins
  private @Nullable Object stopped; // how the attempt is to end: no step runs any more

  Flow(Task task, Json json, int version, int oldest) {
    this.task = task;
    this.json = json;
    code = version;
    log = StepRecord.read(task.checkpoint(), version);
    if (log.version < oldest) {
      String text =
          "the task began with version %d of the code, and this code knows the steps since"
              + " version %d";
      throw StepRecord.changed(text.formatted(log.version, oldest));
    }
    if (log.version > version) {
      String text =
          "steps: the task began with version %d of the code, and this program has version %d";
      throw new HandlerException(text.formatted(log.version, version), "steps_newer");
    }
  }

  /** Leaves the handler, because its attempt ends with what the flow has stopped with. */
  private static final class Leave extends Error {
    private static final long serialVersionUID = 1L;

    Leave() {
      super("the attempt ends here: let this error pass", null, false, false);
    }
  }

  /** Calls the handler, and returns or throws how the attempt ends. */
  @Nullable Object run(StepHandler handler) throws Exception {
    Object outcome;
    try {
      outcome = handler.handle(this);
    } catch (Throwable thrown) {
      if (stopped != null) {
        return end();
      }
      throw thrown;
    }
    if (stopped != null) { // also if the handler has made something else of it
      return end();
    }
    if (outcome instanceof Again again) {
      return new Again(again.at(), again.result(), again.payload(), renewed(again.checkpoint()));
    }
    if (outcome instanceof WaitFor wait) {
      return wait.withCheckpoint(renewed(wait.checkpoint()));
    }
    if (outcome instanceof WaitForChildren wait) {
      return wait.withCheckpoint(renewed(wait.checkpoint()));
    }
    if (!(outcome instanceof Snooze || outcome instanceof Ended) && next < log.done.size()) {
      String text =
          "the handler has ended after %d steps, and the task has done %d: \"%s\" comes next";
      String name = StepRecord.text(log.done.get(next), "name");
      throw StepRecord.changed(text.formatted(next, log.done.size(), name));
    }
    return outcome;
  }

  /** The checkpoint of the next occurrence of a recurring task. */
  private byte[] renewed(@Nullable Object checkpoint) {
    if (checkpoint != null) {
      String text =
          "steps: the handler asks for a checkpoint, where the results of steps are: use the payload";
      throw new PermanentException(text);
    }
    return new StepRecord(0, log.occurrence + 1).bytes();
  }

  private Object end() throws Exception {
    if (stopped instanceof Exception e) {
      throw e;
    }
    if (stopped instanceof Error e) {
      throw e;
    }
    return stopped;
  }

  @Override
  public @Nullable Object step(String name, Type type, Callable<?> work) throws Exception {
    JsonObject kept = begin("do", name);
    if (kept == null) {
      running = true;
      try {
        keepFailure();
        kept = StepRecord.step("do", name);
        kept.add("result", encode(name, work(name, work)));
        add(kept);
        store(name);
      } finally {
        running = false;
      }
    }
    if (kept.get("error") instanceof JsonObject error) {
      throw new StepException(
          StepRecord.text(error, "message"),
          StepRecord.text(error, "class"),
          StepRecord.isSet(error, "permanent"));
    }
    try {
      String result = StepRecord.result(kept).toString();
      return json.decode(result.getBytes(StandardCharsets.UTF_8), type);
    } catch (JsonException e) {
      String text = "step \"%s\" has a result that is no %s: %s";
      throw stop(StepRecord.changed(text.formatted(name, type.getTypeName(), e.getMessage())));
    }
  }

  private @Nullable Object work(String name, Callable<?> work) throws Exception {
    try {
      return work.call();
    } catch (Throwable thrown) {
      fail(name, thrown);
      throw thrown;
    }
  }

  @Override
  public Woken waitFor(String... names) {
    return await(null, names);
  }

  @Override
  public Woken waitFor(Duration timeout, String... names) {
    return await(timeout, names);
  }

  private Woken await(@Nullable Duration timeout, String... names) {
    String name = String.join(" or ", names);
    WaitFor wait = WaitFor.signal(names);
    JsonObject kept = begin("wait", name);
    if (kept == null) {
      kept = StepRecord.step("wait", name);
      if (timeout != null) {
        kept.addProperty("until", Instant.now().plus(timeout).toString());
        wait = wait.timeout(timeout);
      }
      add(kept);
      throw leave(wait.withCheckpoint(bytes()));
    }
    if (!StepRecord.isSet(kept, "over")) {
      Woken woken = task.woken().orElse(null);
      if (woken == null) { // something else than the end of the wait has made the task ready
        if (kept.has("until")) {
          wait = wait.until(StepRecord.instant(StepRecord.text(kept, "until")));
        }
        throw leave(wait.withCheckpoint(bytes()));
      }
      kept.addProperty("over", true); // the next step stores it: until then the task has it
      kept.add("woken", StepRecord.of(woken));
    }
    return StepRecord.woken(kept.get("woken"));
  }

  @Override
  public EndedChildren runChildren(String name, List<Child> children) {
    JsonObject kept = begin("children", name);
    ChildSet set = task.children().get(name);
    if (set == null) {
      set = new ChildSet(task.id(), Wire.ChildSet.newBuilder().setName(name).build());
    }
    if (kept == null) {
      kept = StepRecord.step("children", name);
      if (!children.isEmpty()) {
        try {
          task.addChildren(name, children);
        } catch (PermanentException e) {
          throw leave(e);
        }
        kept.add("children", StepRecord.counts(children.size(), set.added(), set, null));
        add(kept);
        throw leave(WaitForChildren.of(name).withCheckpoint(bytes()));
      }
      kept.addProperty("over", true); // there is nothing to leave for
      kept.add("children", StepRecord.counts(0, 0, null, null));
      add(kept);
      store(name);
    } else if (!StepRecord.isSet(kept, "over")) {
      JsonObject before = StepRecord.object(kept, "children");
      int first = StepRecord.number(before, "from");
      int count = StepRecord.number(before, "count");
      if (set.added() < first + count) {
        throw leave(new PermanentException("steps: the task has lost its children"));
      }
      if (set.ended() < set.added()) { // a user has resumed it
        throw leave(WaitForChildren.of(name).withCheckpoint(bytes()));
      }
      kept.addProperty("over", true); // the next step stores it: until then the task has it
      kept.add("children", StepRecord.counts(count, first, set, before));
    }
    JsonObject ends = StepRecord.object(kept, "children");
    return new EndedChildren(
        set,
        StepRecord.number(ends, "from"),
        StepRecord.number(ends, "count"),
        StepRecord.number(ends, "done"),
        StepRecord.number(ends, "failed"),
        StepRecord.number(ends, "cancelled"));
  }

  @Override
  public void sleep(Duration delay) {
    JsonObject kept = begin("sleep", "sleep");
    if (kept == null) {
      add(StepRecord.step("sleep", "sleep"));
      throw leave(new Sleep(delay, bytes()));
    }
    kept.addProperty("over", true); // by the clock of the nodes, or because a user wants it
  }

  /** What was kept of the next step, or null if it is not done. */
  private @Nullable JsonObject begin(String kind, String name) {
    if (stopped != null) {
      throw new Leave();
    }
    if (running) {
      String text = "steps: step \"%s\" begins while another runs: steps run one after the other";
      throw leave(new PermanentException(text.formatted(name)));
    }
    Cancellation why = task.cancellation().orElse(null);
    if (why != null) {
      throw leave(new CancellationException(why.describe()));
    }
    int at = next;
    next = at + 1;
    if (at >= log.done.size()) {
      return null;
    }
    JsonObject kept = log.done.get(at);
    String keptName = StepRecord.text(kept, "name");
    String keptKind = StepRecord.text(kept, "kind");
    if (!keptName.equals(name) || !keptKind.equals(kind)) {
      String text =
          "step %d of the task was \"%s\" (%s) when it ran, and is \"%s\" (%s) in the code of version %d:"
              + " steps must come in the same order; raise the version with a change of them";
      String message = text.formatted(at + 1, keptName, keptKind, name, kind, code);
      throw leave(StepRecord.changed(message));
    }
    return kept;
  }

  /** Adds a step behind the one that has failed, if there is one. */
  private void add(JsonObject step) {
    if (failed != null) {
      log.done.add(failed);
      failed = null;
    }
    log.done.add(step);
  }

  /**
   * Stores the step that has failed, if the handler goes on from it: what follows, such as giving
   * money back, is right only as long as it has failed.
   */
  private void keepFailure() {
    JsonObject kept = failed;
    if (kept != null) {
      failed = null;
      log.done.add(kept);
      store(StepRecord.text(kept, "name"));
    }
  }

  private JsonElement encode(String name, @Nullable Object value) {
    try {
      byte[] encoded = value == null ? "null".getBytes(StandardCharsets.UTF_8) : json.encode(value);
      return StepRecord.parse(new String(encoded, StandardCharsets.UTF_8));
    } catch (Exception | StackOverflowError e) { // a value may throw anything while it is encoded
      String text = "steps: the result of step \"%s\" cannot be kept: %s".formatted(name, e);
      throw leave(new PermanentException(text, "bad_result", e instanceof Exception x ? x : null));
    }
  }

  /** Notes that the step that has begun has failed. */
  private void fail(String name, Throwable thrown) {
    if (thrown instanceof Leave) { // of a step in a step
      return;
    }
    if (task.isCancelled()) {
      stopped = thrown;
      return;
    }
    String message = thrown.getMessage();
    String errorClass = Answers.className(thrown.getClass());
    boolean permanent = thrown instanceof PermanentException;
    if (thrown instanceof HandlerException e) {
      errorClass = e.errorClass();
      permanent |= e instanceof StepException step && step.isPermanent();
    }
    JsonObject error = new JsonObject();
    error.addProperty("message", message == null ? thrown.getClass().getSimpleName() : message);
    if (!errorClass.isEmpty()) {
      error.addProperty("class", errorClass);
    }
    if (permanent) {
      error.addProperty("permanent", true);
    }
    failed = StepRecord.step("do", name);
    failed.add("error", error);
  }

  private void store(String name) {
    byte[] bytes;
    try {
      bytes = log.bytes();
    } catch (PermanentException e) {
      String text = "steps: keep step \"%s\": %s".formatted(name, e.getMessage());
      throw leave(new PermanentException(text, e.errorClass()));
    }
    if (task instanceof Run run && !run.keepsCheckpoints()) {
      throw leave(new PermanentException("steps: the host stores no checkpoints", "unsupported"));
    }
    try {
      task.saveCheckpoint(bytes);
    } catch (RuntimeException e) {
      throw stop(e);
    }
  }

  private byte[] bytes() {
    try {
      return log.bytes();
    } catch (PermanentException e) {
      throw leave(e);
    }
  }

  /** Has the attempt end with an error, and returns it. */
  private <E extends RuntimeException> E stop(E how) {
    stopped = how;
    return how;
  }

  /** Has the attempt end in some way, and returns what leaves the handler. */
  private Leave leave(Object how) {
    stopped = how;
    return new Leave();
  }

  @Override
  public String stepKey() {
    return task.id() + "-" + log.occurrence + "-" + (running ? next : next + 1);
  }

  @Override
  public int stepVersion() {
    return log.version;
  }

  // --- the task

  @Override
  public UUID id() {
    return task.id();
  }

  @Override
  public long version() {
    return task.version();
  }

  @Override
  public String type() {
    return task.type();
  }

  @Override
  public int attempt() {
    return task.attempt();
  }

  @Override
  public int crashes() {
    return task.crashes();
  }

  @Override
  public int priority() {
    return task.priority();
  }

  @Override
  public String key() {
    return task.key();
  }

  @Override
  public String orderingKey() {
    return task.orderingKey();
  }

  @Override
  public Map<String, String> headers() {
    return task.headers();
  }

  @Override
  public Optional<String> traceparent() {
    return task.traceparent();
  }

  @Override
  public Optional<Instant> deadline() {
    return task.deadline();
  }

  @Override
  public Optional<Duration> timeLeft() {
    return task.timeLeft();
  }

  @Override
  public byte[] payload() {
    return task.payload();
  }

  @Override
  public String text() {
    return task.text();
  }

  @Override
  public <T> T json(Class<T> type) {
    return task.json(type);
  }

  @Override
  public byte[] checkpoint() {
    return task.checkpoint();
  }

  @Override
  public Optional<Woken> woken() {
    return task.woken();
  }

  @Override
  public void saveCheckpoint(byte[] data) {
    task.saveCheckpoint(data);
  }

  @Override
  public void progress(long done, long total, String message) {
    task.progress(done, total, message);
  }

  @Override
  public void spawn(Child child) {
    task.spawn(child);
  }

  @Override
  public Map<String, ChildSet> children() {
    return task.children();
  }

  @Override
  public Optional<Parent> parent() {
    return task.parent();
  }

  @Override
  public void addChildren(String name, List<Child> children) {
    task.addChildren(name, children);
  }

  @Override
  public List<Refusal> checkChildren(String name, List<Child> children) {
    return task.checkChildren(name, children);
  }

  @Override
  public Optional<Refusal> checkSpawn(Child child) {
    return task.checkSpawn(child);
  }

  @Override
  public void sendSignal(Signal signal) {
    task.sendSignal(signal);
  }

  @Override
  public Document readDocument(String key) {
    return task.readDocument(key);
  }

  @Override
  public void writeDocument(DocumentWrite write) {
    task.writeDocument(write);
  }

  @Override
  public Logger log() {
    return task.log();
  }

  @Override
  public boolean isCancelled() {
    return task.isCancelled();
  }

  @Override
  public Optional<Cancellation> cancellation() {
    return task.cancellation();
  }

  @Override
  public void throwIfCancelled() {
    task.throwIfCancelled();
  }

  @Override
  public String toString() {
    return task.toString();
  }
}
