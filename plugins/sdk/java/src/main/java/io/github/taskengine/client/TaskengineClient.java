package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.github.taskengine.json.JsonException;
import io.github.taskengine.json.JsonType;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Adds tasks to nodes, waits for them and manages them. Any thread may call it.
 *
 * <p>Methods throw a {@link ClientException}, which has a class for each kind of error. A method
 * that has no other timeout takes at most that of the client, with the repetitions of its call.
 */
public final class TaskengineClient implements AutoCloseable {
  private static final long POLL = TimeUnit.SECONDS.toNanos(20); // that a node waits
  private static final int MAX_TOGETHER = 1000; // tasks of a submitAll

  private final Core core;
  private final @Nullable Long given; // nanoseconds that calls may take
  private final long timeout; // likewise, of those that have an end of their own

  TaskengineClient(Core core, @Nullable Long given) {
    this.core = core;
    this.given = given;
    this.timeout = given == null ? core.timeout : given;
  }

  /**
   * Begins a client of nodes that share their tasks. It uses one of them, and another one when that
   * does not answer or stops.
   *
   * @param addresses of their APIs: host:port, unix: and a path, or a URL of http or https
   * @return the options of the client, to be opened
   * @throws InvalidException if an address is none
   */
  public static ClientBuilder to(String... addresses) {
    return new ClientBuilder(addresses);
  }

  /**
   * Begins a client of the nodes that environment variables name. TASKENGINE_ADDRESS has addresses,
   * separated by commas, and TASKENGINE_TOKEN the token. TASKENGINE_CA, TASKENGINE_CLIENT_CERT and
   * TASKENGINE_CLIENT_KEY name files in PEM.
   *
   * @return the options of the client, which may be changed, to be opened
   * @throws InvalidException if TASKENGINE_ADDRESS is not set, or a variable cannot be used
   */
  public static ClientBuilder fromEnvironment() {
    return ClientBuilder.from(System.getenv());
  }

  /**
   * The same client, whose calls take at most another time. To close it closes this one, too.
   *
   * @param timeout of its calls, also of {@link #await} and {@link #result}
   * @return the client
   */
  public TaskengineClient within(Duration timeout) {
    return new TaskengineClient(core, Deadline.nanos(timeout));
  }

  /**
   * Ends the connections. Calls under way throw a ClosedException, and may have been carried out.
   */
  @Override
  public void close() {
    core.close();
  }

  /**
   * The limits.
   *
   * @return what reads and changes them
   */
  public Limits limits() {
    return new Limits(core.calls, timeout);
  }

  /**
   * The schedules.
   *
   * @return what reads and changes them
   */
  public Schedules schedules() {
    return new Schedules(core.calls, timeout);
  }

  /**
   * The sources of tasks.
   *
   * @return what reads and orders them
   */
  public Sources sources() {
    return new Sources(core.calls, timeout);
  }

  /**
   * The sources of time slices and their platforms.
   *
   * @return what reads and orders them
   */
  public Slices slices() {
    return new Slices(core.calls, timeout);
  }

  /**
   * The workflows.
   *
   * @return what adds, reads and retries them
   */
  public Workflows workflows() {
    return new Workflows(core.calls, core.requests, timeout);
  }

  /**
   * The bulk jobs.
   *
   * @return what starts, follows and orders them
   */
  public BulkJobs bulkJobs() {
    return new BulkJobs(core.calls, core.requests, timeout);
  }

  /**
   * The documents.
   *
   * @return what reads and writes them
   */
  public Documents documents() {
    return new Documents(core.calls, core.requests, timeout);
  }

  /**
   * The nodes and their workers.
   *
   * @return what reads and drains them, and has nodes read their configurations again
   */
  public Cluster cluster() {
    return new Cluster(core.calls, timeout);
  }

  /**
   * The tokens of the cluster.
   *
   * @return what manages them
   */
  public Tokens tokens() {
    return new Tokens(core.calls, timeout);
  }

  /**
   * Begins to follow changes of tasks as they are made. Reading them has no timeout.
   *
   * @param filter for them
   * @return the changes, to be closed
   */
  public Events events(EventFilter filter) {
    return new Events(core.calls, filter, timeout);
  }

