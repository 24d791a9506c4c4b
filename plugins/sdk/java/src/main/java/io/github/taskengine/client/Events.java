package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Queue;

/**
 * Changes of tasks as the nodes make them: {@link TaskengineClient#events}. When its node does not
 * answer, it goes on at another one. To go on later, keep the cursor of the last event that was
 * processed: none is lost without a gap, and an event may come again.
 *
 * <p>One thread reads it. Any thread may close it, which ends its connection.
 */
public final class Events implements Iterator<TaskEvent>, Iterable<TaskEvent>, AutoCloseable {
  private final Following<Api.EventsRequest, Api.EventsResponse, TaskEvent> following;

  Events(Calls calls, EventFilter filter, long timeout) {
    following =
        new Following<>(
            calls, timeout, Methods.EVENTS, new Progress(filter), "the events are closed");
  }

  @Override
  public Iterator<TaskEvent> iterator() {
    return this;
  }

  /** Whether it is open: there is always another event. */
  @Override
  public boolean hasNext() {
    return !following.isClosed();
  }

  /**
   * Waits for the next event, without a timeout.
   *
   * @throws NoSuchElementException if this is closed
   * @throws ClosedException if the client is closed
   */
  @Override
  public TaskEvent next() {
    following.await();
    return following.take();
  }

  /** Ends the connection. A thread that waits for an event gets a NoSuchElementException. */
  @Override
  public void close() {
    following.close();
  }

  /** How far the events are. */
  private static final class Progress
      implements Following.Progress<Api.EventsRequest, Api.EventsResponse, TaskEvent> {
    private Api.EventsRequest request;

    Progress(EventFilter filter) {
      request =
          Api.EventsRequest.newBuilder()
              .setWhere(filter.where())
              .addAllTypes(filter.types())
              .setCursor(filter.cursor())
              .setCatchUp(filter.isCaughtUp())
              .setTimeout(Times.duration(Following.LASTS))
              .build();
    }

    @Override
    public Api.EventsRequest request() {
      return request;
    }

    /** Makes events of an answer. A gap has the cursor from before it. */
    @Override
    public void take(Api.EventsResponse answer, Queue<TaskEvent> items) {
      if (answer.getSilentCount() > 0) {
        items.add(
            new NodesSilent(
                Messages.all(answer.getSilentList(), ClusterMessages::silent),
                request.getCursor()));
      }
      if (answer.hasGap()) {
        Api.EventGap gap = answer.getGap();
        items.add(
            new EventGap(
                gap.hasFrom() ? Times.instant(gap.getFrom()) : null,
                gap.hasUntil() ? Times.instant(gap.getUntil()) : null,
                gap.getText(),
                request.getCursor()));
      }
      for (Api.TaskEvent e : answer.getEventsList()) {
        String cursor = e.getCursor().isEmpty() ? answer.getCursor() : e.getCursor();
        items.add(
            new TaskChange(
                Messages.task(e.getTask()),
                e.hasAt() ? Times.instant(e.getAt()) : null,
                e.getFromStore(),
                cursor));
      }
      request = request.toBuilder().setCursor(answer.getCursor()).build();
    }
  }
}
