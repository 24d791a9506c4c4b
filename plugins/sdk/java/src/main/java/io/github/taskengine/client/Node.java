package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.github.taskengine.internal.Access;
import io.github.taskengine.internal.Channels;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.netty.channel.EventLoopGroup;
import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** One node. Any thread may call it. */
final class Node {
  private static final int MOST_RECEIVED = 256 << 20; // bytes
  private static final int KEEP_ALIVE =
      30; // seconds, after which a node whose machine is gone is noticed
  private static final int KEEP_ALIVE_TIMEOUT = 10; // seconds

  private final Address address;
  private final Access access;
  private final EventLoopGroup group;
  private final Set<Line> lines = new HashSet<>(); // guarded by this: those that are open
  private @Nullable Line
      line; // guarded by this: that of the next call; opened when it is used first
  private boolean isClosed; // guarded by this

  /**
   * What a node has answered.
   *
   * @param message the answer; null if there is a failure
   * @param failure why there is no answer
   */
  record Answer<A>(@Nullable A message, @Nullable Failure failure) {}

  Node(Address address, Access access, EventLoopGroup group) {
    this.address = address;
    this.access = access;
    this.group = group;
  }

  String address() {
    return address.given();
  }

  /** A connection, which is open until all that use it have released it. */
  final class Line {
    private final ManagedChannel channel;
    private int users = 1; // guarded by the node: the calls, and the node until it discards it

    Line(ManagedChannel channel) {
      this.channel = channel;
    }

    <Q, A> ClientCall<Q, A> call(MethodDescriptor<Q, A> method, CallOptions options) {
      return channel.newCall(method, options);
    }

    void release() {
      synchronized (Node.this) {
        if (--users > 0) {
          return;
        }
        lines.remove(this);
      }
      channel.shutdownNow();
    }
  }

  /** The headers of a call. */
  Metadata headers() {
    return access.headers();
  }

  /**
   * A connection, to be released.
   *
   * @throws IOException if it cannot be made
   */
  synchronized Line use() throws IOException {
    if (isClosed) {
      throw new IOException("the client is closed");
    }
    if (line == null) {
      boolean isSecure = address.isSecure() || access.needsTls() && !address.isPlain();
      line =
          new Line(
              Channels.to(address.target(), isSecure, access, group)
                  .maxInboundMessageSize(MOST_RECEIVED)
                  .keepAliveTime(KEEP_ALIVE, TimeUnit.SECONDS)
                  .keepAliveTimeout(KEEP_ALIVE_TIMEOUT, TimeUnit.SECONDS)
                  .userAgent("taskengine-client")
                  .build());
      lines.add(line);
    }
    line.users++;
    return line;
  }

  /**
   * Has the next call made over a new connection, without the pause that the library makes after a
   * connection has failed. Calls under way go on.
   */
  void discard() {
    Line old;
    synchronized (this) {
      old = line;
      line = null;
    }
    if (old != null) {
      old.release();
    }
  }

  /** Ends the calls under way. */
  void close() {
    Set<Line> open;
    synchronized (this) {
      isClosed = true;
      open = Set.copyOf(lines);
    }
    open.forEach(l -> l.channel.shutdownNow());
  }

  /** Makes a call that takes so many nanoseconds at most. */
  <Q, A> Answer<A> call(MethodDescriptor<Q, A> method, Q request, long nanos)
      throws InterruptedException {
    Line used;
    try {
      used = use();
    } catch (IOException | RuntimeException e) {
      return new Answer<>(null, Failure.unavailable(String.valueOf(e.getMessage()), address()));
    }
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(nanos, TimeUnit.NANOSECONDS);
    ClientCall<Q, A> call = used.call(method, options);
    Receiver<A> receiver = new Receiver<>(used);
    call.start(receiver, headers());
    call.request(2); // so that the end comes with the answer
    call.sendMessage(request);
    call.halfClose();
    try {
      return receiver.answer.get();
    } catch (InterruptedException e) {
      call.cancel("the caller was interrupted", e);
      throw e;
    } catch (ExecutionException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Takes the answer of a call. */
  private final class Receiver<A> extends ClientCall.Listener<A> {
    private final CompletableFuture<Answer<A>> answer = new CompletableFuture<>();
    private final Line used;
    private @Nullable A message;

    Receiver(Line used) {
      this.used = used;
    }

    @Override
    public void onMessage(A message) {
      this.message = message;
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      used.release();
      if (status.isOk() && message == null) {
        answer.complete(
            new Answer<>(
                null, Failure.ofCode("internal", "the node has answered nothing", address(), "")));
      } else if (status.isOk()) {
        answer.complete(new Answer<>(message, null));
      } else {
        answer.complete(new Answer<>(null, Failure.ofStatus(status, trailers, address())));
      }
    }
  }

  /** Asks for something that changes nothing. Returns why the node does not answer, or null. */
  @Nullable Failure probe(long nanos) throws InterruptedException {
    Failure failure =
        call(Methods.VERSION, Api.VersionRequest.getDefaultInstance(), nanos).failure();
    return failure == null || failure.isAnswer() ? null : failure;
  }
}
