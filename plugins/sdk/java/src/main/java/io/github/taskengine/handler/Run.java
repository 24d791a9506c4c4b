package io.github.taskengine.handler;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.json.Json;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** The task of a handler: a run of the host, and what is sent to the host about it. */
final class Run implements Task {
  private static final long PROGRESS_PAUSE = TimeUnit.MILLISECONDS.toNanos(100);
  private static final int MAX_MESSAGE_BYTES = 8 << 10;
  static final int MAX_CHECKPOINT_BYTES = 1 << 20;
  static final int MAX_DOCUMENT_BYTES = 256 << 10;
  static final int MAX_DOCUMENTS = 16;

  private final Wire.Run run;
  private final Codec codec;
  private final Host host;
  private final Outbox outbox;
  private final long due; // when its time is over, in System.nanoTime
  private final @Nullable Instant deadline; // the same, by the clock of this machine; null if never

  private volatile @Nullable Cancellation cancellation; // written by the event loop
  private volatile boolean over; // what a handler sends from now on is too late
  private volatile boolean stray; // a worker was cut off: nothing that it says counts

  // The newest of what is to be sent, while there is a part in the outbox that takes it.
  private final AtomicReference<Wire.@Nullable Progress> progress = new AtomicReference<>();
  private final AtomicReference<Wire.@Nullable Checkpoint> checkpoint = new AtomicReference<>();

  // Guarded by this.
  private final List<Wire.Child> added = new ArrayList<>(0);
  private final List<Wire.Signal> signals = new ArrayList<>(0);
  private final List<Wire.WriteDocument> documents = new ArrayList<>(0);
  private @Nullable PermanentException flaw; // why what was to be sent with the answer is not
  private final List<Saving> saving = new ArrayList<>(0); // oldest first
  private long checkpoints; // the number of the newest
  private boolean gone; // no answers to checkpoints come

  private final Questions<Wire.Check, Wire.Checked> checks = new Questions<>();
  private final Questions<Wire.ReadDocument, Wire.DocumentRead> reads = new Questions<>();

  // Owned by the event loop.
  private @Nullable Call call; // null while the run waits for others of its batch
  private boolean answered;
  private Wire.@Nullable Checkpoint kept; // the newest that was sent, unless the host has stored it
  private boolean reported; // a progress was sent
  private long reportedAt; // in System.nanoTime

  Run(Wire.Run run, Codec codec, Host host, Outbox outbox) {
    this.run = run;
    this.codec = codec;
    this.host = host;
    this.outbox = outbox;
    // No longer than nanoTime can tell apart.
    long left = Math.min(run.getTimeLeft(), Long.MAX_VALUE / 4000);
    due = System.nanoTime() + TimeUnit.MICROSECONDS.toNanos(left);
    deadline = left == 0 ? null : Instant.now().plus(left, ChronoUnit.MICROS);
  }

  /** The answer, for a node that does not know the run. */
  Wire.Finish earlier(Wire.Finish finish) {
    Wire.Attempt.Builder attempt =
        Wire.Attempt.newBuilder()
            .setTaskId(run.getTaskId())
            .setVersion(run.getVersion())
            .setType(run.getType());
    return finish.toBuilder().setRunId(0).setEarlier(attempt).build();
  }

  long runId() {
    return run.getRunId();
  }

  @Override
  public UUID id() {
    return uuid(run.getTaskId());
  }

  @Override
  public long version() {
    return run.getVersion();
  }

  @Override
  public String type() {
    return run.getType();
  }

  @Override
  public int attempt() {
    return run.getAttempt();
  }

  @Override
  public int crashes() {
    return run.getCrashes();
  }

  @Override
  public int priority() {
    return run.getPriority();
  }

  @Override
  public String key() {
    return run.getKey();
  }

  @Override
  public String orderingKey() {
    return run.getOrderingKey();
  }

  @Override
  public Map<String, String> headers() {
    return run.getHeadersMap();
  }

  @Override
  public Optional<String> traceparent() {
    return Optional.ofNullable(headers().get("traceparent"));
  }

  @Override
  public Optional<Instant> deadline() {
    return Optional.ofNullable(deadline);
  }

  @Override
  public Optional<Duration> timeLeft() {
    return deadline == null
        ? Optional.empty()
        : Optional.of(Duration.ofNanos(Math.max(0, due - System.nanoTime())));
  }

  /** Whether the deadline is over, by the clock of this machine or that of the host. */
  boolean isLate() {
    Cancellation known = cancellation;
    return known != null && known.reason() == Cancellation.Reason.DEADLINE
        || timeLeft().filter(Duration::isZero).isPresent();
  }

