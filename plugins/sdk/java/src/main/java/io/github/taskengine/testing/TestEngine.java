package io.github.taskengine.testing;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import io.github.taskengine.client.Task;
import io.github.taskengine.client.TaskFilter;
import io.github.taskengine.client.TaskengineClient;
import io.github.taskengine.handler.BatchHandler;
import io.github.taskengine.handler.Connection;
import io.github.taskengine.handler.Handler;
import io.github.taskengine.handler.Handlers;
import io.github.taskengine.handler.Worker;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A node in memory for the tests of a program, with a client of it. Its time stands still until
 * {@link #advance} lets it pass.
 *
 * <pre>{@code
 * try (TestEngine engine = TestEngine.start(Map.of("mail", Map.of("retry", Map.of("max", 3))))) {
 *   engine.handle("mail", this::send);
 *   engine.client().submit(Request.of("mail").payload(new Mail("a@example.org")));
 *   engine.advance(Duration.ofHours(2));
 *   assertEquals("done", engine.only("mail").state());
 * }
 * }</pre>
 *
 * <p>It is the program taskengine, which is looked for in PATH, or is the one that the environment
 * variable TASKENGINE_PROGRAM names. The methods may be called by one thread at a time. They throw
 * an {@link IllegalStateException} if the node refuses what is asked for, or has ended.
 */
public final class TestEngine implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final Gson JSON = new Gson();

  private final Process process;
  private final BufferedWriter questions;
  private final BufferedReader answers;
  private final @Nullable Path file; // of the configuration, if it is ours
  private final List<Worker> workers = new ArrayList<>();
  private final String address;
  private final TaskengineClient client;
  private Instant now;

  private TestEngine(Path config, @Nullable Path file, @Nullable Instant start) throws IOException {
    this.file = file;
    String program = System.getenv("TASKENGINE_PROGRAM");
    List<String> command = new ArrayList<>();
    command.add(program == null || program.isEmpty() ? "taskengine" : program);
    Collections.addAll(command, "testserver", "--config", config.toString());
    if (start != null) {
      Collections.addAll(command, "--at", start.truncatedTo(ChronoUnit.SECONDS).toString());
    }
    process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    questions = process.outputWriter(StandardCharsets.UTF_8);
    answers = process.inputReader(StandardCharsets.UTF_8);
    JsonObject first = answer();
    address = first.get("api").getAsString();
    now = Instant.parse(first.get("now").getAsString());
    client = TaskengineClient.to(address).open();
  }

  /**
   * Starts a node at the time of the machine.
   *
   * @param types the settings of types by name, as in the section types of a configuration, without
   *     handlers
   */
  public static TestEngine start(Map<String, ? extends Map<String, ?>> types) {
    return start(types, null);
  }

  /** Starts a node at some time, or at that of the machine for null. */
  public static TestEngine start(
      Map<String, ? extends Map<String, ?>> types, @Nullable Instant now) {
    Map<String, Object> settings = new HashMap<>();
    types.forEach(
        (type, given) -> {
          Map<String, Object> all = new HashMap<>(given);
          all.put("handler", "test");
          settings.put(type, all);
        });
    Map<String, Object> remote = Map.of("test", Map.of("remote", Map.of()));
    try {
      Path file = Files.createTempFile("taskengine-", ".yaml");
      Files.writeString(file, JSON.toJson(Map.of("handlers", remote, "types", settings)));
      return new TestEngine(file, file, now);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Starts a node at some time.
   *
   * @param config the path of a configuration: its types, limits and schedules are used, and
   *     nothing else of it
   * @param now the time; that of the machine for null
   */
  public static TestEngine start(Path config, @Nullable Instant now) {
    try {
      return new TestEngine(config, null, now);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A client of the node. */
  public TaskengineClient client() {
    return client;
  }

  /** The address of the API of the node. */
  public String address() {
    return address;
  }

  /** The time of the node. */
  public Instant now() {
    return now;
  }

  /** Has a handler handle the tasks of a type. A type that is not handled keeps its tasks. */
  public void handle(String type, Handler handler) {
    serve(new Handlers().on(type, handler), type);
  }

  /** Has a handler of batches handle the tasks of a type. */
  public void handleBatch(String type, int most, Duration wait, BatchHandler handler) {
    serve(new Handlers().onBatch(type, most, wait, handler), type);
  }

  /** Has those of these handlers that are of some types handle tasks. */
  public void serve(Handlers handlers, String... types) {
    for (String type : types) {
      workers.add(handlers.work(Connection.to(address).handler(type)));
      ask(Map.of("worker", type));
    }
  }

  /** Returns when nothing is left to be done at the present time. */
  public void settle() {
    advance(Duration.ZERO);
  }

  /**
   * Lets time pass. The node does what is due meanwhile, each thing at its time. Returns when
   * nothing is left to be done. Handlers take no time: an exception is thrown if one does not
   * return within 10 seconds.
   */
  public void advance(Duration by) {
    advance(by, PATIENCE, false);
  }

  /** Lets time pass without waiting for handlers that run. */
  public void advanceWhileRunning(Duration by) {
    advance(by, PATIENCE, true);
  }

  void advance(Duration by, Duration patience, boolean whileRunning) {
    ask(Map.of("advance", micros(by), "patience", micros(patience), "while_running", whileRunning));
  }

  private static String micros(Duration d) {
    return d.dividedBy(Duration.ofNanos(1000)) + "us";
  }

  /** All tasks in the order of their creation, with payloads and results. */
  public List<Task> tasks() {
    return tasksOf(TaskFilter.all());
  }

  /** The tasks of a type in the order of their creation, with payloads and results. */
  public List<Task> tasks(String type) {
    return tasksOf(TaskFilter.all().types(type));
  }

  private List<Task> tasksOf(TaskFilter filter) {
    settle();
    List<Task> found = new ArrayList<>();
    try (Stream<Task> tasks = client.tasks(filter)) {
      tasks.forEach(task -> found.add(client.get(task.id())));
    }
    Collections.reverse(found);
    return found;
  }

  /** The task of a type of which there must be exactly one; otherwise an AssertionError. */
  public Task only(String type) {
    List<Task> found = tasks(type);
    if (found.size() != 1) {
      throw new AssertionError(
          "there are " + found.size() + " tasks of the type " + type + ", and should be one");
    }
    return found.get(0);
  }

  /** Ends the workers and the node, and forgets its tasks. */
  @Override
  public void close() {
    workers.forEach(Worker::close);
    client.close();
    try {
      questions.close();
      process.waitFor();
      if (file != null) {
        Files.deleteIfExists(file);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }

  private void ask(Map<String, ?> question) {
    try {
      questions.write(JSON.toJson(question) + "\n");
      questions.flush();
    } catch (IOException e) {
      // The node has ended, and does not answer either.
    }
    try {
      now = Instant.parse(answer().get("now").getAsString());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private JsonObject answer() throws IOException {
    String line = answers.readLine();
    if (line == null) {
      throw new IllegalStateException("the node for tests has ended: see its output");
    }
    JsonObject answer = JSON.fromJson(line, JsonObject.class);
    if (answer.has("error")) {
      throw new IllegalStateException(answer.get("error").getAsString());
    }
    return answer;
  }
}
