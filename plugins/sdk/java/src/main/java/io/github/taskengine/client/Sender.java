package io.github.taskengine.client;

import com.google.protobuf.InvalidProtocolBufferException;
import io.github.taskengine.client.internal.Api;
import io.github.taskengine.internal.Daemons;
import io.netty.channel.EventLoop;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * Sends the submissions of a flow to the nodes, over one stream at a time. A thread of its own
 * finds a node and opens a stream. The event loop sends and receives.
 */
final class Sender {
  private static final long SHORTEST_SWEEP = TimeUnit.MILLISECONDS.toNanos(10);
  private static final Failure CLOSED =
      Failure.closed("the client is closed: the task may have been added");

  private final Nodes nodes;
  private final EventLoop loop;
  private final long timeout; // nanoseconds of a request of its own
  private final Flow flow = new Flow(); // owned by the event loop
  private final Queue<Submission> inbox = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean isWoken = new AtomicBoolean(); // a pump is due
  private final Semaphore work = new Semaphore(0); // for the thread
  private final CountDownLatch closed = new CountDownLatch(1);
  private final Set<Node> unary = new HashSet<>(); // owned by the thread: they know no SubmitStream
  private volatile @Nullable Thread thread; // changed by one that holds this

  // Owned by the event loop.
  private @Nullable SubmitStream stream;
  private @Nullable ScheduledFuture<?> sweep;
  private long sweepAt;

  Sender(Nodes nodes, EventLoop loop, long timeout) {
    this.nodes = nodes;
    this.loop = loop;
    this.timeout = timeout;
  }

  /**
   * Throws an IllegalStateException in the thread that completes submissions, which would wait for
   * itself.
   */
  void checkThread() {
    if (loop.inEventLoop()) {
      throw new IllegalStateException(
          "a call that blocks is made in the thread of the client, which completes futures: use a"
              + " method of the future with a name that ends in Async");
    }
  }

  /** Has submissions sent, in their order. */
  void add(List<Submission> submissions) {
    inbox.addAll(submissions);
    wake();
  }

  /** Has a submission sent. */
  void add(Submission submission) {
    inbox.add(submission);
    wake();
  }

  private void wake() {
    if (closed.getCount() == 0) {
      drop();
      return;
    }
    if (thread == null) {
      start();
    }
    if (!isWoken.get() && isWoken.compareAndSet(false, true)) {
      try {
        loop.execute(this::pump);
      } catch (RejectedExecutionException e) {
        drop(); // the client was closed meanwhile
      }
    }
  }

  private void drop() {
    for (Submission s; (s = inbox.poll()) != null; ) {
      s.land(CLOSED);
    }
  }

  private synchronized void start() {
    if (thread == null && closed.getCount() > 0) {
      Thread made = Daemons.named("taskengine-submit-").newThread(this::run);
      made.start();
      thread = made;
    }
  }

  /** Waits for the receipt of a submission of which no one else knows. */
  Receipt await(Submission submission) {
    while (true) {
      try {
        return submission.get(submission.end - System.nanoTime(), TimeUnit.NANOSECONDS);
      } catch (TimeoutException e) {
        submission.land(flow.lateness());
      } catch (InterruptedException e) {
        submission.cancel(false);
        Thread.currentThread().interrupt();
        throw new CallInterruptedException(e);
      } catch (ExecutionException e) {
        ClientException why = (ClientException) e.getCause();
        why.fillInStackTrace(); // that of the caller
        throw why;
      }
    }
  }

  /** Waits for the outcomes of submissions of which no one else knows. */
  List<Outcome> outcomes(List<Submission> submissions) {
    List<Outcome> outcomes = new ArrayList<>(submissions.size());
    for (Submission submission : submissions) {
      try {
        outcomes.add(new Outcome(await(submission), null));
      } catch (CallInterruptedException e) {
        submissions.forEach(s -> s.cancel(false));
        throw e;
      } catch (ClientException e) {
        outcomes.add(new Outcome(null, e));
      }
    }
    return outcomes;
  }

  /** Ends all submissions, and those that come. The connections have to be closed then. */
  void close() throws InterruptedException {
    closed.countDown();
    work.release();
    onLoop(
        () -> {
          drop();
          flow.refuse(CLOSED);
          if (stream != null) {
            stream.cancel();
          }
          return null;
        });
  }

  /** Waits until the thread has ended, which was closed, and whose connections are closed. */
  void join() throws InterruptedException {
    Thread started;
    synchronized (this) {
      started = thread;
    }
    if (started != null) {
      started.join();
    }
  }

  // --- on the event loop

  private void pump() {
    isWoken.set(false);
    if (closed.getCount() == 0) {
      drop();
      return;
    }
    long end = System.nanoTime() + Deadline.NEVER;
    for (Submission s; (s = inbox.poll()) != null; ) {
      flow.add(s);
      end = s.end - end < 0 ? s.end : end;
    }
    sweepBy(end);
    if (stream != null) {
      stream.send();
    } else if (!flow.isEmpty()) {
      work.release();
    }
  }

  /** Ends submissions at the latest soon after a time, if their timeout is over then. */
  private void sweepBy(long end) {
    if (sweep != null && sweepAt - end <= 0) {
      return;
    }
    if (sweep != null) {
      sweep.cancel(false);
    }
    long delay = Math.max(SHORTEST_SWEEP, end - System.nanoTime());
    sweepAt = end;
    sweep = loop.schedule(this::sweep, delay, TimeUnit.NANOSECONDS);
  }

  private void sweep() {
    sweep = null;
    long now = System.nanoTime();
    long next = flow.expire(now);
    if (next - now < Deadline.NEVER) {
      sweepBy(next);
    }
  }