  @Override
  public byte[] payload() {
    return run.getPayload().toByteArray();
  }

  @Override
  public String text() {
    if (!run.getPayload().isValidUtf8()) {
      throw new PermanentException("the payload is not UTF-8", "bad_payload");
    }
    return run.getPayload().toStringUtf8();
  }

  @Override
  public <T> T json(Class<T> type) {
    return codec.value(run.getPayload(), type);
  }

  @Override
  public byte[] checkpoint() {
    return run.getCheckpoint().toByteArray();
  }

  @Override
  public void saveCheckpoint(byte[] data) {
    if (data.length > MAX_CHECKPOINT_BYTES) {
      throw new IllegalArgumentException(
          "the checkpoint has " + data.length + " bytes, of " + MAX_CHECKPOINT_BYTES + " allowed");
    }
    if (keepsCheckpoints()) {
      outcome(save(data));
    }
  }

  /** Whether the host keeps checkpoints. */
  boolean keepsCheckpoints() {
    return host.serves(Host.CHECKPOINT);
  }

  /** Waits for what became of a checkpoint, also if the thread is interrupted. */
  private static void outcome(CompletableFuture<String> answer) {
    String why = answer.join();
    if (!why.isEmpty()) {
      throw new NotStoredException(why);
    }
  }

  /** Sends a checkpoint. The outcome is why it is not stored, or empty. */
  CompletableFuture<String> save(byte[] data) {
    CompletableFuture<String> answer = new CompletableFuture<>();
    synchronized (this) {
      if (over || stray || gone) {
        answer.complete("the checkpoint comes too late: the attempt is over");
        return answer;
      }
      checkpoints++;
      saving.add(new Saving(checkpoints, answer));
      Wire.Checkpoint newest =
          Wire.Checkpoint.newBuilder()
              .setRunId(runId())
              .setData(ByteString.copyFrom(data))
              .setNumber(checkpoints)
              .build();
      if (checkpoint.getAndSet(newest) == null) {
        postUnlessAnswered(
            frame -> {
              kept = checkpoint.getAndSet(null);
              frame.checkpoint(kept);
            });
      }
    }
    return answer;
  }

  /** A checkpoint that the host has not answered. */
  private record Saving(long number, CompletableFuture<String> answer) {}

  /**
   * Takes the answer of the host to a checkpoint, and to those before it. It is called on the event
   * loop.
   */
  void stored(Wire.Stored stored) {
    if (kept != null && kept.getNumber() == stored.getNumber()) {
      kept = null; // it need not be sent again
    }
    String why = stored.getError();
    tell(stored.getNumber(), why.isEmpty() ? "" : "the host has not stored the checkpoint: " + why);
  }

  /** Takes the answer of the host to a check. It is called on the event loop. */
  void checked(Wire.Checked checked) {
    checks.answered(checked.getNumber(), checked.getError(), checked);
  }

  /** Takes the answer of the host to a read of a document. It is called on the event loop. */
  void read(Wire.DocumentRead read) {
    reads.answered(read.getNumber(), read.getError(), read);
  }

  /** The questions that are to be sent again when a worker connects again. */
  List<Frame.Part> questions() {
    List<Frame.Part> again = new ArrayList<>();
    checks.open().forEach(check -> again.add(frame -> frame.check(check)));
    reads.open().forEach(read -> again.add(frame -> frame.read(read)));
    return again;
  }

  /** Ends the waits for answers to checkpoints and questions, and takes no more of them. */
  void giveUp(String why) {
    synchronized (this) {
      gone = true;
    }
    tell(Long.MAX_VALUE, "whether the checkpoint is stored is unknown: " + why);
    checks.giveUp(why);
    reads.giveUp(why);
  }

  private void tell(long upTo, String why) {
    List<Saving> answered = new ArrayList<>(0);
    synchronized (this) {
      while (!saving.isEmpty() && saving.get(0).number() <= upTo) {
        answered.add(saving.remove(0));
      }
    }
    answered.forEach(saved -> saved.answer().complete(why));
  }

  @Override
  public Optional<Woken> woken() {
    if (!run.hasWoken()) {
      return Optional.empty();
    }
    Wire.Woken woken = run.getWoken();
    return switch (woken.getBy()) {
      case BY_SIGNAL ->
          Optional.of(
              new Woken(
                  Woken.By.SIGNAL,
                  uuid(woken.getId()),
                  woken.getName(),
                  Instant.EPOCH.plus(woken.getAt(), ChronoUnit.MICROS),
                  woken.getData().toByteArray()));
      case BY_TIMEOUT -> Optional.of(Woken.of(Woken.By.TIMEOUT));
      case BY_USER -> Optional.of(Woken.of(Woken.By.USER));
      case BY_CHILDREN -> Optional.of(Woken.of(Woken.By.CHILDREN));
      default -> Optional.empty();
    };
  }

