package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.internal.Daemons;
import io.github.taskengine.internal.Transport;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.util.internal.logging.InternalLoggerFactory;
import io.netty.util.internal.logging.JdkLoggerFactory;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SortedMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.jspecify.annotations.Nullable;

/** A handler process, from the handshake to the exit. */
final class Program implements ServerCallHandler<Wire.ToHandler, Wire.FromHandler> {
  private static final String COOKIE_KEY = "TASKENGINE_HANDLER";
  private static final String COOKIE_VALUE = "1f0d6bb2-handler";
  private static final int HANDSHAKE_VERSION = 1;
  private static final int WINDOW_BYTES = 4 << 20;
  private static final int FIRST_CONTACT = 60; // seconds within which a host must connect
  private static final int LAST_MOMENTS = 2; // seconds for handlers to return without a host

  private static final Logger NETTY_LOG = Logger.getLogger("io.netty.bootstrap");

  private final SortedMap<String, Handlers.Route> routes;
  private final String version;
  private final int slots;
  private final ExecutorService executor;
  private final Codec codec;

  private final AtomicBoolean taken = new AtomicBoolean();
  private final CountDownLatch met = new CountDownLatch(1); // the stream is open
  private final CountDownLatch over = new CountDownLatch(1); // the stream has ended
  private volatile Status status = Status.OK; // of the stream's end
  private volatile @Nullable EventLoop loop;

  Program(
      SortedMap<String, Handlers.Route> routes,
      String version,
      int slots,
      ExecutorService executor,
      Codec codec) {
    this.routes = routes;
    this.version = version;
    this.slots = slots;
    this.executor = executor;
    this.codec = codec;
  }

  SortedMap<String, Handlers.Route> routes() {
    return routes;
  }

  String version() {
    return version;
  }

  int slots() {
    return slots;
  }

  ExecutorService executor() {
    return executor;
  }

  Codec codec() {
    return codec;
  }

  /** How the program presents itself. */
  Wire.Hello hello(int slots) {
    return Wire.Hello.newBuilder()
        .setProtocol(Session.PROTOCOL)
        .setSdk("java")
        .setSdkVersion(Session.SDK_VERSION)
        .setVersion(version)
        .addAllTypes(routes.keySet())
        .setSlots(slots)
        .addAllFeatures(
            List.of(
                Host.PROGRESS, Host.CHECKPOINT, Host.CHILDREN, Host.RERUN, Host.ENDED, Host.WAIT))
        .build();
  }