  /**
   * Begins to read the lines that handlers have logged about a task. Reading them has no timeout.
   *
   * @param id of the task
   * @param filter for the lines
   * @return the lines, to be closed
   */
  public Logs logs(String id, LogFilter filter) {
    return new Logs(core.calls, id, filter, timeout);
  }

  /**
   * The types of tasks.
   *
   * @return what lists and pauses them
   */
  public TaskTypes types() {
    return new TaskTypes(core.calls, timeout);
  }

  /**
   * The ordering keys.
   *
   * @return what lists and orders them
   */
  public OrderingKeys orderingKeys() {
    return new OrderingKeys(core.calls, timeout);
  }

  /**
   * The alerts.
   *
   * @return what lists, silences and tests them
   */
  public Alerts alerts() {
    return new Alerts(core.calls, timeout);
  }

  private Trees trees() {
    return new Trees(core.calls, core.requests, timeout);
  }

  // --- adding tasks

  /**
   * Adds a task, and returns when it is durable. Calls at the same time share messages and commits.
   *
   * <p>If no node answers, it asks again, here or at another address, until the timeout is over.
   * After an UnavailableException, a DeadlineExceededException, a ClosedException or a
   * CallInterruptedException the task may have been added: to find out, submit it again with the
   * same id or key.
   *
   * @param request for the task
   * @return which task it has added
   */
  public Receipt submit(Request request) {
    core.sender.checkThread();
    Submission submission = core.requests.submission(request, timeout);
    core.sender.add(submission);
    return core.sender.await(submission);
  }

  /**
   * Adds a task, and does not wait for it. The caller has to bound how many submits are under way.
   *
   * @param request for the task
   * @return is completed when the task is durable, or exceptionally with what {@link #submit} would
   *     throw. What depends on it runs in the thread of the client, and must not block: for that
   *     there are methods whose names end in Async. If it is cancelled, the task may have been
   *     added
   */
  public CompletableFuture<Receipt> submitAsync(Request request) {
    try {
      Submission submission = core.requests.submission(request, timeout);
      core.sender.add(submission);
      return submission;
    } catch (ClientException e) {
      return CompletableFuture.failedFuture(e);
    }
  }

  /**
   * Adds many tasks, of which each is added or refused by itself.
   *
   * @param requests for the tasks
   * @return what became of each, in their order
   */
  public List<Outcome> submitEach(Collection<Request> requests) {
    core.sender.checkThread();
    List<Submission> submissions = new ArrayList<>(requests.size());
    for (Request request : requests) {
      submissions.add(core.requests.submissionOrFailed(request, timeout));
    }
    core.sender.add(submissions);
    return core.sender.outcomes(submissions);
  }

  /**
   * Adds up to 1000 tasks together: if one of them is refused, none is added. But if a key is taken
   * and its type rejects that, or a task is too late for its type, the other tasks are added: then
   * it throws an {@link AlreadyExistsException} or a {@link LateException}, which has all receipts.
   *
   * @param requests for the tasks
   * @return which tasks they have added, in their order
   */
  public List<Receipt> submitAll(Collection<Request> requests) {
    if (requests.isEmpty()) {
      return List.of();
    }
    if (requests.size() > MAX_TOGETHER) {
      throw Failure.invalid(
              "%d tasks are to be added together, of %d allowed"
                  .formatted(requests.size(), MAX_TOGETHER))
          .exception();
    }
    List<Request> decorated = requests.stream().map(core.requests::decorated).toList();
    Api.SubmitRequest.Builder all = Api.SubmitRequest.newBuilder();
    decorated.forEach(request -> all.addTasks(core.requests.message(request)));
    Api.SubmitResponse answer = core.calls.make(Methods.SUBMIT, all.build(), true, timeout);
    if (answer.getReceiptsCount() != requests.size()) {
      String why =
          "the answer to %d tasks has %d receipts"
              .formatted(requests.size(), answer.getReceiptsCount());
      throw Failure.ofCode("internal", why, "", "").exception();
    }
    List<Receipt> receipts = new ArrayList<>(requests.size());
    for (Request request : decorated) {
      int i = receipts.size();
      Receipt receipt = Flow.receiptOf(answer.getReceipts(i));
      receipts.add(Submission.firstOfTwo(receipt, all.getTasks(i).getId(), request.id() == null));
    }
    for (Receipt receipt : receipts) {
      Failure refusal = Failure.ofRefusal(receipt);
      if (refusal != null) {
        throw refusal.kind() == Failure.Kind.LATE
            ? new LateException(refusal.message(), refusal.code(), "", receipts)
            : new AlreadyExistsException(refusal.message(), refusal.code(), "", receipts);
      }
    }
    return receipts;
  }

