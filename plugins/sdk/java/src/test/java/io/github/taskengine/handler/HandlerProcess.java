package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.internal.Daemons;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.netty.NettyChannelBuilder;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A real process of the conformance program, and a host of a few lines for it. */
final class HandlerProcess implements AutoCloseable {
  private static final int PATIENCE = 120; // seconds

  private final Process process;
  private final BufferedReader output;
  private final Path errors;
  private final EventLoopGroup group =
      new MultiThreadIoEventLoopGroup(1, Daemons.named("host-"), NioIoHandler.newFactory());
  private final BlockingQueue<Wire.FromHandler> frames = new LinkedBlockingQueue<>();
  private final BlockingQueue<Status> ends = new LinkedBlockingQueue<>();
  private ManagedChannel channel;
  private ClientCall<Wire.ToHandler, Wire.FromHandler> stream;

  static {
    Program.quietLogging();
  }

  /** Starts the program in a directory, with only this in its environment, and Java flags. */
  HandlerProcess(Path directory, Map<String, String> environment, String... flags)
      throws IOException {
    errors = directory.resolve("errors");
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("-XX:TieredStopAtLevel=1"); // starts sooner
    command.addAll(List.of(flags));
    command.add("@" + System.getProperty("taskengine.conformance"));
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors.toFile());
    builder.environment().clear();
    builder.environment().put("PLUGIN_UNIX_SOCKET_DIR", directory.toString());
    builder.environment().putAll(environment);
    process = builder.start();
    output = process.inputReader(StandardCharsets.UTF_8);
  }

  static HandlerProcess started(Path directory, String... flags) throws IOException {
    return new HandlerProcess(
        directory,
        Map.of("TASKENGINE_HANDLER", "1f0d6bb2-handler", "PLUGIN_PROTOCOL_VERSIONS", "1"),
        flags);
  }

  /** Shakes hands and opens the stream. */
  Wire.Hello connect(Wire.Welcome.Builder welcome) throws Exception {
    String[] parts = String.valueOf(output.readLine()).split("\\|", -1);
    assertEquals(6, parts.length, () -> List.of(parts) + ": " + errors());
    assertEquals(List.of("1", "1", "unix"), List.of(parts).subList(0, 3));
    assertEquals(List.of("grpc", ""), List.of(parts).subList(4, 6));
    channel =
        NettyChannelBuilder.forAddress(UnixDomainSocketAddress.of(parts[3]))
            .channelType(NioDomainSocketChannel.class, UnixDomainSocketAddress.class)
            .eventLoopGroup(group)
            .overrideAuthority("handler")
            .maxInboundMessageSize(Integer.MAX_VALUE)
            .usePlaintext()
            .build();
    stream = open();
    stream.sendMessage(
        Wire.ToHandler.newBuilder().setWelcome(welcome.setProtocol(Session.PROTOCOL)).build());
    return next().getHello();
  }

  /** Opens a stream; its frames and its end are seen in this host's. */
  private ClientCall<Wire.ToHandler, Wire.FromHandler> open() {
    ClientCall<Wire.ToHandler, Wire.FromHandler> call =
        channel.newCall(Program.method(), CallOptions.DEFAULT);
    call.start(
        new ClientCall.Listener<>() {
          @Override
          public void onMessage(Wire.FromHandler frame) {
            frames.add(frame);
          }

          @Override
          public void onClose(Status status, Metadata trailers) {
            ends.add(status);
          }
        },
        new Metadata());
    call.request(Integer.MAX_VALUE);
    return call;
  }

  /** The status with which a second stream ends. */
  Status openAnother() throws InterruptedException {
    open();
    return ends.poll(PATIENCE, TimeUnit.SECONDS);
  }

  void say(Wire.ToHandler.Builder frame) {
    stream.sendMessage(frame.build());
  }

  void run(long runId, String type, String payload) {
    say(Wire.ToHandler.newBuilder().addRuns(FakeHost.run(runId, type, payload)));
  }

  Wire.FromHandler next() throws InterruptedException {
    Wire.FromHandler frame = frames.poll(PATIENCE, TimeUnit.SECONDS);
    if (frame == null) {
      fail("nothing came within " + PATIENCE + " s; its errors: " + errors());
    }
    return frame;
  }

  /** The next answer, which is alone in its frame. */
  Wire.Finish finish() throws InterruptedException {
    Wire.FromHandler frame = next();
    assertEquals(1, frame.getFinishesCount(), frame::toString);
    return frame.getFinishes(0);
  }

  void endStream() {
    stream.halfClose();
  }

  /** Goes away without a word. */
  void vanish() {
    group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
  }

  /** Asks it to end, as the system does. */
  void terminate() {
    process.destroy();
  }

  int exitStatus() throws InterruptedException {
    assertTrue(process.waitFor(PATIENCE, TimeUnit.SECONDS), "the process does not exit");
    return process.exitValue();
  }

  /** All that the process wrote to its standard output, but for the handshake; it must end. */
  String output() throws IOException {
    StringBuilder all = new StringBuilder();
    for (String line; (line = output.readLine()) != null; ) {
      all.append(line).append('\n');
    }
    return all.toString();
  }

  String errors() {
    try {
      return Files.readString(errors);
    } catch (IOException e) {
      return e.toString();
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
    if (channel != null) {
      channel.shutdownNow();
    }
    vanish();
  }
}
