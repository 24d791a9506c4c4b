package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;

/**
 * Adds, reads and retries workflows: {@link TaskengineClient#workflows}. {@link
 * TaskengineClient#cancelTree} cancels one, and {@link TaskengineClient#await} and {@link
 * TaskengineClient#result} wait for its end.
 */
public final class Workflows {
  private final Calls calls;
  private final Requests requests;
  private final long timeout;

  Workflows(Calls calls, Requests requests, long timeout) {
    this.calls = calls;
    this.requests = requests;
    this.timeout = timeout;
  }

  /**
   * Adds a workflow, and returns when it is durable. If no node answers, it asks again until the
   * timeout is over, and the workflow is added once. The decorate of the client is not called.
   *
   * @param request for the workflow
   * @return which task is the workflow
   * @throws NotFoundException if the configuration of the node has no workflow with the name
   */
  public Receipt submit(WorkflowRequest request) {
    Api.SubmitWorkflowRequest message = requests.message(request);
    Api.SubmitWorkflowResponse answer = calls.make(Methods.SUBMIT_WORKFLOW, message, true, timeout);
    Receipt receipt = Flow.receiptOf(answer.getReceipt());
    return Submission.firstOfTwo(receipt, message.getId(), request.id() == null);
  }

  /**
   * A workflow.
   *
   * @param id of its task
   * @return the workflow
   */
  public Workflow get(String id) {
    return get(Api.GetWorkflowRequest.newBuilder().setId(id).build());
  }

  /**
   * The workflow that has a key.
   *
   * @param key of the workflow
   * @return the workflow
   */
  public Workflow find(String key) {
    return get(Api.GetWorkflowRequest.newBuilder().setKey(key).build());
  }

  private Workflow get(Api.GetWorkflowRequest request) {
    return Messages.workflow(
        calls.make(Methods.GET_WORKFLOW, request, true, timeout).getWorkflow());
  }

  /**
   * Has a workflow run again that has failed, was cancelled or is in error, whatever its version
   * is. The steps that have failed, were stopped or were compensated run anew, with those after
   * them.
   *
   * @param id of its task
   * @return the workflow some time after the change
   */
  public Workflow retry(String id) {
    return retry(id, "", 0);
  }

  /**
   * Has a workflow run again that has failed, was cancelled or is in error. The steps that have
   * failed, were stopped or were compensated run anew, with those after them.
   *
   * @param id of its task
   * @param from a step that runs anew, too, with those after it; empty for none
   * @param version at which the task is to be changed; 0 is any
   * @return the workflow some time after the change
   * @throws ConflictException if the task is at another version
   */
  public Workflow retry(String id, String from, long version) {
    Api.RetryWorkflowRequest request =
        Api.RetryWorkflowRequest.newBuilder().setId(id).setFrom(from).setVersion(version).build();
    return Messages.workflow(
        calls.make(Methods.RETRY_WORKFLOW, request, false, timeout).getWorkflow());
  }
}
