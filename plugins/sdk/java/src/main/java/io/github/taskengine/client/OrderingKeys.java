package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.List;
import java.util.stream.Stream;

/** Lists ordering keys and orders them: {@link TaskengineClient#orderingKeys}. */
public final class OrderingKeys {
  private final Calls calls;
  private final long timeout;

  OrderingKeys(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * The ordering keys whose tasks run or wait. Each page of them is a call of its own, which is
   * made when it is needed.
   *
   * @return the keys, in their order
   */
  public Stream<OrderingKey> list() {
    return list(List.of(), false);
  }

  /**
   * Ordering keys whose tasks run or wait. Each page of them is a call of its own, which is made
   * when it is needed.
   *
   * @param states of their heads; none: any, also keys without a head
   * @param behind only keys of which tasks wait behind others
   * @return the keys, in their order
   */
  public Stream<OrderingKey> list(List<String> states, boolean behind) {
    Api.ListKeysRequest request =
        Api.ListKeysRequest.newBuilder().addAllStates(states).setBehind(behind).build();
    return Page.all(
        token -> {
          Api.ListKeysRequest next = request.toBuilder().setPageToken(token).build();
          Api.ListKeysResponse page = calls.make(OperationMethods.LIST_KEYS, next, true, timeout);
          return Page.of(
              Messages.all(page.getKeysList(), OperationMessages::key), page.getNextPageToken());
        });
  }

  /**
   * The tasks of an ordering key that run or wait. The first is the head, unless the first task of
   * the key waits for its time. Each page is a call of its own, which is made when it is needed,
   * and throws a NotFoundException if there is no task.
   *
   * @param key of the tasks
   * @return the tasks without payload and result, in the order in which they run
   */
  public Stream<Task> tasks(String key) {
    return Page.all(
        token -> {
          Api.GetKeyRequest request =
              Api.GetKeyRequest.newBuilder().setKey(key).setPageToken(token).build();
          Api.GetKeyResponse page = calls.make(OperationMethods.GET_KEY, request, true, timeout);
          Stream<Api.Task> head =
              page.hasHead() && token.isEmpty() ? Stream.of(page.getHead()) : Stream.empty();
          List<Task> tasks =
              Stream.concat(head, page.getBehindList().stream()).map(Messages::task).toList();
          return Page.of(tasks, page.getNextPageToken());
        });
  }

  /**
   * Resumes the head of an ordering key that is in the state error and stops the key. The call is
   * not repeated.
   *
   * @param key of the task
   * @return the head
   * @throws NotAllowedException if the head is in another state
   */
  public Task resume(String key) {
    Api.ResumeKeyRequest request = Api.ResumeKeyRequest.newBuilder().setKey(key).build();
    return Messages.task(
        calls.make(OperationMethods.RESUME_KEY, request, false, timeout).getTask());
  }

  /**
   * Ends the head of an ordering key that is in the state error as failed, so that the next task of
   * the key runs. The call is not repeated.
   *
   * @param key of the task
   * @param reason kept as the error of the task; may be empty
   * @return the head
   * @throws NotAllowedException if the head is in another state
   */
  public Task skip(String key, String reason) {
    Api.SkipKeyRequest request =
        Api.SkipKeyRequest.newBuilder().setKey(key).setReason(reason).build();
    return Messages.task(calls.make(OperationMethods.SKIP_KEY, request, false, timeout).getTask());
  }
}