  /**
   * Adds a task and children of it, and returns when they are durable. The task runs when the
   * children have ended, at once if there are none. If its key or its id is taken, nothing is
   * added. It is repeated as {@link #submit} is.
   *
   * <p>Up to 10000 children, of 8 MiB, are added all or not at all. More are added in several
   * requests, each with the timeout of the client. If one fails, the task waits for more children:
   * the same call with the same id or key goes on, and {@link #cancelTree} gives it up.
   *
   * @param request for the task, without at and delay
   * @param children of it, and how it waits for them
   * @return which task it has added
   */
  public Receipt submitWithChildren(Request request, Children children) {
    return trees().submit(request, children);
  }

  /**
   * Adds a task whose children are added by later calls: {@link #addChildren} adds more, in any
   * number of calls, and {@link #closeChildren} says that there are no others. All children run
   * when they are added; the task runs when they are closed and have ended, or at the until of the
   * first. If its key or its id is taken, nothing is added, and the receipt is that of the task
   * that has it: a caller that was lost goes on with that. {@link #cancelTree} gives it up.
   *
   * @param request for the task, without at and delay
   * @param first the first children, of which there may be none, without a count and orFailed
   * @return which task it has added
   */
  public Receipt submitOpen(Request request, Children first) {
    return trees().open(request, first);
  }

  /**
   * Adds children to a task of {@link #submitOpen}. Those that the task has already, by their
   * numbers, are not added again: the call may be repeated with the same children. Without children
   * it says how many there are.
   *
   * @param id of the task
   * @param from the number of the first of the children, counted from 0, or how many were added
   *     before
   * @param children of a name
   * @return how many children the task has
   * @throws ChildrenClosedException if they were closed, or the task was woken
   * @throws TaskEndedException if the task has ended
   * @throws TooManyChildrenException if the task would have too many
   * @throws NotAllowedException also if children before from are missing
   */
  public ChildrenAdded addChildren(String id, int from, Children children) {
    return trees().add(id, from, children);
  }

  /**
   * Adds the last children of a task of {@link #submitOpen}, if there are any, and says that there
   * are no others: the task has from and as many as these. It may be repeated, also when the task
   * is done, and throws what {@link #addChildren} does.
   *
   * @param id of the task
   * @param from the number of the first of these children
   * @param last the last children, and how the task waits for all of them: by their count and
   *     orFailed
   * @return how many children the task has
   */
  public ChildrenAdded closeChildren(String id, int from, Children last) {
    return trees().close(id, from, last);
  }

  // --- reading tasks

  /**
   * A task, with its payload and result.
   *
   * @param id of the task
   * @return the task
   */
  public Task get(String id) {
    return get(Api.GetRequest.newBuilder().setId(id).build());
  }

  private Task get(Api.GetRequest request) {
    return Messages.task(core.calls.make(Methods.GET, request, true, timeout).getTask());
  }

  /**
   * The task that has a key, and no ordering key.
   *
   * @param type of the task
   * @param key of the task
   * @return the task
   */
  public Task find(String type, String key) {
    return find(type, key, "");
  }

  /**
   * The task that has a key.
   *
   * @param type of the task
   * @param key of the task
   * @param orderingKey of the task; empty for none
   * @return the task
   */
  public Task find(String type, String key, String orderingKey) {
    return get(
        Api.GetRequest.newBuilder().setType(type).setKey(key).setOrderingKey(orderingKey).build());
  }

