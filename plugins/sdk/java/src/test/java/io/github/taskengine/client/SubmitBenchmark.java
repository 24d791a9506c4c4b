package io.github.taskengine.client;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntConsumer;

/**
 * Measures how many tasks a client adds in a second, and prints a line of JSON: {@code java
 * @target/submit.args [--way=futures|threads|each] [--in-flight=N] [--tasks=N] [--warm=N] ADDRESS}.
 *
 * <p>It adds tasks before, which do not count, because the JVM compiles what runs often. The node
 * keeps the tasks. cmd/taskengine/e2e has a benchmark that compares the clients: {@code go test
 * ./cmd/taskengine/e2e -run '^$' -bench Clients -benchtime 50000x}
 */
final class SubmitBenchmark {
  private static final byte[] PAYLOAD = ("\"" + "x".repeat(254) + "\"").getBytes();
  private static final Request REQUEST = Request.of("shout").payload(PAYLOAD);

  private final TaskengineClient client;
  private final int inFlight;

  private SubmitBenchmark(TaskengineClient client, int inFlight) {
    this.client = client;
    this.inFlight = inFlight;
  }

  public static void main(String[] args) {
    Map<String, String> given = new HashMap<>();
    String address = "";
    for (String arg : args) {
      if (arg.startsWith("--") && arg.contains("=")) {
        given.put(arg.substring(2, arg.indexOf('=')), arg.substring(arg.indexOf('=') + 1));
      } else {
        address = arg;
      }
    }
    String way = given.getOrDefault("way", "futures");
    int inFlight = Integer.parseInt(given.getOrDefault("in-flight", "512"));
    int each = Integer.parseInt(given.getOrDefault("tasks", "50000")) / inFlight;
    int warm = Integer.parseInt(given.getOrDefault("warm", "50000")) / inFlight;
    try (TaskengineClient client = TaskengineClient.to(address).open()) {
      SubmitBenchmark benchmark = new SubmitBenchmark(client, inFlight);
      IntConsumer run =
          switch (way) {
            case "futures" -> benchmark::futures;
            case "threads" -> benchmark::threads;
            case "each" -> benchmark::each;
            default -> throw new IllegalArgumentException("there is no way " + way);
          };
      run.accept(warm);
      long cpu = cpu();
      long begin = System.nanoTime();
      run.accept(each);
      double seconds = (System.nanoTime() - begin) / 1e9;
      double tasks = (double) each * inFlight;
      System.out.printf(
          "{\"way\":\"%s\",\"in_flight\":%d,\"tasks\":%.0f,\"warm\":%d,\"seconds\":%.3f,"
              + "\"rate\":%.0f,\"cpu_us\":%.2f}%n",
          way,
          inFlight,
          tasks,
          warm * inFlight,
          seconds,
          tasks / seconds,
          (cpu() - cpu) / 1e3 / tasks);
    }
  }

  /** The CPU time of the process in nanoseconds. */
  private static long cpu() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }

  /** Each of so many chains of futures submits one task after the other. */
  private void futures(int each) {
    List<CompletableFuture<Void>> chains = new ArrayList<>();
    for (int i = 0; i < inFlight; i++) {
      CompletableFuture<Void> chain = new CompletableFuture<>();
      chains.add(chain);
      next(chain, each);
    }
    chains.forEach(CompletableFuture::join);
  }

  private void next(CompletableFuture<Void> chain, int left) {
    if (left == 0) {
      chain.complete(null);
      return;
    }
    client
        .submitAsync(REQUEST)
        .whenComplete(
            (receipt, e) -> {
              if (e != null) {
                chain.completeExceptionally(e);
              } else {
                next(chain, left - 1);
              }
            });
  }

  /** Each of so many threads submits one task after the other. */
  private void threads(int each) {
    List<CompletableFuture<Void>> ends = new ArrayList<>();
    for (int i = 0; i < inFlight; i++) {
      CompletableFuture<Void> end = new CompletableFuture<>();
      ends.add(end);
      new Thread(
              () -> {
                for (int n = 0; n < each; n++) {
                  client.submit(REQUEST);
                }
                end.complete(null);
              })
          .start();
    }
    ends.forEach(CompletableFuture::join);
  }

  /** One thread calls submitEach with so many tasks. */
  private void each(int times) {
    for (int i = 0; i < times; i++) {
      client.submitEach(Collections.nCopies(inFlight, REQUEST)).forEach(Outcome::orThrow);
    }
  }
}
