package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.github.taskengine.internal.Access;
import io.github.taskengine.internal.Address;
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
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** One node. Any thread may call it. */
final class Node {
  private static final int MOST_RECEIVED = 256 << 20; // bytes
  private static final long DIAL =
      TimeUnit.SECONDS.toNanos(10); // for a connection; other nodes are tried meanwhile

  private final Address address;
  private final Access access;
  private final EventLoopGroup group;
  private final Set<Line> lines = new HashSet<>(); // guarded by this: those that are open
  private @Nullable Line
      line; // guarded by this: that of the next call; opened when it is used first
  private boolean isClosed; // guarded by this
  private @Nullable CompletableFuture<Boolean> probing; // guarded by this: the last probe
  private volatile long heard = System.nanoTime() - Deadline.NEVER; // when it has answered last
  private volatile boolean isSuspect; // it has to answer a probe before it is used
  private volatile boolean isSilent; // a probe had no answer, and it has not answered since
  private volatile String reason = ""; // why there was no connection last

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
    private final long opened = System.nanoTime();
    private volatile boolean hasAnswered;
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
      boolean isSecure = address.isSecure(access);
      line =
          new Line(
              Channels.to(address.target(), isSecure, access, group)
                  .maxInboundMessageSize(MOST_RECEIVED)
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

  /** When the node has answered last, in System.nanoTime. */
  long heard() {
    return heard;
  }

  /** Notes that the node has answered. */
  void hear() {
    heard = System.nanoTime();
    isSilent = false;
  }

  /** Whether it has to answer a probe before it is used. */
  boolean isSuspect() {
    return isSuspect;
  }

  /** Whether a probe had no answer, and the node has not answered since. */
  boolean isSilent() {
    return isSilent;
  }

  /** The address, and why there was no connection last. */
  String described() {
    return reason.isEmpty() ? address() : address() + " (" + reason + ")";
  }

  /** Has a node that does not answer probed before it is used again, and returns the failure. */
  Failure silent() {
    isSilent = true;
    suspect();
    return Failure.unavailable("it takes requests and does not answer", address());
  }

  private void suspect() {
    isSuspect = true;
    probe();
  }

  /**
   * Makes a call that takes so many nanoseconds at most. A node that is silent has a failure of the
   * kind UNAVAILABLE.
   */
  <Q, A> Answer<A> call(MethodDescriptor<Q, A> method, Q request, long nanos, Patience patience)
      throws InterruptedException {
    long begin = System.nanoTime();
    Receiver<A> receiver = start(method, request, nanos);
    Answer<A> answer;
    try {
      answer = await(receiver.answer, begin, patience);
    } catch (InterruptedException e) {
      receiver.cancel("the caller was interrupted");
      throw e;
    }
    if (answer == null) {
      receiver.cancel("the node does not answer");
      return new Answer<>(null, silent());
    }
    if (answer.failure() == null || answer.failure().isAnswer()) {
      hear();
    } else if (answer.failure().kind() == Failure.Kind.DEADLINE_EXCEEDED && heard - begin < 0) {
      suspect();
    }
    return answer;
  }

  /** Waits for an answer, and returns null if the node is silent. */
  private <A> @Nullable Answer<A> await(
      CompletableFuture<Answer<A>> answer, long begin, Patience patience)
      throws InterruptedException {
    while (true) {
      long last = heard - begin > 0 ? heard : begin;
      long rest = Math.max(0, patience.quiet() - (System.nanoTime() - last));
      if (isOver(answer, rest)) {
        return answer.join();
      }
      if (!isAlive(patience.probe(), answer) && !answer.isDone()) {
        return null;
      }
    }
  }

  private static boolean isOver(CompletableFuture<?> future, long nanos)
      throws InterruptedException {
    try {
      future.get(nanos, TimeUnit.NANOSECONDS);
      return true;
    } catch (TimeoutException e) {
      return false;
    } catch (ExecutionException e) {
      throw new IllegalStateException(e);
    }
  }

  /**
   * Probes the node, and returns whether it answers something within so many nanoseconds. It
   * returns early when another future is complete.
   */
  boolean isAlive(long nanos, CompletableFuture<?> other) throws InterruptedException {
    long begin = System.nanoTime();
    CompletableFuture<Boolean> asked = probe();
    isOver(CompletableFuture.anyOf(asked, other), nanos);
    return heard - begin >= 0 || asked.getNow(false);
  }

  /** Asks for the version, unless it is being asked for. Returns whether the node answers. */
  CompletableFuture<Boolean> probe() {
    CompletableFuture<Boolean> asked = new CompletableFuture<>();
    synchronized (this) {
      if (probing != null && !probing.isDone()) {
        return probing;
      }
      probing = asked;
    }
    long begin = System.nanoTime();
    Receiver<Api.VersionResponse> receiver =
        start(Methods.VERSION, Api.VersionRequest.getDefaultInstance(), Patience.MOST_PROBE);
    receiver.answer.thenAccept(answer -> asked.complete(probed(receiver.used, answer, begin)));
    return asked;
  }

  private boolean probed(@Nullable Line used, Answer<?> answer, long begin) {
    Failure failure = answer.failure();
    if (failure == null || failure.isAnswer()) {
      hear();
      isSuspect = false;
      return true;
    }
    boolean isLate = failure.kind() == Failure.Kind.DEADLINE_EXCEEDED;
    reason = isLate ? "it does not answer" : failure.message();
    boolean isOfUse = // a connection that is being made goes on
        isLate
            && used != null
            && (heard - begin >= 0 || !used.hasAnswered && System.nanoTime() - used.opened < DIAL);
    if (!isOfUse) {
      discard();
    }
    return false;
  }

  private <Q, A> Receiver<A> start(MethodDescriptor<Q, A> method, Q request, long nanos) {
    Line used;
    try {
      used = use();
    } catch (IOException | RuntimeException e) {
      Receiver<A> failed = new Receiver<>(null, null);
      failed.answer.complete(
          new Answer<>(null, Failure.unavailable(String.valueOf(e.getMessage()), address())));
      return failed;
    }
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(nanos, TimeUnit.NANOSECONDS);
    ClientCall<Q, A> call = used.call(method, options);
    Receiver<A> receiver = new Receiver<>(used, call);
    call.start(receiver, headers());
    call.request(2); // so that the end comes with the answer
    call.sendMessage(request);
    call.halfClose();
    return receiver;
  }

  /** Takes the answer of a call. */
  private final class Receiver<A> extends ClientCall.Listener<A> {
    private final CompletableFuture<Answer<A>> answer = new CompletableFuture<>();
    private final @Nullable Line used;
    private final @Nullable ClientCall<?, A> call;
    private @Nullable A message;

    Receiver(@Nullable Line used, @Nullable ClientCall<?, A> call) {
      this.used = used;
      this.call = call;
    }

    void cancel(String why) {
      if (call != null) {
        call.cancel(why, null);
      }
    }

    @Override
    public void onHeaders(Metadata headers) {
      if (used != null) {
        used.hasAnswered = true;
      }
    }

    @Override
    public void onMessage(A message) {
      this.message = message;
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      if (used != null) {
        used.release();
      }
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
}
