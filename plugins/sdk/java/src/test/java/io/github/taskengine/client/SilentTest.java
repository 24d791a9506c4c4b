package io.github.taskengine.client;

import static io.github.taskengine.client.TestNode.PATIENCE;
import static io.github.taskengine.client.TestNode.freeAddress;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/**
 * Nodes that take requests and do not answer, and other addresses of no use before a healthy one.
 */
@EnabledIfEnvironmentVariable(named = TestNode.PROGRAM, matches = ".+")
class SilentTest {
  private static final String NONE = "01a2201c-d38d-75b7-b6fe-91647e560a93";

  private interface Act {
    void on(TaskengineClient client) throws Exception;
  }

  private interface Served {
    void by(Socket socket) throws IOException;
  }

  /** A listener whose connections stay open until it is closed, unless they are closed before. */
  private static final class Listener implements AutoCloseable {
    final AtomicInteger taken = new AtomicInteger();
    private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Queue<Socket> sockets = new ConcurrentLinkedQueue<>();

    Listener(Served served) throws IOException {
      Thread thread =
          new Thread(
              () -> {
                try {
                  while (true) {
                    Socket socket = server.accept();
                    sockets.add(socket);
                    taken.incrementAndGet();
                    served.by(socket);
                  }
                } catch (IOException e) {
                  // it is closed
                }
              });
      thread.setDaemon(true);
      thread.start();
    }

    String address() {
      return "127.0.0.1:" + server.getLocalPort();
    }

    @Override
    public void close() throws IOException {
      server.close();
      for (Socket socket : sockets) {
        socket.close();
      }
    }
  }

  /** Makes a call that is made once, and another one if it has failed. */
  private static void twice(Runnable call) {
    try {
      call.run();
    } catch (UnavailableException e) {
      call.run();
    }
  }

  /** Makes calls of each kind. */
  private static void use(TaskengineClient client) {
    client.count(TaskFilter.all().types("idle"));
    Receipt receipt = client.submit(Request.of("idle"));
    client.submitAll(List.of(Request.of("idle")));
    twice(() -> client.cancel(receipt.id(), ""));
    client.await(receipt.id());
  }

  private static void all(Map<String, Act> acts, Map<String, List<String>> addresses)
      throws Exception {
    ExecutorService threads = Executors.newCachedThreadPool();
    Map<String, Future<?>> running = new HashMap<>();
    acts.forEach(
        (name, act) ->
            running.put(
                name,
                threads.submit(
                    () -> {
                      String[] at = addresses.get(name).toArray(String[]::new);
                      try (TaskengineClient client =
                          TaskengineClient.to(at).timeout(PATIENCE).open()) {
                        act.on(client);
                      }
                      return null;
                    })));
    threads.shutdown();
    for (Future<?> one : running.values()) {
      one.get();
    }
  }

  @Test
  void aHealthyNodeIsUsedWhateverTheFirstOneDoes() throws Exception {
    try (TestNode node = new TestNode();
        Listener mute = new Listener(socket -> {});
        Listener ending = new Listener(Socket::close);
        Listener other =
            new Listener(socket -> socket.getOutputStream().write("220 mail\r\n".getBytes()))) {
      Map<String, List<String>> addresses = new HashMap<>();
      Map<String, Act> acts = new HashMap<>();
      for (String first :
          List.of(freeAddress(), mute.address(), ending.address(), other.address())) {
        addresses.put(first, List.of(first, node.address()));
        acts.put(first, SilentTest::use);
      }
      all(acts, addresses);
    }
  }

  @Test
  void aNodeThatHangsIsLeft() throws Exception {
    Map<String, Act> calls = new HashMap<>();
    for (Duration timeout : List.of(Duration.ofSeconds(7), PATIENCE)) {
      calls.put("again " + timeout, c -> c.within(timeout).count(TaskFilter.all()));
      calls.put("submit " + timeout, c -> c.within(timeout).submit(Request.of("idle")));
      calls.put(
          "once " + timeout,
          c ->
              assertThrows(
                  NotFoundException.class, () -> twice(() -> c.within(timeout).cancel(NONE, ""))));
    }
    calls.put(
        "late",
        c ->
            assertThrows(
                DeadlineExceededException.class,
                () -> c.within(Duration.ofMillis(10)).count(TaskFilter.all())));
    Map<String, List<String>> addresses = new HashMap<>();
    Map<String, Lossy> wires = new HashMap<>();
    Map<String, Act> acts = new HashMap<>();
    try (TestNode node = new TestNode()) {
      for (String name : calls.keySet()) {
        Lossy wire = new Lossy(node.address(), List.of());
        wires.put(name, wire);
        addresses.put(name, List.of(wire.address(), node.address()));
        acts.put(
            name,
            client -> {
              use(client);
              wire.stall();
              calls.get(name).on(client);
              use(client);
            });
      }
      all(acts, addresses);
    } finally {
      for (Lossy wire : wires.values()) {
        wire.close();
      }
    }
  }

  @Test
  void aNodeAtWhichACallWaitsIsNotLeft() throws Exception {
    try (TestNode node = new TestNode();
        Listener other = new Listener(socket -> {});
        TaskengineClient client = TaskengineClient.to(node.address(), other.address()).open()) {
      Receipt receipt = client.submit(Request.of("idle"));
      TaskengineClient hasty = client.within(Duration.ofSeconds(9));
      assertThrows(DeadlineExceededException.class, () -> hasty.await(receipt.id()));
      assertEquals(0, other.taken.get());
    }
  }
}