  void run() {
    boolean isHosted = COOKIE_VALUE.equals(System.getenv(COOKIE_KEY));
    String problem = problem(isHosted);
    if (problem != null) {
      fail(problem);
    }
    try {
      if (!isHosted) {
        work();
        return;
      }
      serve();
    } catch (IOException e) {
      fail("it cannot listen: " + e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Runs tasks of the nodes that the environment names, until the process is asked to end. */
  private void work() throws InterruptedException {
    Connection connection = null;
    try {
      connection = Connection.fromEnvironment(System.getenv());
    } catch (IllegalArgumentException e) {
      fail(e.getMessage());
    }
    Worker worker = new Worker(this, connection);
    Thread ending = new Thread(() -> end(worker), "taskengine-end");
    Runtime.getRuntime().addShutdownHook(ending);
    worker.await();
    try {
      Runtime.getRuntime().removeShutdownHook(ending);
    } catch (IllegalStateException e) { // a signal has come, and the hook ends the process
      ending.join();
    }
    exitSoon();
  }

  /** Ends a process that got a signal, when its tasks are answered. */
  private static void end(Worker worker) {
    worker.leave();
    try {
      worker.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    System.out.flush();
    System.err.flush();
    Runtime.getRuntime().halt(0);
  }

  private @Nullable String problem(boolean isHosted) {
    if (routes.isEmpty()) {
      return "the program has no handler: give it one with on(\"type\", handler) before run()";
    }
    if (!isHosted) {
      return Connection.isNamed(System.getenv())
          ? null
          : "this program handles tasks: name it as a handler's command in the configuration of"
              + " taskengine, which starts it, or set TASKENGINE_ADDRESS to the address of a node,"
              + " host:port, to run as its worker";
    }
    String theirs = System.getenv().getOrDefault("PLUGIN_PROTOCOL_VERSIONS", "");
    if (!Arrays.asList(theirs.split(",")).contains(String.valueOf(Session.PROTOCOL))) {
      return "it speaks version %d of the handler protocol, the host \"%s\""
          .formatted(Session.PROTOCOL, theirs);
    }
    return null;
  }

  private static void fail(String why) {
    System.err.println("taskengine: " + why);
    System.exit(1);
  }

  private void serve() throws IOException, InterruptedException {
    sendPrintsToLog();
    quietLogging();
    Transport transport = Transport.best();
    String directory = System.getenv().getOrDefault("PLUGIN_UNIX_SOCKET_DIR", "/tmp");
    String path = Path.of(directory, "s" + ProcessHandle.current().pid()).toString();
    EventLoopGroup group =
        new MultiThreadIoEventLoopGroup(1, Daemons.named("taskengine-"), transport.io());
    loop = group.next();
    Server server =
        NettyServerBuilder.forAddress(transport.address().apply(path))
            .channelType(transport.channel())
            .bossEventLoopGroup(group)
            .workerEventLoopGroup(group)
            .directExecutor() // a session belongs to the event loop
            .maxInboundMessageSize(Integer.MAX_VALUE)
            .flowControlWindow(WINDOW_BYTES)
            .addService(
                ServerServiceDefinition.builder("taskengine.handler.v1.Handler")
                    .addMethod(method(), this)
                    .build())
            .build()
            .start();
    shakeHands(path);
    if (!met.await(FIRST_CONTACT, TimeUnit.SECONDS)) {
      fail("no host connected within " + FIRST_CONTACT + " s");
    }
    over.await();
    exitSoon();
    executor.shutdown();
    executor.awaitTermination(LAST_MOMENTS, TimeUnit.SECONDS);
    server.shutdownNow();
    if (!status.isOk()) {
      fail(status.getDescription());
    }
  }

  /** The one method of the service. */
  static MethodDescriptor<Wire.ToHandler, Wire.FromHandler> method() {
    return MethodDescriptor.<Wire.ToHandler, Wire.FromHandler>newBuilder()
        .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
        .setFullMethodName("taskengine.handler.v1.Handler/Work")
        .setRequestMarshaller(ProtoUtils.marshaller(Wire.ToHandler.getDefaultInstance()))
        .setResponseMarshaller(ProtoUtils.marshaller(Wire.FromHandler.getDefaultInstance()))
        .build();
  }

  /** Prints to the standard error, since the standard output has the handshake. */
  private static void sendPrintsToLog() {
    System.out.flush();
    FileOutputStream err = new FileOutputStream(FileDescriptor.err);
    PrintStream log = new PrintStream(err, true, StandardCharsets.UTF_8);
    System.setOut(log);
    System.setErr(log);
  }

  /**
   * Has netty log like gRPC: SLF4J would complain of having no provider if there is none. And netty
   * need not warn that gRPC sets an option which only TCP sockets have.
   */
  static void quietLogging() {
    InternalLoggerFactory.setDefaultFactory(JdkLoggerFactory.INSTANCE);
    NETTY_LOG.setLevel(Level.SEVERE);
  }

  private static void shakeHands(String path) throws IOException {
    // Not formatted: the digits of a locale are not those of the handshake.
    String line = HANDSHAKE_VERSION + "|" + Session.PROTOCOL + "|unix|" + path + "|grpc|\n";
    // It is not closed: that would close the standard output.
    new FileOutputStream(FileDescriptor.out).write(line.getBytes(StandardCharsets.UTF_8));
  }

  /** Accepts the stream that the host opens. */
  @Override
  public ServerCall.Listener<Wire.ToHandler> startCall(
      ServerCall<Wire.ToHandler, Wire.FromHandler> call, Metadata headers) {
    if (taken.getAndSet(true)) {
      String why = "a handler process has one stream, and it is open";
      call.close(Status.FAILED_PRECONDITION.withDescription(why), new Metadata());
      return new ServerCall.Listener<>() {};
    }
    met.countDown();
    return new Session(this, call, loop);
  }

  /** Records that the stream has ended; the first status counts. It is called by the session. */
  void over(Status status) {
    if (over.getCount() > 0) {
      this.status = status;
      over.countDown();
    }
  }

  /** Ends the process even if a thread of the program keeps it alive. */
  private static void exitSoon() {
    Thread end =
        new Thread(
            () -> {
              try {
                TimeUnit.SECONDS.sleep(2 * LAST_MOMENTS);
              } catch (InterruptedException e) {
                // then now
              }
              Runtime.getRuntime().halt(0);
            },
            "taskengine-exit");
    end.setDaemon(true);
    end.start();
  }
}
