package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The calls about tasks with children. Any thread may make them. */
final class Trees {
  private static final int PAGE = 1000; // tasks
  private static final int PART = 10_000; // children in a request
  private static final int PART_BYTES = 8 << 20; // likewise, give or take one child

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
    List<Api.NewTask> all = children.requests().stream().map(requests::child).toList();
    List<Api.NewTask> part = partOf(all);
    Api.SubmitWithChildrenRequest.Builder first =
        Api.SubmitWithChildrenRequest.newBuilder()
            .setTask(task)
            .addAllChildren(part)
            .setName(children.name());
    if (part.size() < all.size()) {
      first.setOpen(true);
    } else {
      first.setCount(children.count()).setOrFailed(children.isOrFailed());
    }
    if (children.until() != null) {
      first.setUntil(Times.timestamp(children.until()));
    }
    Api.SubmitWithChildrenResponse answer =
        calls.make(Methods.SUBMIT_WITH_CHILDREN, first.build(), true, timeout);
    Receipt receipt = Flow.receiptOf(answer.getReceipt());
    receipt = Submission.firstOfTwo(receipt, task.getId(), decorated.id() == null);
    if (answer.getOpen()) {
      addMore(receipt, children, all, part.size());
    }
    return receipt;
  }

  Receipt open(Request request, Children first) {
    Request decorated = requests.decorated(request);
    Api.NewTask task = requests.message(decorated);
    List<Api.NewTask> all = first.requests().stream().map(requests::child).toList();
    List<Api.NewTask> part = partOf(all);
    Api.SubmitWithChildrenRequest.Builder message =
        Api.SubmitWithChildrenRequest.newBuilder()
            .setTask(task)
            .addAllChildren(part)
            .setName(first.name())
            .setCount(first.count())
            .setOrFailed(first.isOrFailed())
            .setOpen(true);
    if (first.until() != null) {
      message.setUntil(Times.timestamp(first.until()));
    }
    Api.SubmitWithChildrenResponse answer =
        calls.make(Methods.SUBMIT_WITH_CHILDREN, message.build(), true, timeout);
    Receipt receipt = Flow.receiptOf(answer.getReceipt());
    receipt = Submission.firstOfTwo(receipt, task.getId(), decorated.id() == null);
    if (answer.getOpen() && part.size() < all.size()) {
      Api.AddChildrenRequest id = of(receipt.id(), first.name());
      add(id, part.size(), all.subList(part.size(), all.size()), null);
    }
    return receipt;
  }

  ChildrenAdded add(String id, int from, Children children) {
    if (children.count() != 0 || children.isOrFailed() || children.until() != null) {
      throw Failure.invalid("how the task waits is said when the children are closed").exception();
    }
    List<Api.NewTask> all = children.requests().stream().map(requests::child).toList();
    return add(of(id, children.name()), from, all, null);
  }

  ChildrenAdded close(String id, int from, Children last) {
    if (last.until() != null) {
      throw Failure.invalid("until is said when the task is submitted").exception();
    }
    List<Api.NewTask> all = last.requests().stream().map(requests::child).toList();
    return add(of(id, last.name()), from, all, last);
  }

  private static Api.AddChildrenRequest of(String id, String name) {
    return Api.AddChildrenRequest.newBuilder().setId(id).setName(name).build();
  }

  /**
   * Adds children from a number on, in as many requests as they need, of which the last closes them
   * if it is known how the task waits.
   */
  private ChildrenAdded add(
      Api.AddChildrenRequest id, int from, List<Api.NewTask> all, @Nullable Children how) {
    if (from < 0) {
      throw Failure.invalid("the number of the first child is " + from + ": give 0 or more")
          .exception();
    }
    for (int sent = 0; ; ) {
      List<Api.NewTask> part = partOf(all.subList(sent, all.size()));
      Api.AddChildrenRequest.Builder request =
          id.toBuilder().setFrom(from + sent).addAllChildren(part);
      sent += part.size();
      boolean isLast = sent == all.size();
      if (isLast && how != null) {
        request.setClose(true).setCount(how.count()).setOrFailed(how.isOrFailed());
      }
      Api.AddChildrenResponse answer =
          calls.make(Methods.ADD_CHILDREN, request.build(), true, timeout);
      if (isLast) {
        return new ChildrenAdded(answer.getAdded(), answer.getOpen());
      }
    }
  }

  /**
   * Adds all children from one on. If the task was there before, it adds those that are missing, if
   * the task takes more.
   */
  private void addMore(Receipt receipt, Children children, List<Api.NewTask> all, int from) {
    Api.AddChildrenRequest id =
        Api.AddChildrenRequest.newBuilder().setId(receipt.id()).setName(children.name()).build();
    if (!receipt.created()) {
      Api.AddChildrenResponse there = calls.make(Methods.ADD_CHILDREN, id, true, timeout);
      if (!there.getOpen()) {
        return;
      }
      from = Math.min(there.getAdded(), all.size());
    }
    boolean isOpen = true;
    while (isOpen) {
      List<Api.NewTask> part = partOf(all.subList(from, all.size()));
      Api.AddChildrenRequest.Builder request = id.toBuilder().setFrom(from).addAllChildren(part);
      from += part.size();
      if (from == all.size()) {
        request.setClose(true).setCount(children.count()).setOrFailed(children.isOrFailed());
      }
      isOpen = calls.make(Methods.ADD_CHILDREN, request.build(), true, timeout).getOpen();
    }
  }

  /** The first children of all, as many as a request may have. */
  private static List<Api.NewTask> partOf(List<Api.NewTask> all) {
    int size = 0;
    int end = Math.min(all.size(), PART);
    for (int i = 0; i < end; i++) {
      size += all.get(i).getSerializedSize();
      if (size > PART_BYTES && i > 0) {
        return all.subList(0, i);
      }
    }
    return all.subList(0, end);
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