  static UUID uuid(ByteString id) {
    ByteBuffer bytes = ByteBuffer.wrap(id.toByteArray());
    return new UUID(bytes.getLong(), bytes.getLong());
  }

  /** What makes JSON of values. */
  Json json() {
    return codec.json();
  }

  @Override
  public void progress(long done, long total, String message) {
    if (isMute(Host.PROGRESS)) {
      return;
    }
    Wire.Progress newest =
        Wire.Progress.newBuilder()
            .setRunId(runId())
            .setDone(Math.max(0, done))
            .setTotal(Math.max(0, total))
            .setMessage(Codec.cut(message, MAX_MESSAGE_BYTES))
            .build();
    if (progress.getAndSet(newest) == null) {
      postUnlessAnswered(this::report);
    }
  }

  /** Adds the newest progress when it is due. */
  private void report(Frame frame) {
    long pause = reported ? reportedAt + PROGRESS_PAUSE - System.nanoTime() : 0;
    if (pause > 0) {
      outbox.postIn(pause, later -> unlessAnswered(this::report, later));
      return;
    }
    reported = true;
    reportedAt = System.nanoTime();
    addProgress(frame);
  }

  private void addProgress(Frame frame) {
    Wire.Progress newest = progress.getAndSet(null);
    if (newest != null) {
      frame.progress(newest);
    }
  }

  private void postUnlessAnswered(Frame.Part part) {
    if (!over) {
      outbox.post(frame -> unlessAnswered(part, frame));
    }
  }

  private void unlessAnswered(Frame.Part part, Frame frame) {
    if (!answered && !stray) {
      part.addTo(frame);
    }
  }

  private boolean isMute(String feature) {
    return over || stray || !host.serves(feature);
  }

  @Override
  public Map<String, ChildSet> children() {
    Map<String, ChildSet> sets = new LinkedHashMap<>();
    for (Wire.ChildSet set : run.getChildrenList()) {
      sets.put(set.getName(), new ChildSet(id(), set));
    }
    return sets;
  }

  @Override
  public Optional<Parent> parent() {
    if (!run.hasParent()) {
      return Optional.empty();
    }
    Wire.Parent parent = run.getParent();
    return Optional.of(new Parent(uuid(parent.getTaskId()), parent.getName(), parent.getIndex()));
  }

  @Override
  public void spawn(Child child) {
    if (!child.after().isEmpty()) {
      requireFeature(Host.AFTER, "spawns a task that runs after others");
    }
    Wire.Child spawned = built(child).build();
    synchronized (this) {
      requireRunning("spawn a task");
      added.add(spawned);
    }
  }

  @Override
  public void addChildren(String name, List<Child> children) {
    requireFeature(Host.FAMILY, "adds children that a task learns the ends of");
    String set = named(name);
    List<Wire.Child> all = built(children).stream().map(one -> one.setSet(set).build()).toList();
    synchronized (this) {
      requireRunning("add children");
      added.addAll(all);
    }
  }

  @Override
  public List<Refusal> checkChildren(String name, List<Child> children) {
    return check(named(name), built(children).stream().map(Wire.Child.Builder::build).toList());
  }

  @Override
  public Optional<Refusal> checkSpawn(Child child) {
    if (!child.after().isEmpty() && !host.serves(Host.AFTER)) {
      throw new PermanentException(
          "the host does not support tasks that run after others", "unsupported");
    }
    return check("", List.of(built(child).build())).stream().findFirst();
  }

  private List<Refusal> check(String set, List<Wire.Child> children) {
    if (!host.serves(Host.CHECK)) {
      throw new PermanentException(
          "the host does not say which tasks would be refused", "unsupported");
    }
    if (over || stray) {
      throw new NotCheckedException("the check comes too late: the attempt is over");
    }
    int fit = 0;
    long bytes = 0;
    while (fit < children.size()) {
      bytes += children.get(fit).getSerializedSize();
      if (host.refuses(bytes)) {
        break;
      }
      fit++;
    }
    List<Refusal> all = new ArrayList<>();
    if (fit > 0) {
      List<Wire.Child> asked = children.subList(0, fit);
      Wire.Checked answer =
          checks.ask(
              number ->
                  Wire.Check.newBuilder()
                      .setRunId(runId())
                      .setNumber(number)
                      .setSet(set)
                      .addAllChildren(asked)
                      .build(),
              check -> postUnlessAnswered(frame -> frame.check(check)),
              why ->
                  new NotCheckedException("it is not known which tasks would be refused: " + why));
      answer.getRefusalsList().forEach(refusal -> all.add(refusal(refusal)));
    }
    for (int i = fit; i < children.size(); i++) {
      String why =
          "the tasks that are added have more bytes than the %d that max_result of the type allows"
              .formatted(host.maxResult());
      all.add(new Refusal(i, Refusal.Reason.TOO_LARGE, why, null));
    }
    return all;
  }

