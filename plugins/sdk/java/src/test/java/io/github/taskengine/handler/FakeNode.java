package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.fail;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.internal.Daemons;
import io.github.taskengine.internal.Transport;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A node that says what a test has it say. */
final class FakeNode implements AutoCloseable {
  private static final long PATIENCE = TimeUnit.SECONDS.toNanos(60);

  final List<Line> lines = new CopyOnWriteArrayList<>();
  private final Path directory = Files.createTempDirectory("te-");
  private final EventLoopGroup group;
  private final Server server;

  FakeNode() throws IOException {
    Program.quietLogging();
    Transport transport = Transport.best();
    group = new MultiThreadIoEventLoopGroup(1, Daemons.named("node-"), transport.io());
    server =
        NettyServerBuilder.forAddress(transport.address().apply(path()))
            .channelType(transport.channel())
            .bossEventLoopGroup(group)
            .workerEventLoopGroup(group)
            .addService(
                ServerServiceDefinition.builder("taskengine.handler.v1.Workers")
                    .addMethod(WorkerStream.WORK, ServerCalls.asyncBidiStreamingCall(this::work))
                    .build())
            .build()
            .start();
  }

  private String path() {
    return directory.resolve("s").toString();
  }

  String address() {
    return "unix:" + path();
  }

  private StreamObserver<Wire.FromHandler> work(StreamObserver<Wire.ToHandler> out) {
    Line line = new Line(out);
    lines.add(line);
    return line;
  }

  /** The n-th stream, once its offer has come. */
  Line line(int n) throws Exception {
    until(() -> lines.size() > n && lines.get(n).frames().size() > 0);
    return lines.get(n);
  }

  static void until(Callable<Boolean> holds) throws Exception {
    for (long end = System.nanoTime() + PATIENCE; !holds.call(); TimeUnit.MILLISECONDS.sleep(1)) {
      if (System.nanoTime() - end > 0) {
        fail("it does not happen");
      }
    }
  }

  @Override
  public void close() throws IOException {
    server.shutdownNow();
    group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    Files.deleteIfExists(Path.of(path()));
    Files.delete(directory);
  }

  /** A stream of a worker, as a node has it. */
  static final class Line implements StreamObserver<Wire.FromHandler> {
    private final StreamObserver<Wire.ToHandler> out;
    private final List<Wire.FromHandler> frames = new ArrayList<>(); // guarded by this

    Line(StreamObserver<Wire.ToHandler> out) {
      this.out = out;
    }

    @Override
    public synchronized void onNext(Wire.FromHandler frame) {
      frames.add(frame);
    }

    @Override
    public void onError(Throwable broken) {}

    @Override
    public void onCompleted() {}

    synchronized List<Wire.FromHandler> frames() {
      return List.copyOf(frames);
    }

    Wire.Offer offer() {
      return frames().get(0).getOffer();
    }

    /** All that came, in one frame. */
    Wire.FromHandler all() {
      Wire.FromHandler.Builder all = Wire.FromHandler.newBuilder();
      frames().forEach(all::mergeFrom);
      return all.build();
    }

    int credits() {
      return frames().stream().mapToInt(Wire.FromHandler::getCredits).sum();
    }

    List<Long> finishes() {
      return all().getFinishesList().stream()
          .filter(f -> !f.hasEarlier())
          .map(Wire.Finish::getRunId)
          .toList();
    }

    /** The versions of the attempts of sessions before that were answered. */
    List<Long> earlier() {
      return all().getFinishesList().stream()
          .filter(f -> f.hasEarlier() && f.getRunId() == 0 && f.getEarlier().getType().equals("x"))
          .map(f -> f.getEarlier().getVersion())
          .toList();
    }

    void say(Consumer<Wire.ToHandler.Builder> content) {
      Wire.ToHandler.Builder frame = Wire.ToHandler.newBuilder();
      content.accept(frame);
      out.onNext(frame.build());
    }

    void welcome(Consumer<Wire.Welcome.Builder> content) {
      Wire.Welcome.Builder welcome =
          Wire.Welcome.newBuilder()
              .setProtocol(1)
              .setHost("node 1")
              .setName("h")
              .setSlots(2)
              .setReconnect(TimeUnit.MINUTES.toMicros(1))
              .addAllFeatures(List.of("checkpoint", "progress"));
      content.accept(welcome);
      say(frame -> frame.setWelcome(welcome));
    }

    void run(long... runIds) {
      for (long runId : runIds) {
        say(
            frame ->
                frame.addRuns(
                    Wire.Run.newBuilder()
                        .setRunId(runId)
                        .setVersion(10 + runId)
                        .setTaskId(ByteString.copyFrom(new byte[16]))
                        .setType("x")));
      }
    }

    /** Ends the stream as a network that breaks does. */
    void breaks() {
      out.onError(Status.UNAVAILABLE.withDescription("the network is gone").asException());
    }

    /** Ends the stream in order. */
    void end() {
      out.onCompleted();
    }
  }
}