  /**
   * Tasks without payload and result, the newest first. Each page of them is a call of its own,
   * which is made when it is needed.
   *
   * @param filter for tasks
   * @return the tasks
   */
  public Stream<Task> tasks(TaskFilter filter) {
    Api.ListRequest request =
        Api.ListRequest.newBuilder()
            .addAllStates(filter.states())
            .addAllTypes(filter.types())
            .setKey(filter.key())
            .build();
    AtomicReference<String> where = new AtomicReference<>(filter.where());
    return Page.all(
        token -> {
          Api.ListRequest next =
              request.toBuilder().setPageToken(token).setWhere(where.get()).build();
          Api.ListResponse page = core.calls.make(Methods.LIST, next, true, timeout);
          where.set(page.getWhere()); // durations in it count from the first page
          return Page.of(
              Messages.all(page.getTasksList(), Messages::task), page.getNextPageToken());
        });
  }

  /**
   * The kinds of errors of tasks. The tasks of one are those of {@link #tasks} with {@code
   * error.kind=...} in the filter.
   *
   * @param filter for tasks
   * @return the kinds, and how many tasks have them
   */
  public ErrorKinds errorKinds(ErrorFilter filter) {
    Api.ListErrorsRequest request =
        Api.ListErrorsRequest.newBuilder()
            .addAllTypes(filter.types())
            .setWhere(filter.where())
            .setLimit(filter.limit())
            .build();
    return Messages.kinds(core.calls.make(Methods.LIST_ERRORS, request, true, timeout));
  }

  /**
   * A task and the tasks below it: its children, their children, and so on. A task comes before its
   * children, which come by their names and indexes. Each page is a call of its own, which is made
   * when it is needed.
   *
   * @param id of the task
   * @return the tasks
   */
  public Stream<TreeTask> tree(String id) {
    return trees().read(id);
  }

  /**
   * How many tasks there are, by state and type; those of zero are left out.
   *
   * @param filter for tasks, whose key is ignored
   * @return the numbers
   * @throws InvalidException if the filter's where selects among more tasks than a node reads to
   *     count them
   */
  public List<StateCount> count(TaskFilter filter) {
    Api.CountRequest request =
        Api.CountRequest.newBuilder()
            .addAllStates(filter.states())
            .addAllTypes(filter.types())
            .setWhere(filter.where())
            .build();
    Api.CountResponse answer = core.calls.make(Methods.COUNT, request, true, timeout);
    if (answer.getPartial()) {
      throw new InvalidException(
          "more tasks than a node reads may be selected: name states, a type or a time in where",
          "invalid_argument",
          "");
    }
    return Messages.all(answer.getCountsList(), Messages::count);
  }

  /**
   * Waits until a task has ended: it is done, error, failed or cancelled. Without {@link #within}
   * it has no timeout. It waits also while no node answers.
   *
   * @param id of the task
   * @return the task
   * @throws NotFoundException if the task does not exist, or its retention is over
   */
  public Task await(String id) {
    Deadline deadline = Deadline.after(given == null ? Deadline.NEVER : given);
    while (true) {
      long poll = Math.max(1, Math.min(POLL, deadline.left()));
      long limit = Math.min(POLL + core.timeout, deadline.left());
      Api.WaitRequest request =
          Api.WaitRequest.newBuilder()
              .addIds(id)
              .setTimeout(Times.duration(Duration.ofNanos(poll)))
              .build();
      ClientException why =
          Failure.late("task " + id + " has not ended, and the timeout is over").exception();
      try {
        if (core.calls.make(Methods.WAIT, request, true, limit).getSettled()) {
          return new TaskengineClient(core, null).get(id);
        }
      } catch (UnavailableException e) {
        why = e;
      } catch (DeadlineExceededException e) {
        // it is asked again
      }
      if (deadline.isOver()) {
        throw why;
      }
    }
  }

