package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.stream.Stream;

/**
 * Starts, follows and orders bulk jobs: {@link TaskengineClient#bulkJobs}. A job goes on without
 * the client. Those that have ended are kept for 30 days.
 */
public final class BulkJobs {
  private final Calls calls;
  private final Requests requests;
  private final long timeout;

  BulkJobs(Calls calls, Requests requests, long timeout) {
    this.calls = calls;
    this.requests = requests;
    this.timeout = timeout;
  }

  /**
   * The filter of tasks by their ids, for {@link BulkOrder#where}.
   *
   * @param ids of the tasks, at most about 200
   * @return the filter
   */
  public static String ids(String... ids) {
    return "id=" + String.join(",", ids);
  }

  /**
   * Says which tasks a bulk job would change now. It changes nothing.
   *
   * @param order of the job
   * @return the tasks
   */
  public BulkPreview preview(BulkOrder order) {
    Api.PreviewBulkJobRequest request =
        Api.PreviewBulkJobRequest.newBuilder().setOrder(requests.message(order)).build();
    return BulkMessages.preview(calls.make(BulkMethods.PREVIEW, request, true, timeout));
  }

  /**
   * Has the nodes change all tasks that a filter selects now, each once. With a name the call is
   * repeated when a node does not answer, and may be made again.
   *
   * @param order of the job
   * @param name of letters, digits, ., - and _; empty: the node makes one of the time
   * @param rate tasks in a second; 0 is as fast as possible
   * @param by who orders it; may be empty
   * @return the job, which {@link #get} follows
   */
  public BulkJob start(BulkOrder order, String name, double rate, String by) {
    Api.StartBulkJobRequest request =
        Api.StartBulkJobRequest.newBuilder()
            .setOrder(requests.message(order))
            .setName(name)
            .setRate(rate)
            .setBy(by)
            .build();
    return BulkMessages.job(
        calls.make(BulkMethods.START, request, !name.isEmpty(), timeout).getJob());
  }

  /**
   * A bulk job.
   *
   * @param name of the job
   * @return the job
   */
  public BulkJob get(String name) {
    Api.GetBulkJobRequest request = Api.GetBulkJobRequest.newBuilder().setName(name).build();
    return BulkMessages.job(calls.make(BulkMethods.GET, request, true, timeout).getJob());
  }

  /**
   * The bulk jobs. Each page of them is a call of its own, which is made when it is needed.
   *
   * @return the jobs without refusals and history, the newest first
   */
  public Stream<BulkJob> list() {
    return Page.all(
        token -> {
          Api.ListBulkJobsResponse page =
              calls.make(
                  BulkMethods.LIST,
                  Api.ListBulkJobsRequest.newBuilder().setPageToken(token).build(),
                  true,
                  timeout);
          return Page.of(
              Messages.all(page.getJobsList(), BulkMessages::job), page.getNextPageToken());
        });
  }

  /**
   * Has a bulk job change no more tasks until {@link #goOn}. Of the tasks that it is at, some may
   * still be changed.
   *
   * @param name of the job
   * @param by who orders it; may be empty
   * @param reason for it; may be empty
   * @return the job
   */
  public BulkJob pause(String name, String by, String reason) {
    Api.PauseBulkJobRequest request =
        Api.PauseBulkJobRequest.newBuilder().setName(name).setBy(by).setReason(reason).build();
    return BulkMessages.job(calls.make(BulkMethods.PAUSE, request, true, timeout).getJob());
  }

  /**
   * Ends a pause.
   *
   * @param name of the job
   * @param by who orders it; may be empty
   * @param reason for it; may be empty
   * @return the job
   */
  public BulkJob goOn(String name, String by, String reason) {
    Api.ContinueBulkJobRequest request =
        Api.ContinueBulkJobRequest.newBuilder().setName(name).setBy(by).setReason(reason).build();
    return BulkMessages.job(calls.make(BulkMethods.CONTINUE, request, true, timeout).getJob());
  }

  /**
   * Changes how fast a bulk job is.
   *
   * @param name of the job
   * @param rate tasks in a second; 0 is as fast as possible
   * @param by who orders it; may be empty
   * @return the job
   */
  public BulkJob setRate(String name, double rate, String by) {
    Api.SetBulkJobRateRequest request =
        Api.SetBulkJobRateRequest.newBuilder().setName(name).setRate(rate).setBy(by).build();
    return BulkMessages.job(calls.make(BulkMethods.SET_RATE, request, true, timeout).getJob());
  }

  /**
   * Ends a bulk job. Tasks that it has changed stay so.
   *
   * @param name of the job
   * @param by who orders it; may be empty
   * @param reason for it; may be empty
   * @return the job
   */
  public BulkJob stop(String name, String by, String reason) {
    Api.StopBulkJobRequest request =
        Api.StopBulkJobRequest.newBuilder().setName(name).setBy(by).setReason(reason).build();
    return BulkMessages.job(calls.make(BulkMethods.STOP, request, true, timeout).getJob());
  }
}
