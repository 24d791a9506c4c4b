package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.stream.Stream;

/** The calls about tasks with children. Any thread may make them. */
final class Trees {
  private static final int PAGE = 1000; // tasks

  private final Calls calls;
  private final Requests requests;
  private final long timeout;

  Trees(Calls calls, Requests requests, long timeout) {
    this.calls = calls;
    this.requests = requests;
    this.timeout = timeout;
  }

  Receipt submit(Request request, Children children) {
    Request decorated = requests.decorated(request);
    Api.NewTask task = requests.message(decorated);
    Api.SubmitWithChildrenRequest.Builder all =
        Api.SubmitWithChildrenRequest.newBuilder()
            .setTask(task)
            .setName(children.name())
            .setCount(children.count())
            .setOrFailed(children.isOrFailed());
    children.requests().forEach(child -> all.addChildren(requests.child(child)));
    if (children.until() != null) {
      all.setUntil(Times.timestamp(children.until()));
    }
    Api.SubmitWithChildrenResponse answer =
        calls.make(Methods.SUBMIT_WITH_CHILDREN, all.build(), true, timeout);
    Receipt receipt = Flow.receiptOf(answer.getReceipt());
    return Submission.firstOfTwo(receipt, task.getId(), decorated.id() == null);
  }

  Stream<TreeTask> read(String id) {
    Api.TreeRequest request = Api.TreeRequest.newBuilder().setId(id).setLimit(PAGE).build();
    return Page.all(
        token -> {
          Api.TreeRequest next = request.toBuilder().setPageToken(token).build();
          Api.TreeResponse page = calls.make(Methods.TREE, next, true, timeout);
          return Page.of(
              Messages.all(page.getTasksList(), Messages::treeTask), page.getNextPageToken());
        });
  }

  CancelledTree cancel(String id, String reason) {
    Api.CancelRequest request =
        Api.CancelRequest.newBuilder().setId(id).setReason(reason).setTree(true).build();
    Deadline deadline = Deadline.after(timeout);
    long cancelled = 0;
    while (true) {
      Api.CancelResponse part = calls.make(Methods.CANCEL, request, true, deadline.left());
      cancelled += part.getCancelled();
      if (!part.getMore()) {
        return new CancelledTree(Messages.task(part.getTask()), cancelled, part.getMissing());
      }
      if (deadline.isOver()) {
        String why = "the timeout is over, and not all tasks below task " + id + " are cancelled";
        throw Failure.late(why).exception();
      }
    }
  }
}