  private static Refusal refusal(Wire.Refusal refusal) {
    Refusal.Reason reason =
        switch (refusal.getReason()) {
          case REASON_TOO_LARGE -> Refusal.Reason.TOO_LARGE;
          case REASON_TOO_MANY -> Refusal.Reason.TOO_MANY;
          case REASON_FORBIDDEN -> Refusal.Reason.FORBIDDEN;
          case REASON_BACKLOG -> Refusal.Reason.BACKLOG;
          case REASON_KEY_TAKEN -> Refusal.Reason.KEY_TAKEN;
          case REASON_UNKNOWN_TYPE -> Refusal.Reason.UNKNOWN_TYPE;
          default -> Refusal.Reason.INVALID;
        };
    return new Refusal(
        refusal.getIndex(),
        reason,
        refusal.getMessage(),
        refusal.getTaskId().isEmpty() ? null : uuid(refusal.getTaskId()));
  }

  private static String named(String name) {
    if (name.isEmpty()) {
      throw new IllegalArgumentException("children need a name");
    }
    return Codec.valid("name of children", name);
  }

  private List<Wire.Child.Builder> built(List<Child> children) {
    List<Wire.Child.Builder> all = new ArrayList<>(children.size());
    for (Child child : children) {
      if (!child.key().isEmpty()) {
        throw new IllegalArgumentException("a child that its task learns the end of has no key");
      }
      if (!child.after().isEmpty()) {
        throw new IllegalArgumentException(
            "a child that its task learns the end of runs after no other task");
      }
      all.add(built(child));
    }
    return all;
  }

  @Override
  public void sendSignal(Signal signal) {
    requireFeature(Host.SIGNALS, "sends signals with the end of its attempt");
    Wire.Signal.Builder message =
        Wire.Signal.newBuilder()
            .setType(Codec.valid("type", signal.type()))
            .setKey(Codec.valid("key", signal.key()))
            .setOrderingKey(Codec.valid("ordering key", signal.orderingKey()))
            .setName(Codec.valid("name of a signal", signal.name()))
            .setData(codec.bytes(signal.data(), "the data of a signal"))
            .setKeep(signal.isKept());
    if (signal.to() != null) {
      message.setTaskId(bytes(signal.to()));
    }
    if (signal.id() != null) {
      message.setId(bytes(signal.id()));
    }
    synchronized (this) {
      requireRunning("send a signal");
      signals.add(message.build());
    }
  }

  @Override
  public Document readDocument(String key) {
    if (!host.serves(Host.DOCUMENTS)) {
      throw new PermanentException("the host does not support documents", "unsupported");
    }
    if (over || stray) {
      throw new NotReadException("the read of a document comes too late: the attempt is over");
    }
    String asked = Codec.valid("key of a document", key);
    Wire.DocumentRead answer =
        reads.ask(
            number ->
                Wire.ReadDocument.newBuilder()
                    .setRunId(runId())
                    .setNumber(number)
                    .setKey(asked)
                    .build(),
            read -> postUnlessAnswered(frame -> frame.read(read)),
            why -> new NotReadException("the document \"" + key + "\" was not read: " + why));
    return new Document(
        key,
        answer.getData().toByteArray(),
        answer.getVersion(),
        instant(answer.getCreatedAt()),
        instant(answer.getUpdatedAt()),
        instant(answer.getExpiresAt()));
  }

  private static @Nullable Instant instant(long micros) {
    return micros == 0 ? null : Instant.EPOCH.plus(micros, ChronoUnit.MICROS);
  }

  @Override
  public void writeDocument(DocumentWrite write) {
    requireFeature(Host.DOCUMENTS, "writes documents with the end of its attempt");
    ByteString data = codec.bytes(write.data(), "a document");
    if (data.size() > MAX_DOCUMENT_BYTES) {
      throw new IllegalArgumentException(
          "the document has " + data.size() + " bytes, of " + MAX_DOCUMENT_BYTES + " allowed");
    }
    Wire.WriteDocument.Builder message =
        Wire.WriteDocument.newBuilder()
            .setKey(Codec.valid("key of a document", write.key()))
            .setData(data)
            .setDelete(write.isDeleted());
    if (write.ifVersion() != null) {
      message.setReplaces(write.ifVersion());
    }
    if (write.expiresAt() != null) {
      message.setExpiresAt(Codec.micros(write.expiresAt()));
    }
    synchronized (this) {
      requireRunning("write a document");
      if (documents.size() == MAX_DOCUMENTS) {
        throw new IllegalStateException("an answer writes at most " + MAX_DOCUMENTS + " documents");
      }
      documents.add(message.build());
    }
  }

