package io.github.taskengine.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import tools.jackson.databind.json.JsonMapper;

/** A node in a process of its own, with a store that outlives it. */
final class TestNode implements AutoCloseable {
  /** The environment variable that names the program of a node. Without it, tests are skipped. */
  static final String PROGRAM = "TASKENGINE_PROGRAM";

  /** In this time whatever a test waits for must have happened. */
  static final Duration PATIENCE = Duration.ofSeconds(60);

  /** People log in at a provider that does not answer. */
  private static final String LOGIN =
      """
      ui: {oidc: {issuer: "http://127.0.0.1:1", client_id: te, client_secret: te,
      grants: {ops: {roles: view}}}}
      """;

  private static final String CONFIG =
      """
      node: {log: {format: json}}
      storage: {driver: pebble, path: %s}
      api: {listen: "%s", socket: "%s"%s}
      %s
      admin: {listen: "127.0.0.1:0"}
      handlers:
        echo: {exec: [cat]}
        fail: {exec: ["false"]}
        talk: {exec: [sh, -c, "echo one >&2; echo two >&2"]}
        twice: {exec: [sh, -c, "echo one >&2; echo two >&2; exit 1"]}
      types:
        echo: {handler: echo}
        fail: {handler: fail, retry: {max: 1}}
        full: {handler: echo, max_backlog: 1}
        strict: {handler: echo, unique: {on_conflict: reject}}
        prompt: {handler: echo, max_lateness: 10s}
        limited: {handler: echo, limits: [partner]}
        fetch: {handler: fail}
        talk: {handler: talk}
        twice: {handler: twice, retry: {max: 2}}
        brief: {handler: echo, retention: {done: 0s}, unique: {remember: 1h}}
      workflows:
        say: {steps: {say: {type: echo, payload: {$input: ""}}}, output: {$result: say}}
      limits:
        partner: {max: 2, per: key}
      alerts:
        targets: {hook: {webhook: {url: "http://127.0.0.1:1"}}}
        rules: {late: {when: queue_age, match: never, older_than: 1h}}
      kafka: {main: {brokers: ["127.0.0.1:1"]}}
      sources:
        orders: {kafka: {topics: [orders]}, type: echo}
        shops:
          type: fetch
          slices:
            {interval: 1h, start: 2020-01-01T00:00:00Z, retries: 0, max_open: 4, platforms: [north, south]}
      """;

  private final Path directory = Files.createTempDirectory("te-");
  private String address;
  private String access = ""; // settings of the API
  private String login = ""; // settings of the dashboard
  private String token = "";
  private Process process;

  TestNode() throws Exception {
    this("127.0.0.1:0");
  }

  TestNode(String address) throws Exception {
    this.address = address;
    start();
  }

  /** A node whose clients need tokens. */
  static TestNode guarded() throws Exception {
    TestNode node = new TestNode();
    node.stop();
    String file = node.directory.resolve("tokens.json").toString();
    Process create =
        new ProcessBuilder(
                System.getenv(PROGRAM),
                "token",
                "create",
                "boss",
                "--role",
                "admin",
                "--file",
                file)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    node.token = new String(create.getInputStream().readAllBytes()).trim();
    create.waitFor();
    node.access = ", tokens: \"" + file + "\"";
    node.login = LOGIN;
    node.start();
    return node;
  }

  String address() {
    return address;
  }

  /** Of a guarded node: a token that may do everything. */
  String token() {
    return token;
  }

  /** The path of its socket. */
  String socket() {
    return directory.resolve("s").toString();
  }

  /** Runs the node, at the address that it had before, and returns when it is ready. */
  void start() throws Exception {
    Path config = directory.resolve("taskengine.yaml");
    Path log = directory.resolve("log");
    Files.writeString(
        config, CONFIG.formatted(directory.resolve("data"), address, socket(), access, login));
    process =
        new ProcessBuilder(System.getenv(PROGRAM), "run", "-c", config.toString())
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(log.toFile())
            .start();
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (true) {
      String said = Files.readString(log);
      for (String line : said.substring(0, said.lastIndexOf('\n') + 1).split("\n")) {
        if (line.contains("\"msg\":\"ready\"")) {
          address = JsonMapper.shared().readTree(line).get("api").stringValue();
          return;
        }
      }
      if (!process.isAlive() || System.nanoTime() - end > 0) {
        throw new AssertionError("the node did not start:\n" + said);
      }
      TimeUnit.MILLISECONDS.sleep(5);
    }
  }

  /** Runs the node at another address. */
  void startAt(String address) throws Exception {
    this.address = address;
    start();
  }

  /** Waits until it has ended. */
  void await() throws InterruptedException {
    process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS);
  }

  boolean isRunning() {
    return process.isAlive();
  }

  void kill() {
    process.destroyForcibly().onExit().join();
  }

  /** Has the node end in order. */
  void stop() {
    process.destroy();
    process.onExit().join();
  }

  @Override
  public void close() throws IOException {
    kill();
    try (Stream<Path> files = Files.walk(directory)) {
      List<Path> all = files.sorted(Comparator.reverseOrder()).toList();
      for (Path file : all) {
        Files.delete(file);
      }
    }
  }

  /** An address at which nothing listens. */
  static String freeAddress() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return "127.0.0.1:" + socket.getLocalPort();
    }
  }
}
