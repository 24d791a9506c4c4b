package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.Set;

/**
 * The lines that handlers have logged about a task, the oldest attempt first, as far as the nodes
 * keep them: {@link TaskengineClient#logs}. If lines may be missing, the last entry says which.
 * When its node does not answer, it goes on at another one.
 *
 * <p>One thread reads it. Any thread may close it, which ends its connection.
 */
public final class Logs implements Iterator<LogEntry>, Iterable<LogEntry>, AutoCloseable {
  private final Following<Api.TaskLogsRequest, Api.TaskLogsResponse, LogEntry> following;

  Logs(Calls calls, String id, LogFilter filter, long timeout) {
    following =
        new Following<>(
            calls, timeout, Methods.TASK_LOGS, new Progress(id, filter), "the logs are closed");
  }

  @Override
  public Iterator<LogEntry> iterator() {
    return this;
  }

  /**
   * Waits for the next entry, without a timeout.
   *
   * @return whether there is one
   * @throws NotFoundException if there is neither a task nor a line
   * @throws NoSuchElementException if this is closed
   * @throws ClosedException if the client is closed
   */
  @Override
  public boolean hasNext() {
    return following.await();
  }

  /**
   * Waits for the next entry, without a timeout.
   *
   * @throws NoSuchElementException if there is none, or this is closed
   */
  @Override
  public LogEntry next() {
    if (!hasNext()) {
      throw new NoSuchElementException("there are no more lines");
    }
    return following.take();
  }

  /** Ends the connection. A thread that waits for an entry gets a NoSuchElementException. */
  @Override
  public void close() {
    following.close();
  }

  /** How far the lines are. */
  private static final class Progress
      implements Following.Progress<Api.TaskLogsRequest, Api.TaskLogsResponse, LogEntry> {
    private Api.TaskLogsRequest request;
    private boolean isOver;
    private final Set<Integer> shown = new HashSet<>(); // the attempts of which a line has come

    Progress(String id, LogFilter filter) {
      request =
          Api.TaskLogsRequest.newBuilder()
              .setId(id)
              .setAttempt(filter.attempt())
              .setFollow(filter.isFollowed())
              .setCursor(filter.cursor())
              .setTimeout(Times.duration(Following.LASTS))
              .build();
    }

    @Override
    public Api.TaskLogsRequest request() {
      return request;
    }

    @Override
    public boolean isOver() {
      return isOver;
    }

    @Override
    public void take(Api.TaskLogsResponse answer, Queue<LogEntry> items) {
      int left = answer.getLinesCount();
      for (Api.LogLine line : answer.getLinesList()) {
        shown.add(line.getAttempt());
        left--;
        items.add(
            OperationMessages.line(line, left > 0 ? request.getCursor() : answer.getCursor()));
      }
      request = request.toBuilder().setCursor(answer.getCursor()).build();
      isOver = answer.getComplete();
      if (!isOver) {
        return;
      }
      List<RanElsewhere> elsewhere =
          answer.getElsewhereList().stream()
              .filter(ran -> !shown.contains(ran.getAttempt()))
              .map(OperationMessages::elsewhere)
              .toList();
      List<SilentNode> silent = Messages.all(answer.getSilentList(), ClusterMessages::silent);
      if (!elsewhere.isEmpty() || !silent.isEmpty()) {
        items.add(new MissingLines(elsewhere, silent, answer.getCursor()));
      }
    }
  }
}
