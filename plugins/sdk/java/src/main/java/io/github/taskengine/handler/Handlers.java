package io.github.taskengine.handler;

import io.github.taskengine.json.Json;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.ThreadFactory;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/**
 * A program of task handlers. Its {@code main} says which types it handles, and calls {@link #run}:
 *
 * <pre>{@code
 * new Handlers().on("upper", task -> task.text().toUpperCase()).run();
 * }</pre>
 */
public final class Handlers {
  private static final int DEFAULT_SLOTS = 64;
  private static final int MOST_SLOTS = 1 << 16;

  private final TreeMap<String, Route> routes = new TreeMap<>();
  private String version = "";
  private int slots; // 0 if the program does not say
  private @Nullable ThreadFactory threads;
  private Json json = Json.standard();
  private final List<BiFunction<String, BatchHandler, BatchHandler>> wrappers = new ArrayList<>();

  /** A program without handlers. */
  public Handlers() {}

  /**
   * Serves the tasks of a type.
   *
   * @param type of the tasks
   * @param handler called for each of them
   * @return this program
   */
  public Handlers on(String type, Handler handler) {
    Objects.requireNonNull(handler, "handler");
    return route(type, Route.single(handler));
  }

  /**
   * Serves the tasks of a type, several in one call.
   *
   * @param type of the tasks
   * @param most tasks in a call; no more than there are slots can come together
   * @param wait how long the first of them waits for others
   * @param handler called once there are so many, the first has waited so long, or there is no slot
   *     for another
   * @return this program
   */
  public Handlers onBatch(String type, int most, Duration wait, BatchHandler handler) {
    Objects.requireNonNull(handler, "handler");
    if (most < 1) {
      throw new IllegalArgumentException("a batch of at most " + most + " tasks: give 1 or more");
    }
    return route(type, new Route(most, wait, handler));
  }

  private Handlers route(String type, Route route) {
    if (type.isEmpty()) {
      throw new IllegalArgumentException("a handler needs the type of its tasks");
    }
    if (routes.putIfAbsent(type, route) != null) {
      throw new IllegalArgumentException("there are two handlers of \"" + type + "\"");
    }
    return this;
  }

  /**
   * Says which version of the program this is.
   *
   * @param version shown to people
   * @return this program
   */
  public Handlers version(String version) {
    this.version = Objects.requireNonNull(version, "version");
    return this;
  }

  /**
   * Says how many tasks to run at once unless the host says so. Without it there are 64 slots, or
   * as many as the largest batch has tasks.
   *
   * @param slots 1 to 65536
   * @return this program
   */
  public Handlers slots(int slots) {
    if (slots < 1 || slots > MOST_SLOTS) {
      throw new IllegalArgumentException("slots is " + slots + ": give 1 to " + MOST_SLOTS);
    }
    this.slots = slots;
    return this;
  }

  /**
   * Has tasks run in threads of the program's own kind. Without it they are virtual threads on Java
   * 21 and newer and else daemon threads, which are used again.
   *
   * @param threads makes the threads
   * @return this program
   */
  public Handlers threads(ThreadFactory threads) {
    this.threads = Objects.requireNonNull(threads, "threads");
    return this;
  }

  /**
   * Has JSON read and written in the program's own way.
   *
   * @param json reads payloads and writes results, in place of {@link Json#standard}
   * @return this program
   */
  public Handlers json(Json json) {
    this.json = Objects.requireNonNull(json, "json");
    return this;
  }

  /**
   * Has every call of a handler made by what a function returns for its type and its handler, such
   * as one that does something before and after it. A handler of one task is one of batches with
   * one task here. Of several functions the first is outermost.
   *
   * @param wrapper called once for each type, when the program begins
   * @return this program
   */
  public Handlers wrap(BiFunction<String, BatchHandler, BatchHandler> wrapper) {
    wrappers.add(Objects.requireNonNull(wrapper, "wrapper"));
    return this;
  }

  private SortedMap<String, Route> wrapped() {
    SortedMap<String, Route> all = new TreeMap<>();
    routes.forEach(
        (type, route) -> {
          BatchHandler handler = route.handler();
          for (int i = wrappers.size() - 1; i >= 0; i--) {
            handler = Objects.requireNonNull(wrappers.get(i).apply(type, handler), "wrapper");
          }
          all.put(type, new Route(route.most(), route.patience(), handler));
        });
    return all;
  }

  /**
   * Serves the handlers until the host ends the process or goes away; the program should end then,
   * and is ended soon after. If no host has started the program, it prints what to do and exits
   * with status 1.
   *
   * <p>If no host has started the program and {@code TASKENGINE_ADDRESS} has addresses of nodes,
   * separated by commas, the program is a worker of these nodes until it gets SIGTERM or SIGINT.
   * The variables {@code TASKENGINE_WORKER_HANDLER}, {@code TASKENGINE_WORKER_LABELS} (such as
   * region=eu,disk=fast), {@code TASKENGINE_TOKEN}, {@code TASKENGINE_CA}, {@code
   * TASKENGINE_CLIENT_CERT} and {@code TASKENGINE_CLIENT_KEY} are the rest of its {@link
   * Connection}.
   *
   * <p>Nothing may be printed before. From here on what is printed to the standard output and error
   * goes to the host's log.
   */
  public void run() {
    program().run();
  }

  /**
   * Runs tasks of nodes in this process, as a worker of theirs, until {@link Worker#leave} or until
   * every node has drained it. It connects again when a connection breaks.
   *
   * @param connection says to which nodes
   * @return the worker, which has begun
   * @throws IllegalArgumentException if an address is a URL of http, and there are files of TLS
   */
  public Worker work(Connection connection) {
    Objects.requireNonNull(connection, "connection");
    if (routes.isEmpty()) {
      throw new IllegalStateException("the program has no handler: give it one with on(...)");
    }
    return new Worker(program(), connection.checked());
  }

  Program program() {
    return new Program(
        wrapped(),
        version,
        slots == 0 ? slotsNeeded() : slots,
        Threads.executor(threads),
        new Codec(json));
  }

  private int slotsNeeded() {
    int needed = DEFAULT_SLOTS;
    for (Route route : routes.values()) {
      needed = Math.max(needed, route.most());
    }
    return Math.min(needed, MOST_SLOTS);
  }

  /** How the tasks of a type are passed to their handler. */
  record Route(int most, Duration patience, BatchHandler handler) {
    static Route single(Handler handler) {
      return new Route(1, Duration.ZERO, tasks -> one(handler.handle(tasks.get(0))));
    }

    private static List<@Nullable Object> one(@Nullable Object outcome) {
      return Collections.singletonList(outcome);
    }
  }
}