  /**
   * Waits for a task as {@link #await} does, and returns its result.
   *
   * @param <T> the type of the value
   * @param id of the task
   * @param type for JSON; byte[] and String are given the result as it is
   * @return the value; null if the result is empty, or null in JSON
   * @throws NotDoneException if the task ended without being done
   * @throws ResultRemovedException if the task is done and its result was removed
   * @throws JsonException if the result is no JSON of the type
   */
  public <T> @Nullable T result(String id, Class<T> type) {
    byte[] result = result(id);
    if (type == byte[].class) {
      return type.cast(result);
    }
    if (type == String.class) {
      return type.cast(new String(result, StandardCharsets.UTF_8));
    }
    return decode(result, type);
  }

  /**
   * Waits for a task as {@link #await} does, and returns its result.
   *
   * @param <T> the type of the value
   * @param id of the task
   * @param type for JSON, such as {@code new JsonType<List<Sent>>() {}}
   * @return the value; null if the result is empty, or null in JSON
   * @throws NotDoneException if the task ended without being done
   * @throws ResultRemovedException if the task is done and its result was removed
   * @throws JsonException if the result is no JSON of the type
   */
  public <T> @Nullable T result(String id, JsonType<T> type) {
    return decode(result(id), type.type());
  }

  @SuppressWarnings("unchecked") // by the contract of Json
  private <T> @Nullable T decode(byte[] result, Type type) {
    return result.length == 0 ? null : (T) core.json.decode(result, type);
  }

  private byte[] result(String id) {
    Task task = await(id);
    if (!task.state().equals("done")) {
      throw new NotDoneException(task.id(), task.state(), task.error());
    }
    if (task.tombstone()) {
      throw new ResultRemovedException(task.id());
    }
    return task.result();
  }

  /**
   * What keeps a task from running.
   *
   * @param id of the task
   * @return the reasons, the nearest first
   */
  public List<Reason> why(String id) {
    Api.WhyRequest request = Api.WhyRequest.newBuilder().setId(id).build();
    return Messages.all(
        core.calls.make(Methods.WHY, request, true, timeout).getReasonsList(), Messages::reason);
  }

  /**
   * How long a task has waited for what.
   *
   * @param id of the task
   * @return the history
   */
  public WaitHistory waitHistory(String id) {
    Api.WhyRequest request = Api.WhyRequest.newBuilder().setId(id).setHistory(true).build();
    return ClusterMessages.waits(core.calls.make(Methods.WHY, request, true, timeout));
  }

  // --- changing tasks

  /**
   * Ends a task as cancelled, whatever its version is. If it is running, its handler is stopped.
   *
   * @param id of the task
   * @param reason for it; may be empty
   * @return the task after the change, without payload and result
   */
  public Task cancel(String id, String reason) {
    return cancel(id, reason, 0);
  }

  /**
   * Ends a task as cancelled. If it is running, its handler is stopped.
   *
   * @param id of the task
   * @param reason for it; may be empty
   * @param version at which the task is to be changed; 0 is any
   * @return the task after the change, without payload and result
   * @throws ConflictException if the task is at another version
   */
  public Task cancel(String id, String reason, long version) {
    Api.CancelRequest request =
        Api.CancelRequest.newBuilder().setId(id).setReason(reason).setVersion(version).build();
    return Messages.task(core.calls.make(Methods.CANCEL, request, false, timeout).getTask());
  }

  /**
   * Cancels a task and all tasks below it that have not ended, whether the task has ended or not.
   * After an error it may be called again, and goes on with the rest.
   *
   * @param id of the task
   * @param reason for it; may be empty
   * @return the task, and how many tasks were cancelled
   */
  public CancelledTree cancelTree(String id, String reason) {
    return trees().cancel(id, reason);
  }

  /**
   * Sends a signal to a task. It is sent again when a node does not answer, and the task gets it
   * once.
   *
   * @param signal to a task
   * @return its effect, and the task
   * @throws NotFoundException if there is no such task
   */
  public Signaled signal(Signal signal) {
    Api.SignalRequest request = core.requests.message(signal);
    Api.SignalResponse answer = core.calls.make(Methods.SIGNAL, request, true, timeout);
    return new Signaled(answer.getOutcome(), Messages.task(answer.getTask()));
  }