  private static ByteString bytes(UUID id) {
    ByteBuffer bytes = ByteBuffer.allocate(16);
    bytes.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).flip();
    return ByteString.copyFrom(bytes);
  }

  /** Throws if the host does not serve a feature. The task fails then, also if that is caught. */
  private void requireFeature(String feature, String what) {
    if (host.serves(feature)) {
      return;
    }
    PermanentException why =
        new PermanentException(
            "the handler " + what + ", which this host does not support", "unsupported");
    synchronized (this) {
      flaw = why;
    }
    throw why;
  }

  /** Why what was to be sent with the answer is not; null if nothing is missing. */
  synchronized @Nullable PermanentException flaw() {
    return flaw;
  }

  private Wire.Child.Builder built(Child child) {
    Wire.Child.Builder built =
        Wire.Child.newBuilder()
            .setType(Codec.valid("type", child.type()))
            .setKey(Codec.valid("key", child.key()))
            .setOrderingKey(Codec.valid("ordering key", child.orderingKey()))
            .setPayload(codec.bytes(child.payload(), "the payload of a child"));
    child
        .headers()
        .forEach(
            (name, value) ->
                built.putHeaders(Codec.valid("header", name), Codec.valid("header", value)));
    if (child.runAt() != null) {
      built.setRunAt(Codec.micros(child.runAt()));
    }
    if (child.priority() != null) {
      built.setPriority(child.priority());
    }
    child.after().forEach(id -> built.addAfter(bytes(id)));
    built.setAfterAny(child.isAfterAny());
    return built;
  }

  private void requireRunning(String what) {
    if (over) {
      throw new IllegalStateException("too late to " + what + ": the handler has returned");
    }
  }

  @Override
  public Logger log() {
    return new RunLogger(stray ? 0 : runId(), outbox);
  }

  @Override
  public boolean isCancelled() {
    return cancellation().isPresent();
  }

  @Override
  public Optional<Cancellation> cancellation() {
    Cancellation known = cancellation;
    if (known == null && isLate()) {
      known = new Cancellation(Cancellation.Reason.DEADLINE, "");
    }
    return Optional.ofNullable(known);
  }

  @Override
  public void throwIfCancelled() {
    cancellation()
        .ifPresent(
            why -> {
              throw new CancellationException(why.describe());
            });
  }

  @Override
  public String toString() {
    return "task " + id() + " of type " + type() + ", attempt " + attempt();
  }

  /** Whether the host has asked the run to stop. */
  boolean hasToStop() {
    return cancellation != null;
  }

  /** Sets the call that the run is part of. It is called on the event loop. */
  void begin(Call call) {
    this.call = call;
  }

  /**
   * Asks the handler to stop. It is called on the event loop.
   *
   * @return false if no handler has the run yet
   */
  boolean cancel(Cancellation why) {
    if (cancellation == null) {
      cancellation = why;
    }
    if (call == null) {
      return false;
    }
    call.interruptIfCancelled();
    return true;
  }

  /** Has what the run says count for nothing. It is called on the event loop. */
  void goAstray() {
    stray = true;
  }

  boolean isStray() {
    return stray;
  }

  /**
   * The newest checkpoint that was sent and that the host has not answered; null if there is none.
   * It is called on the event loop.
   */
  Wire.@Nullable Checkpoint checkpointSent() {
    return kept;
  }

  /** Takes no more children, and returns the finish that has them. */
  Wire.Finish.Builder end() {
    Wire.Finish.Builder finish = Wire.Finish.newBuilder().setRunId(runId());
    synchronized (this) {
      over = true;
      finish.addAllChildren(added).addAllSignals(signals).addAllDocuments(documents);
    }
    tell(Long.MAX_VALUE, "whether the checkpoint is stored is unknown: the handler has returned");
    checks.giveUp("the handler has returned");
    reads.giveUp("the handler has returned");
    return finish;
  }

  /** Adds the answer, after all other parts. It is called on the event loop. */
  void answer(Frame frame, Wire.Finish finish) {
    addProgress(frame);
    answered = true;
    frame.finish(finish);
  }
}