  private <T> T onLoop(Callable<T> call) throws InterruptedException {
    try {
      return loop.submit(call).get();
    } catch (ExecutionException e) {
      throw new IllegalStateException(e);
    }
  }

  private void doOnLoop(Runnable job) throws InterruptedException {
    onLoop(
        () -> {
          job.run();
          return true;
        });
  }

  // --- the thread

  private void run() {
    try {
      Pause pause = new Pause();
      while (awaitWork()) {
        long before = onLoop(flow::answered);
        try {
          serve();
        } catch (RuntimeException e) { // such as headers that cannot be sent
          flow.failed(Failure.ofCode("internal", String.valueOf(e), "", ""));
        }
        if (onLoop(flow::answered) > before) {
          pause.reset();
        }
        closed.await(pause.next(), TimeUnit.NANOSECONDS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // by nothing of this package
    }
  }

  /** Waits until there is something to send, and returns false when the client is closed. */
  private boolean awaitWork() throws InterruptedException {
    while (closed.getCount() > 0) {
      if (!onLoop(flow::isEmpty)) {
        return true;
      }
      work.acquire();
      work.drainPermits();
    }
    return false;
  }

  /** Sends submissions to one node until it cannot. */
  private void serve() throws InterruptedException {
    Node node =
        nodes.pick(
            Deadline.after(Deadline.NEVER),
            Patience.of(Deadline.NEVER, 0, true, Patience.MOST_QUIET),
            false);
    if (node == null) {
      flow.failed(nodes.absent());
    } else if (unary.contains(node)) {
      sendUnary(node);
    } else {
      serveStream(node);
    }
  }

  private void serveStream(Node node) throws InterruptedException {
    Failure failure;
    try {
      failure = stream(node);
    } catch (IOException e) {
      failure = Failure.unavailable(String.valueOf(e.getMessage()), node.address());
    }
    if (failure == null) {
      failure = Failure.unavailable("the node is stopping", node.address());
    }
    Failure why = failure;
    switch (failure.kind()) {
      case UNSUPPORTED -> unary.add(node);
      case INVALID, TOO_LARGE, BACKLOG_FULL ->
          sendUnary(node); // one of them is to blame, which its own request tells
      case NOT_ALLOWED -> doOnLoop(() -> flow.refuse(why));
      default -> {
        nodes.leave(node);
        flow.failed(why);
      }
    }
  }

  /** Sends submissions over a stream until it ends, and returns why; null if the node stops. */
  private @Nullable Failure stream(Node node) throws IOException, InterruptedException {
    SubmitStream opened =
        new SubmitStream(flow, loop, node, node.use(), nodes.hasOthers(), this::pump);
    doOnLoop(
        () -> {
          stream = opened;
          opened.start();
          if (closed.getCount() == 0) {
            opened.cancel();
          }
        });
    try {
      return opened.over().get().failure();
    } catch (ExecutionException e) {
      throw new IllegalStateException(e);
    } finally {
      doOnLoop(
          () -> {
            stream = null;
            flow.endStream();
          });
    }
  }

  /** Sends what is in the queue by requests of their own. */
  private void sendUnary(Node node) throws InterruptedException {
    Deadline deadline = Deadline.after(timeout);
    while (!deadline.isOver() && closed.getCount() > 0) {
      List<Submission> taken = onLoop(flow::take);
      if (taken.isEmpty() || !settle(node, taken)) {
        return;
      }
    }
  }

  /**
   * Sends submissions by one request, or by several if one of them is refused. Returns false if the
   * node does not answer.
   */
  private boolean settle(Node node, List<Submission> taken) throws InterruptedException {
    Api.SubmitRequest request = request(taken);
    Patience patience =
        Patience.of(timeout, request.getSerializedSize(), nodes.hasOthers(), Patience.MOST_QUIET);
    Node.Answer<Api.SubmitResponse> answer = node.call(Methods.SUBMIT, request, timeout, patience);
    Failure failure = answer.failure();
    if (failure == null && answer.message().getReceiptsCount() != taken.size()) {
      failure =
          Failure.ofCode(
              "internal",
              "the answer to %d tasks has %d receipts"
                  .formatted(taken.size(), answer.message().getReceiptsCount()),
              node.address(),
              "");
    }
    if (failure == null) {
      doOnLoop(
          () -> {
            for (int i = 0; i < taken.size(); i++) {
              flow.settle(taken.get(i).sequence, Flow.receiptOf(answer.message().getReceipts(i)));
            }
          });
      return true;
    }
    int half = taken.size() / 2;
    boolean mayBeOne =
        switch (failure.kind()) {
          case INVALID, TOO_LARGE, BACKLOG_FULL -> half > 0;
          default -> false;
        };
    if (mayBeOne) {
      return settle(node, taken.subList(0, half))
          && settle(node, taken.subList(half, taken.size()));
    }
    Failure why = failure;
    doOnLoop(() -> taken.forEach(s -> flow.settle(s.sequence, why)));
    if (failure.kind() == Failure.Kind.UNAVAILABLE) {
      nodes.leave(node);
      return false;
    }
    return true;
  }

  private static Api.SubmitRequest request(List<Submission> taken) {
    Api.SubmitRequest.Builder request = Api.SubmitRequest.newBuilder();
    try {
      for (Submission s : taken) {
        request.addTasks(Api.NewTask.parseFrom(s.message));
      }
    } catch (InvalidProtocolBufferException e) {
      throw new IllegalStateException("a request of this client is not valid", e);
    }
    return request.build();
  }
}