  /**
   * Ends a task as failed, whatever its version is. For a task in the state error it acknowledges
   * the error.
   *
   * @param id of the task
   * @param reason for it; may be empty
   * @return the task after the change, without payload and result
   */
  public Task fail(String id, String reason) {
    return fail(id, reason, 0);
  }

  /**
   * Ends a task as failed. For a task in the state error it acknowledges the error.
   *
   * @param id of the task
   * @param reason for it; may be empty
   * @param version at which the task is to be changed; 0 is any
   * @return the task after the change, without payload and result
   * @throws ConflictException if the task is at another version
   */
  public Task fail(String id, String reason, long version) {
    Api.FailRequest request =
        Api.FailRequest.newBuilder().setId(id).setReason(reason).setVersion(version).build();
    return Messages.task(core.calls.make(Methods.FAIL, request, false, timeout).getTask());
  }

  /**
   * Makes a task ready now that waits, or that ended without being done, whatever its version is.
   *
   * @param id of the task
   * @return the task after the change, without payload and result
   */
  public Task resume(String id) {
    return resume(id, 0);
  }

  /**
   * Makes a task ready now that waits, or that ended without being done.
   *
   * @param id of the task
   * @param version at which the task is to be changed; 0 is any
   * @return the task after the change, without payload and result
   * @throws ConflictException if the task is at another version
   */
  public Task resume(String id, long version) {
    Api.ResumeRequest request =
        Api.ResumeRequest.newBuilder().setId(id).setVersion(version).build();
    return Messages.task(core.calls.make(Methods.RESUME, request, false, timeout).getTask());
  }

  /**
   * Sets the time at which a task is due that is not running.
   *
   * @param id of the task
   * @param at the time
   * @param version at which the task is to be changed; 0 is any
   * @return the task after the change, without payload and result
   * @throws ConflictException if the task is at another version
   */
  public Task reschedule(String id, Instant at, long version) {
    return reschedule(id, version, r -> r.setAt(Times.timestamp(at)));
  }

  /**
   * Sets the time at which a task is due that is not running.
   *
   * @param id of the task
   * @param delay until the time, which begins when the node gets the request
   * @param version at which the task is to be changed; 0 is any
   * @return the task after the change, without payload and result
   * @throws ConflictException if the task is at another version
   */
  public Task reschedule(String id, Duration delay, long version) {
    return reschedule(id, version, r -> r.setIn(Times.duration(delay)));
  }

  private Task reschedule(
      String id,
      long version,
      Function<Api.RescheduleRequest.Builder, Api.RescheduleRequest.Builder> when) {
    Api.RescheduleRequest.Builder request =
        Api.RescheduleRequest.newBuilder().setId(id).setVersion(version);
    return Messages.task(
        core.calls.make(Methods.RESCHEDULE, when.apply(request).build(), false, timeout).getTask());
  }

  /**
   * Gives a task other values. It is waiting, submitted or in error, and stays so; its history has
   * the old values.
   *
   * @param id of the task
   * @param values of the task
   * @param by who does so; may be empty
   * @param version at which the task is to be changed; 0 is any
   * @return the task after the change, without payload and result
   * @throws ConflictException if the task is at another version
   */
  public Task set(String id, TaskValues values, String by, long version) {
    Api.SetTaskRequest request =
        Api.SetTaskRequest.newBuilder()
            .setId(id)
            .setValues(core.requests.message(values))
            .setBy(by)
            .setVersion(version)
            .build();
    return Messages.task(core.calls.make(BulkMethods.SET_TASK, request, false, timeout).getTask());
  }

  /**
   * Removes a task that is done, has failed or was cancelled.
   *
   * @param id of the task
   * @param version at which the task is to be removed; 0 is any
   * @return the task as it was, without payload and result
   * @throws ConflictException if the task is at another version
   */
  public Task delete(String id, long version) {
    Api.DeleteTaskRequest request =
        Api.DeleteTaskRequest.newBuilder().setId(id).setVersion(version).build();
    return Messages.task(
        core.calls.make(BulkMethods.DELETE_TASK, request, false, timeout).getTask());
  }
}
